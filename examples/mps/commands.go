package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// statusReport is the JSON of status.
type statusReport struct {
	Simulated     bool          `json:"simulated,omitempty"`
	PipeDirectory string        `json:"pipe_directory"`
	Support       mps.Support   `json:"support"`
	Limits        *mps.Limits   `json:"limits,omitempty"` // nil where the daemon did not tell
	Snapshot      *mps.Snapshot `json:"snapshot,omitempty"`
}

// memory returns limits as people read them.
func memory(limits []mps.DeviceLimit) string {
	var out []string
	for _, l := range limits {
		out = append(out, l.Device+"="+l.Limit.String())
	}
	return strings.Join(out, ", ")
}

// threads returns a client's percentage, or "-" where it is not known.
func threads(m mps.Membership) string {
	for _, cell := range []sharing.Cell[float64]{m.EffectivePercentage, m.ServerPercentage} {
		if p, ok := cell.Get(); ok {
			return fmt.Sprintf("%g%%", p)
		}
	}
	return "-"
}

func (c *config) status(cl *mps.Client) error {
	s, err := cl.Probe(c.ctx)
	if err != nil {
		return err
	}
	r := statusReport{Simulated: !c.real, PipeDirectory: cl.PipeDirectory(), Support: s}
	if s.Running == sharing.AnswerYes && s.Protocol == mps.ProtocolV2 {
		if limits, err := cl.Limits(c.ctx); err == nil {
			r.Limits = &limits
		}
		snap, err := cl.Snapshot(c.ctx)
		if err != nil {
			return err
		}
		if !c.real {
			snap.Time = time.Time{} // the same input gives the same bytes
		}
		r.Snapshot = &snap
	}
	return c.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "daemon at %s: installed %v, running %v, protocol %v\n",
			r.PipeDirectory, s.Installed, s.Running, s.Protocol)
		if r.Limits != nil {
			fmt.Fprintf(w, "next server: %g%% of the threads, memory [%s]\n", r.Limits.Percentage, memory(r.Limits.Memory))
		}
		if r.Snapshot != nil {
			for _, s := range r.Snapshot.Servers {
				fmt.Fprintf(w, "server %d: %v, clients %v\n", s.Server, s.State, s.Clients)
			}
		}
	})
}

func (c *config) start(cl *mps.Client) error {
	if !c.real {
		fmt.Fprintf(c.stdout, "started at %s, and gone with this process\n", cl.PipeDirectory())
		return nil
	}
	cl, err := mps.StartDetached(c.ctx, mps.DaemonOptions{Program: c.program(), Runner: c.runner, PipeDirectory: c.pipe,
		LogDirectory: c.log, Timeout: c.timeout})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "started; clients need %s=%s\n", mps.EnvPipeDirectory, cl.PipeDirectory())
	return nil
}

// stop ends a daemon that an earlier run has started, and its servers.
func (c *config) stop(cl *mps.Client) error {
	if !c.real {
		graceful, err := cl.Quit(c.ctx, c.grace)
		if err == nil {
			fmt.Fprintf(c.stdout, "stopped; every server ended by itself: %t\n", graceful)
		}
		return err
	}
	d, err := mps.Adopt(c.ctx, mps.DaemonOptions{Program: c.program(), Runner: c.runner, PipeDirectory: c.pipe,
		Timeout: c.timeout})
	if err != nil {
		return err
	}
	r, err := d.Stop(c.ctx, c.grace)
	if err == nil {
		fmt.Fprintf(c.stdout, "stopped; every server ended by itself: %t\n", r.Graceful)
	}
	return err
}

func (c *config) limit(cl *mps.Client) error {
	if c.percent == 0 && c.memory == 0 {
		return fmt.Errorf("%w: limit needs -percent, -memory or both", errUsage)
	}
	if c.percent != 0 {
		if err := cl.SetActiveThreadPercentage(c.ctx, c.server, c.percent); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "in force: %g%% of the threads\n", c.percent)
	}
	if c.memory != 0 {
		if err := cl.SetPinnedMemLimit(c.ctx, c.server, c.device, c.memory); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "in force: %v for each process on device %s\n", c.memory, c.device)
	}
	fmt.Fprintln(c.stdout, "it holds for clients that connect from now on"+map[bool]string{true: "",
		false: ", once a new server has started"}[c.server != 0])
	return nil
}

// environment builds a client's environment from the flags.
func (c *config) environment(cl *mps.Client) (mps.ClientEnvironment, error) {
	env := mps.ClientEnvironment{PipeDirectory: cl.PipeDirectory(), DaemonPipeDirectory: cl.PipeDirectory(),
		ActiveThreadPercentage: c.percent}
	if c.limits != "" {
		limits, err := mps.ParsePinnedMemLimits(c.limits)
		if err != nil {
			return env, fmt.Errorf("-limits: %w", err)
		}
		env.PinnedMemLimits = limits
	}
	devices, err := cl.Devices(c.ctx, 0)
	if err != nil && !errors.Is(err, mps.ErrRejected) { // some daemons cannot tell before their first server
		return env, err
	}
	for _, s := range devices {
		if s.Server == 0 {
			for _, d := range s.Devices {
				env.GPUs = append(env.GPUs, mps.GPU{Ordinal: d.Ordinal, UUID: d.UUID})
			}
		}
	}
	return env, nil
}

func (c *config) runClient(cl *mps.Client) error {
	if len(c.args) == 0 {
		return fmt.Errorf("%w: run needs a command: run -- CMD", errUsage)
	}
	env, err := c.environment(cl)
	if err != nil {
		return err
	}
	if !c.real {
		vars, err := env.Build()
		if err != nil {
			return err
		}
		for _, v := range vars {
			fmt.Fprintln(c.stdout, v)
		}
		fmt.Fprintf(c.stdout, "%q would run with these\n", c.args)
		return nil
	}
	cmd := exec.CommandContext(c.ctx, c.args[0], c.args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if cmd.Env, err = env.Environ(os.Environ()); err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.child, c.stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	verified := make(chan struct{})
	go func() {
		defer close(verified)
		m, err := cl.Verify(ctx, cmd.Process.Pid, mps.VerifyOptions{Wait: c.wait})
		switch {
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(c.stderr, "mps: process %d ended before it became a client\n", cmd.Process.Pid)
		case err != nil:
			fmt.Fprintf(c.stderr, "mps: verify: %v\n", err)
		case m.Client == sharing.AnswerYes:
			fmt.Fprintf(c.stderr, "mps: process %d is a client of server %d\n", m.PID, m.Server)
		default:
			fmt.Fprintf(c.stderr, "mps: process %d is no client: %s\n", m.PID, m.Reason)
		}
	}()
	err = <-done
	cancel()
	<-verified
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return &page.ExitError{Code: exit.ExitCode()}
	}
	return err
}

func (c *config) verify(cl *mps.Client) error {
	pids, err := c.pids(cl)
	if err != nil {
		return err
	}
	rows, missing := []mps.Membership{}, 0
	for _, pid := range pids {
		m, err := cl.Verify(c.ctx, pid, mps.VerifyOptions{})
		if err != nil {
			return err
		}
		if m.Client != sharing.AnswerYes {
			missing++
		}
		rows = append(rows, m)
	}
	report := struct {
		Simulated bool             `json:"simulated,omitempty"`
		Processes []mps.Membership `json:"processes"`
	}{!c.real, rows}
	err = c.print(report, func(w io.Writer) {
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "PID\tclient\tserver\tthreads\tmemory\tbecause")
		for _, r := range rows {
			fmt.Fprintf(tw, "%d\t%v\t%d\t%s\t[%s]\t%s\n", r.PID, r.Client, r.Server, threads(r), memory(r.ServerLimits),
				r.Reason)
		}
		if err := tw.Flush(); err != nil {
			fmt.Fprintf(c.stderr, "mps: %v\n", err)
		}
	})
	if err == nil && missing > 0 {
		return fmt.Errorf("%w: %d of %d", mps.ErrNotClient, missing, len(pids))
	}
	return err
}

func (c *config) pids(cl *mps.Client) (pids []int, err error) {
	for _, a := range c.args {
		pid, err := strconv.Atoi(a)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("%w: %q is no process ID", errUsage, a)
		}
		pids = append(pids, pid)
	}
	if len(c.args) > 0 {
		return pids, nil
	}
	s, err := cl.Snapshot(c.ctx)
	for _, srv := range s.Servers {
		pids = append(pids, srv.Clients...)
	}
	return pids, err
}

// terminate has servers end the work of clients, whose processes may then be killed.
func (c *config) terminate(cl *mps.Client) error {
	if len(c.args) == 0 {
		return fmt.Errorf("%w: terminate needs process IDs", errUsage)
	}
	pids, err := c.pids(cl)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		m, err := cl.Verify(c.ctx, pid, mps.VerifyOptions{})
		if err == nil {
			err = m.Require()
		}
		if err != nil {
			return err
		}
		r, err := cl.StopClient(c.ctx, m.Server, pid, mps.StopOptions{})
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "process %d can be killed; server %d is %v, its other clients: %v\n", pid, m.Server, r.State,
			r.Others)
	}
	return nil
}
