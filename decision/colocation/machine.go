// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// MachineOptions configure [NewMachine]. The zero value measures without telemetry and without a spinning neighbour.
type MachineOptions struct {
	// Dir is the working folder of the servers' commands; "" is the current one.
	Dir string
	// Program is the MPS control program; nil finds it on the PATH.
	Program *mps.Program
	// Source reads the GPU. If it is nil, prediction intervals are wider.
	Source telemetry.Reader
	// Probe opens the probe of the plan's GPU, by UUID unless that is "", with the running MPS daemon at a pipe directory
	// unless that is ""; see cudaprobe.Open. If it is nil, no tenant is measured next to a spinning neighbour or a stress
	// kernel.
	Probe func(ctx context.Context, uuid, pipe string) (Prober, error)
}

// Prober runs tasks of package probe on the measured GPU; cudaprobe.Site implements it.
type Prober interface {
	// NextToSpinner calls run while a neighbour spins on the GPU.
	NextToSpinner(ctx context.Context, run func(context.Context) error) error
	// Run is as in probe.Site.
	Run(ctx context.Context, m sharing.Mechanism, tasks ...probe.Task) ([]probe.Reading, error)
	Close() error
}

// machine is a Site of real servers on one of this machine's GPUs.
type machine struct {
	opts     MachineOptions
	plan     *Plan
	snapshot probe.Snapshot
	say      func(format string, args ...any)

	runner mps.Runner // for tests: nil is the program
}

// NewMachine returns the Site of real servers on the plan's GPU. It inspects the GPU through opts.Source, and refuses
// one in MIG mode. [Measure] starts the servers.
func NewMachine(ctx context.Context, plan *Plan, opts MachineOptions) (Site, error) {
	opts.Program = cmp.Or(opts.Program, &mps.Program{})
	m := &machine{opts: opts, plan: plan}
	if opts.Source == nil {
		return m, nil
	}
	snapshot, err := probe.Inspect(ctx, opts.Source, plan.Device)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	m.snapshot = *snapshot
	return m, nil
}

func (m *machine) basis() sharing.Basis {
	if m.opts.Source != nil {
		return m.opts.Source.Info().Basis
	}
	return sharing.BasisMeasured
}

func (m *machine) predictor() *predict.Predictor {
	p := predict.NewPredictor()
	return &p
}

// visible returns the UUID to which servers must be confined, "" where the GPU is the only one or unknown.
func (m *machine) visible() string {
	if m.snapshot.Only {
		return ""
	}
	return m.snapshot.Device.UUID
}

func (m *machine) gpu() (string, string) { return m.snapshot.Device.Name, m.snapshot.Driver }

func (m *machine) start(ctx context.Context, md sharing.Mechanism, dir string,
	say func(format string, args ...any)) (*deployment, error) {
	m.say = say
	st := &deployment{source: m.opts.Source, device: m.plan.Device, close: func() error { return nil }}
	if m.opts.Probe != nil {
		st.spinning = func(ctx context.Context, run func(context.Context) error) error {
			return m.probe(ctx, "", func(p Prober) error { return p.NextToSpinner(ctx, run) })
		}
	}
	for i := range m.plan.Servers {
		st.endpoints = append(st.endpoints, loadgen.Endpoint{URL: m.plan.Servers[i].URL})
	}
	if len(m.plan.Servers[0].Command) == 0 {
		st.notes = append(st.notes, "the servers ran already: that they run under "+md.String()+" is the plan's word")
		for i := range m.plan.Servers {
			if err := m.ready(ctx, &server{plan: &m.plan.Servers[i]}, nil); err != nil {
				return nil, err
			}
		}
		return st, nil
	}
	if m.opts.Source != nil {
		for _, h := range probe.Holders(ctx, m.opts.Source, m.plan.Device) {
			st.notes = append(st.notes, h+" holds the GPU too: its work is part of what was measured")
			st.strangers = append(st.strangers, h)
		}
	}
	logs := filepath.Join(dir, "servers")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	// The daemon's sockets need a short path on a local file system.
	sockets, err := os.MkdirTemp("", "cotenant-mps-")
	if err != nil {
		return nil, err
	}
	g := &group{machine: m, mode: md, logs: logs, pipe: filepath.Join(sockets, "pipe")}
	st.close = sync.OnceValue(func() error { return errors.Join(g.close(), os.RemoveAll(sockets)) })
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(err, st.close())
	}
	st.notes = append(st.notes, g.notes...)
	st.tenants = g.servers
	if g.daemon != nil && m.opts.Probe != nil {
		st.stressed = func(ctx context.Context, play player, use func(probe.Tenant) error) error {
			return m.probe(ctx, g.pipe, func(p Prober) error { return use(&stressing{p, play}) })
		}
	}
	return st, nil
}

// probe opens the GPU for use, and closes it.
func (m *machine) probe(ctx context.Context, pipe string, use func(Prober) error) error {
	p, err := m.opts.Probe(ctx, m.snapshot.Device.UUID, pipe)
	if err != nil {
		return err
	}
	return errors.Join(use(p), p.Close())
}

// ready waits until a server answers, while none of those that were started ends, and reports that every few seconds.
func (m *machine) ready(ctx context.Context, s *server, started []*server) error {
	ctx, cancel := context.WithTimeoutCause(ctx, milliseconds(1e3*m.plan.StartSecs),
		fmt.Errorf("%s is not ready within %v s (start_seconds)", s.plan.Name, m.plan.StartSecs))
	defer cancel()
	began, next, last := time.Now(), reportEvery, ""
	for {
		err := s.answers(ctx)
		if err == nil {
			return nil
		}
		if s.meter != nil && !errors.Is(err, errNoStep) {
			return fmt.Errorf("tenant %s: %w", s.plan.Name, err)
		}
		if waited := time.Since(began); waited >= next {
			tail := s.tail()
			m.say("%s is not ready after %v: %v; its last lines:\n%s", s.plan.Name, waited.Round(time.Second), err,
				map[bool]string{true: "  (as before)", false: tail}[tail == last])
			next, last = next+reportEvery, tail
		}
		if i := slices.IndexFunc(started, (*server).ended); i >= 0 {
			return fmt.Errorf("server %s ended (%v):\n%s", started[i].plan.Name, started[i].err, started[i].tail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w\n%s", context.Cause(ctx), err, s.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// group is the servers of one mode, and their daemon.
type group struct {
	machine *machine
	mode    sharing.Mechanism
	logs    string
	pipe    string
	daemon  *mps.Daemon // nil under time-slicing
	servers []*server
	notes   []string
}

func (g *group) start(ctx context.Context) error {
	if g.mode != sharing.MechanismTimeSlicing {
		if err := g.startDaemon(ctx); err != nil {
			return err
		}
	}
	for i := range g.machine.plan.Servers {
		p := &g.machine.plan.Servers[i]
		env, err := g.environ(ctx, p)
		if err != nil {
			return fmt.Errorf("server %s: %w", p.Name, err)
		}
		s, err := startServer(p, env, g.machine.opts.Dir, filepath.Join(g.logs, p.Name+".log"))
		if err != nil {
			return fmt.Errorf("server %s: %w", p.Name, err)
		}
		g.servers = append(g.servers, s)
	}
	for _, s := range g.servers {
		if err := g.machine.ready(ctx, s, g.servers); err != nil {
			return err
		}
	}
	var err error
	if g.daemon != nil {
		err = g.verify(ctx)
	}
	for _, s := range g.servers {
		if err == nil && s.meter != nil {
			err = s.halt(true)
		}
	}
	return err
}

// startDaemon starts an MPS control daemon of the mode's own; others on the machine keep running.
func (g *group) startDaemon(ctx context.Context) error {
	o := mps.DaemonOptions{Program: g.machine.opts.Program, Runner: g.machine.runner, PipeDirectory: g.pipe,
		LogDirectory: filepath.Join(filepath.Dir(g.logs), "mps-log")}
	if u := g.machine.visible(); u != "" {
		o.VisibleDevices = []string{u}
	}
	var err error
	if o.LogDirectory, err = filepath.Abs(o.LogDirectory); err != nil {
		return err
	}
	g.daemon, err = mps.Start(ctx, o)
	return err
}

// environ is the environment of a server in the mode.
func (g *group) environ(ctx context.Context, p *Server) ([]string, error) {
	if g.daemon == nil {
		// A pipe directory without a daemon keeps the server from becoming a
		// client of another daemon that runs in the default one.
		env, err := (mps.ClientEnvironment{PipeDirectory: g.pipe}).Environ(os.Environ())
		if u := g.machine.visible(); err == nil && u != "" {
			env = append(env, mps.EnvVisibleDevices+"="+u)
		}
		return env, err
	}
	c := g.daemon.Client()
	e := mps.ClientEnvironment{PipeDirectory: c.PipeDirectory(), DaemonPipeDirectory: c.PipeDirectory()}
	if u := g.machine.visible(); u != "" {
		// The daemon shows only this GPU; frameworks that count by NVML must too.
		e.VisibleDevices = []string{u}
	}
	if g.mode == sharing.MechanismMIGLikeEmulation {
		e.ActiveThreadPercentage = p.Percent
		limit := cmp.Or(p.MemoryLimit,
			sharing.Bytes(p.Percent/100*float64(g.machine.snapshot.Memory))/sharing.MiB*sharing.MiB)
		if limit > 0 {
			snapshot := &g.machine.snapshot
			e.GPUs = []mps.GPU{{UUID: snapshot.Device.UUID, Memory: snapshot.Memory}}
			if snapshot.Device.UUID == "" {
				var err error
				if e.GPUs, err = g.daemon.Client().Devices(ctx); err != nil {
					return nil, err
				}
			}
			e.PinnedMemLimits = []mps.DeviceLimit{{Device: "0", Limit: limit}}
		} else {
			g.notes = append(g.notes, fmt.Sprintf("server %s has no memory limit: neither the plan nor the GPU states one",
				p.Name))
		}
	}
	return e.Environ(os.Environ())
}

// errNotMPS is the error for fewer MPS clients than started servers.
var errNotMPS = errors.New("servers run without MPS, so nothing was measured")

// verify checks in the daemon's own lists that the servers are its clients. Where a
// server works in a child process, the number of clients is checked.
func (g *group) verify(ctx context.Context) error {
	c := g.daemon.Client()
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	var clients []int
	for _, s := range snap.Servers {
		clients = append(clients, s.Clients...)
	}
	if len(clients) < len(g.servers) {
		return fmt.Errorf("%w: the daemon lists %d clients for %d servers", errNotMPS, len(clients), len(g.servers))
	}
	for i, s := range g.servers {
		p := &g.machine.plan.Servers[i]
		pid := s.cmd.Process.Pid
		if !slices.Contains(clients, pid) {
			g.notes = append(g.notes, fmt.Sprintf("server %s works in another process than the one that was started; its "+
				"limits could not be verified", p.Name))
			continue
		}
		m, err := c.Verify(ctx, pid, mps.VerifyOptions{})
		if err == nil {
			err = m.Require()
		}
		if err != nil {
			return fmt.Errorf("server %s: %w", p.Name, err)
		}
		for _, w := range m.Warnings {
			g.notes = append(g.notes, fmt.Sprintf("server %s: %s", p.Name, w))
		}
	}
	return nil
}

// close ends the servers, each of them as an MPS client if it is one, and then the daemon.
func (g *group) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 6*graceful)
	defer cancel()
	var errs []error
	for _, s := range g.servers {
		errs = append(errs, s.halt(false)) // a halted client cannot leave
	}
	if g.daemon != nil {
		errs = append(errs, g.leave(ctx))
	}
	for _, s := range g.servers {
		errs = append(errs, s.stop())
	}
	if g.daemon != nil {
		_, err := g.daemon.Stop(ctx, graceful)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// leave has the MPS server terminate its clients: killing a client during its work has
// undefined effects on the others and on the server.
func (g *group) leave(ctx context.Context) error {
	c := g.daemon.Client()
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range snap.Servers {
		for _, pid := range s.Clients {
			if err := c.TerminateClient(ctx, s.Server, pid); !errors.Is(err, mps.ErrClientNotFound) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
