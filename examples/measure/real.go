package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// machine is a site of real servers on this machine's GPU.
type machine struct {
	plan    *colocation.Plan
	dir     string // of the servers' commands
	program *mps.Program
	runner  mps.Runner // nil = program

	beside func(context.Context, func(context.Context) error) error // runs something beside a spinning neighbour
	source telemetry.Reader                                         // nil without telemetry
	device telemetry.Device
	only   bool // it is the machine's only GPU
	driver string
	total  sharing.Bytes // memory of the GPU, 0 = not known
}

// openMachine opens NVML, finds the plan's GPU and looks whether it is free.
func openMachine(c *config, p *colocation.Plan) (site, func() error, error) {
	m := &machine{plan: p, dir: c.dir, program: &mps.Program{Path: c.control}}
	m.beside = m.spinOn
	if c.noTelemetry {
		return m, func() error { return nil }, nil
	}
	src, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: c.nvml})
	if err != nil {
		return nil, nil, fmt.Errorf("%w\n-no-telemetry measures without it, -simulate without a GPU", err)
	}
	m.source = src
	if err := m.look(context.Background()); err != nil {
		return nil, nil, errors.Join(err, src.Close())
	}
	return m, src.Close, nil
}

// look reads what there is to know of the GPU before anything runs.
func (m *machine) look(ctx context.Context) error {
	devices, err := m.source.Devices(ctx)
	if err != nil {
		return err
	}
	if m.plan.Device >= len(devices) {
		return fmt.Errorf("device: there is no GPU %d, the machine has %d", m.plan.Device, len(devices))
	}
	m.device, m.only = devices[m.plan.Device], len(devices) == 1
	if m.device.MIG == sharing.AnswerYes {
		return fmt.Errorf("device: GPU %d has MIG enabled: modes that share a whole GPU cannot be measured on it, and this program does not change MIG", m.plan.Device)
	}
	if d, ok := strings.CutPrefix(m.source.Info().Detail, "driver "); ok {
		m.driver = d
	}
	var r telemetry.Reading
	if err := m.source.Read(ctx, m.plan.Device, telemetry.GroupBasic, &r); err != nil {
		return err
	}
	if v, ok := r.Get(telemetry.MetricMemTotalBytes); ok {
		m.total = sharing.Bytes(v)
	}
	return nil
}

func (m *machine) basis() sharing.Basis {
	if m.source != nil {
		return m.source.Info().Basis
	}
	return sharing.BasisMeasured
}

// visible is the UUID that servers must be confined to, "" where there is no
// other GPU or nobody knows.
func (m *machine) visible() string {
	if m.only {
		return ""
	}
	return m.device.UUID
}

func (m *machine) gpu() (string, string) { return m.device.Name, m.driver }

// strangers lists the processes that hold the GPU already: what is measured
// beside them is not what the plan says.
func (m *machine) strangers(ctx context.Context) []string {
	if m.source == nil {
		return nil
	}
	var r telemetry.Reading
	if err := m.source.Read(ctx, m.plan.Device, telemetry.GroupProcesses, &r); err != nil {
		return []string{"the GPU's processes could not be listed: " + err.Error()}
	}
	var out []string
	for _, p := range r.Processes {
		name := p.Name
		if name == "" {
			name = "?"
		}
		out = append(out, fmt.Sprintf("process %d (%s) holds the GPU too: it is part of what was measured", p.PID, name))
	}
	return out
}

func (m *machine) start(ctx context.Context, md sharing.Mechanism, dir string) (*stand, error) {
	st := &stand{source: m.source, device: m.plan.Device, beside: m.beside, close: func() error { return nil }}
	for i := range m.plan.Servers {
		st.endpoints = append(st.endpoints, loadgen.Endpoint{URL: m.plan.Servers[i].URL})
	}
	st.dead, st.tail = map[int]error{}, func(int) string { return "" }
	st.ask = func(ctx context.Context, server int) error { return askToken(ctx, &m.plan.Servers[server]) }
	if len(m.plan.Servers[0].Command) == 0 {
		st.notes = append(st.notes, "the servers ran already: that they run under "+md.String()+" is the plan's word")
		for i := range m.plan.Servers {
			if err := m.ready(ctx, &m.plan.Servers[i], nil); err != nil {
				return nil, err
			}
		}
		return st, nil
	}
	st.notes = m.strangers(ctx)
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
	st.tail = func(server int) string { return g.servers[server].tail() }
	return st, nil
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
		s, err := startServer(p, env, g.machine.dir, filepath.Join(g.logs, p.Name+".log"))
		if err != nil {
			return fmt.Errorf("server %s: %w", p.Name, err)
		}
		g.servers = append(g.servers, s)
	}
	for i, s := range g.servers {
		if err := g.machine.ready(ctx, &g.machine.plan.Servers[i], s); err != nil {
			return err
		}
	}
	if g.daemon == nil {
		return nil
	}
	return g.verify(ctx)
}

// startDaemon starts an MPS control daemon of the mode's own, beside any other.
func (g *group) startDaemon(ctx context.Context) error {
	o := mps.DaemonOptions{Program: g.machine.program, Runner: g.machine.runner, PipeDirectory: g.pipe, LogDirectory: filepath.Join(filepath.Dir(g.logs), "mps-log")}
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
func (g *group) environ(ctx context.Context, p *colocation.Server) ([]string, error) {
	if g.daemon == nil {
		// A pipe directory without a daemon keeps the server from becoming a
		// client of a daemon that somebody runs in the default one.
		env, err := (mps.ClientEnvironment{PipeDirectory: g.pipe}).Environ(os.Environ())
		if u := g.machine.visible(); err == nil && u != "" {
			env = append(env, mps.EnvVisibleDevices+"="+u)
		}
		return env, err
	}
	c := g.daemon.Client()
	e := mps.ClientEnvironment{PipeDirectory: c.PipeDirectory(), DaemonPipeDirectory: c.PipeDirectory()}
	if u := g.machine.visible(); u != "" {
		// The daemon shows this GPU alone; frameworks that count by NVML must too.
		e.VisibleDevices = []string{u}
	}
	if g.mode == sharing.MechanismMIGLikeEmulation {
		e.ActiveThreadPercentage = p.Percent
		limit := p.MemoryLimit
		if limit == 0 {
			limit = sharing.Bytes(p.Percent/100*float64(g.machine.total)) / sharing.MiB * sharing.MiB
		}
		if limit > 0 {
			var err error
			if e.GPUs, err = g.clientGPUs(ctx); err != nil {
				return nil, err
			}
			e.PinnedMemLimits = []mps.DeviceLimit{{Device: "0", Limit: limit}}
		} else {
			g.notes = append(g.notes, fmt.Sprintf("server %s has no memory limit: neither the plan nor the GPU says how much", p.Name))
		}
	}
	return e.Environ(os.Environ())
}

// clientGPUs lists the devices that clients will see: the daemon serves one GPU
// where it is known which, else whatever it says.
func (g *group) clientGPUs(ctx context.Context) ([]mps.GPU, error) {
	if m := g.machine; m.device.UUID != "" {
		return []mps.GPU{{UUID: m.device.UUID, Memory: m.total}}, nil
	}
	devices, err := g.daemon.Client().Devices(ctx, 0)
	var out []mps.GPU
	for _, s := range devices {
		if s.Server == 0 {
			for _, d := range s.Devices {
				out = append(out, mps.GPU{Ordinal: d.Ordinal, UUID: d.UUID})
			}
		}
	}
	return out, err
}

// errNotMPS says that fewer processes are clients than servers were started.
var errNotMPS = errors.New("servers run without MPS, so nothing was measured")

// verify proves by the daemon's own lists that the servers are its clients. A
// server whose work is done by a child is told by the number of clients.
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
			g.notes = append(g.notes, fmt.Sprintf("server %s works in another process than the one that was started; its limits could not be verified", p.Name))
			continue
		}
		m, err := c.Verify(ctx, pid, mps.VerifyOptions{})
		if err != nil {
			return fmt.Errorf("server %s: %w", p.Name, err)
		}
		if err := m.Require(); err != nil {
			return fmt.Errorf("server %s: %w", p.Name, err)
		}
		for _, w := range m.Warnings {
			g.notes = append(g.notes, fmt.Sprintf("server %s: %s", p.Name, w))
		}
	}
	return nil
}

// graceful is how long servers and daemon have to end by themselves.
const graceful = 10 * time.Second

// close ends the servers, each of them as an MPS client if it is one, and then
// the daemon.
func (g *group) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 6*graceful)
	defer cancel()
	var errs []error
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

// leave has the MPS server end its work for the clients: a client that is killed
// in the middle of its work is undefined for the others and for the server.
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
