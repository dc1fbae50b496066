// SPDX-License-Identifier: Apache-2.0

// Command mps drives CUDA MPS: start a control daemon, limit its clients, run commands as clients, prove that they
// are clients, and stop. Without -real it plays all of it on a fake daemon and needs no GPU.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `usage: mps [flags] [command]

commands (verify if none is given):
  start            run a control daemon until it is interrupted or stopped
  limit            set and read back limits: -percent, -memory, -device
  run -- CMD ...   run a command as an MPS client, and say whether it is one
  verify [PID ...] prove membership; without PIDs of every client
  stop             end the daemon; clients have -grace to leave

It never changes compute mode, clocks, persistence, MIG or compute policy.

exit: 0 done; 1 a process is no client; 2 bad input; 5 could not be done; 130 interrupted;
run: as the command

flags:
`

// config holds the flags.
type config struct {
	real                  bool
	daemon                mps.DaemonOptions
	control, device       string
	grace, wait           time.Duration
	percent               float64
	memory                sharing.Bytes
	ctx                   context.Context
	args                  []string
	stdin                 io.Reader
	stdout, stderr, child io.Writer // child: of a command that runs
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&config{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}).run(args)
}

func (c *config) run(args []string) int {
	c.child = c.stdout
	// A command that runs writes to stderr too. Files take that as it is.
	if _, ok := c.stderr.(*os.File); !ok {
		c.stderr, _ = page.Check("mps", c.stderr, io.Discard)
	}
	return page.Run(c.ctx, "mps", c.stdout, c.stderr, func(stdout io.Writer) error {
		c.stdout = stdout
		err := c.dispatch(args)
		switch {
		case errors.Is(err, mps.ErrInvalid):
			return page.BadInput(err)
		case errors.Is(err, mps.ErrNotClient):
			return page.ExitWith(page.ExitNo, err)
		case err != nil && c.ctx.Err() != nil:
			return page.ExitWith(page.ExitInterrupted, err)
		}
		return err
	})
}

func (c *config) dispatch(args []string) error {
	fs := page.FlagSet("mps")
	fs.BoolVar(&c.real, "real", false, "use this machine's nvidia-cuda-mps-control instead of the fake")
	fs.StringVar(&c.daemon.PipeDirectory, "pipe", "", "pipe directory (default "+mps.DefaultPipe+")")
	fs.StringVar(&c.daemon.LogDirectory, "log", "", "log directory (default "+mps.DefaultLog+")")
	fs.StringVar(&c.control, "control", "", "path of the control program (default: on PATH)")
	fs.DurationVar(&c.daemon.Timeout, "timeout", 10*time.Second, "for each command to the daemon")
	fs.DurationVar(&c.grace, "grace", 5*time.Second, "stop: time for clients to leave")
	fs.DurationVar(&c.wait, "wait", 3*time.Minute, "run: time for a command to become a client")
	fs.Float64Var(&c.percent, "percent", 0, "active thread percentage")
	fs.TextVar(&c.memory, "memory", sharing.Bytes(0), "pinned memory limit of each client, for example 8GiB")
	fs.StringVar(&c.device, "device", "0", "device of -memory: ordinal or UUID")
	if err := page.Parse(fs, args, usage, math.MaxInt, c.stdout); err != nil {
		return err
	}
	command := cmp.Or(fs.Arg(0), "verify")
	// Flags may also follow the command.
	if err := page.Parse(fs, fs.Args()[min(1, fs.NArg()):], usage, math.MaxInt, c.stdout); err != nil {
		return err
	}
	c.args = fs.Args()
	do, ok := map[string]func(*mps.Client) error{"start": c.start, "limit": c.limit, "run": c.runClient,
		"verify": c.verify, "stop": c.stop}[command]
	switch {
	case !ok:
		return page.BadInput(fmt.Errorf("unknown command %q (see -h)", command))
	case len(c.args) > 0 && command != "run" && command != "verify":
		return page.BadInput(fmt.Errorf("%s takes no argument %q (see -h)", command, c.args[0]))
	}
	if !c.real {
		fmt.Fprintln(c.stdout, "simulated: a fake daemon, no GPU; -real uses this machine's")
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	return do(cl)
}

// client returns a client of the real daemon, or of a fake with two clients.
func (c *config) client() (*mps.Client, error) {
	o := mps.Options{PipeDirectory: c.daemon.PipeDirectory, Timeout: c.daemon.Timeout, Runner: c.daemon.Runner}
	if c.real {
		c.daemon.Program = &mps.Program{Path: c.control}
		o.Runner = cmp.Or(o.Runner, mps.Runner(c.daemon.Program))
		return mps.NewClient(o)
	}
	fake := mpstest.New(mpstest.Options{PipeDirectory: o.PipeDirectory})
	o.Runner, o.GPUs = fake, fake.GPUs()
	cl, err := mps.NewClient(o)
	if err != nil {
		return nil, err
	}
	for range 2 {
		env := []string{mps.EnvPipeDirectory + "=" + cl.PipeDirectory()}
		if _, err := fake.Connect(mpstest.Process{Env: env}); err != nil {
			return nil, err
		}
	}
	return cl, nil
}

// start runs a daemon until an interrupt, or until another run stops it.
func (c *config) start(cl *mps.Client) error {
	started := fmt.Sprintf("started; clients need %s=%s\n", mps.EnvPipeDirectory, cl.PipeDirectory())
	if !c.real {
		_, err := io.WriteString(c.stdout, started)
		return err
	}
	d, err := mps.Start(c.ctx, c.daemon)
	if err != nil {
		return err
	}
	fmt.Fprint(c.stdout, started)
	select {
	case <-c.ctx.Done():
	case <-d.Done():
	}
	return c.stopped(d.Stop(context.WithoutCancel(c.ctx), c.grace))
}

// stop ends a daemon that another run has started, and its servers.
func (c *config) stop(cl *mps.Client) error {
	if !c.real {
		graceful, err := cl.Quit(c.ctx, c.grace)
		return c.stopped(mps.StopResult{Graceful: graceful}, err)
	}
	d, err := mps.Adopt(c.ctx, c.daemon)
	if err != nil {
		return err
	}
	return c.stopped(d.Stop(context.WithoutCancel(c.ctx), c.grace))
}

func (c *config) stopped(r mps.StopResult, err error) error {
	if err == nil {
		fmt.Fprintf(c.stdout, "stopped; every server ended by itself: %t\n", r.Graceful)
	}
	return err
}

func (c *config) limit(cl *mps.Client) error {
	if c.percent == 0 && c.memory == 0 {
		return page.BadInput(errors.New("limit needs -percent, -memory or both"))
	}
	if c.percent != 0 {
		if err := cl.SetActiveThreadPercentage(c.ctx, 0, c.percent); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "in force: %g%% of the threads\n", c.percent)
	}
	if c.memory != 0 {
		if err := cl.SetPinnedMemLimit(c.ctx, 0, c.device, c.memory); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "in force: %v for each process on device %s\n", c.memory, c.device)
	}
	fmt.Fprintln(c.stdout, "it holds for clients that connect once a new server has started")
	return nil
}

func (c *config) runClient(cl *mps.Client) error {
	if len(c.args) == 0 {
		return page.BadInput(errors.New("run needs a command: run -- CMD"))
	}
	env := mps.ClientEnvironment{PipeDirectory: cl.PipeDirectory(), DaemonPipeDirectory: cl.PipeDirectory(),
		ActiveThreadPercentage: c.percent}
	vars, err := env.Build()
	if err != nil {
		return err
	}
	if !c.real {
		_, err = fmt.Fprintf(c.stdout, "%q would run with %q\n", c.args, vars)
		return err
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
	ctx, cancel := context.WithCancel(c.ctx)
	verified := make(chan struct{})
	go func() {
		defer close(verified)
		m, err := cl.Verify(ctx, cmd.Process.Pid, mps.VerifyOptions{Wait: c.wait})
		text := "is no client: " + m.Reason
		switch {
		case err != nil && ctx.Err() != nil:
			text = "ended before it became a client"
		case err != nil:
			text = "may be a client: " + err.Error()
		case m.Client == sharing.AnswerYes:
			text = fmt.Sprintf("is a client of server %d", m.Server)
		}
		fmt.Fprintf(c.stderr, "mps: process %d %s\n", cmd.Process.Pid, text)
	}()
	err = cmd.Wait()
	cancel()
	<-verified
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return &page.ExitError{Code: exit.ExitCode()}
	}
	return err
}

func (c *config) verify(cl *mps.Client) error {
	var pids []int
	for _, a := range c.args {
		pid, err := strconv.Atoi(a)
		if err != nil || pid <= 0 {
			return page.BadInput(fmt.Errorf("%q is no process ID", a))
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		s, err := cl.Snapshot(c.ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "a daemon answers at %s: %v\n", cl.PipeDirectory(), s.Daemon)
		for _, server := range s.Servers {
			pids = append(pids, server.Clients...)
		}
	}
	rows, missing := [][]string{{"PID", "client", "server", "threads", "because"}}, 0
	for _, pid := range pids {
		m, err := cl.Verify(c.ctx, pid, mps.VerifyOptions{})
		if err != nil {
			return err
		}
		threads := "-"
		for _, cell := range []sharing.Cell[float64]{m.ServerPercentage, m.EffectivePercentage} {
			if p, ok := cell.Get(); ok {
				threads = fmt.Sprintf("%g%%", p)
			}
		}
		if m.Client != sharing.AnswerYes {
			missing++
		}
		rows = append(rows, []string{fmt.Sprint(m.PID), m.Client.String(), fmt.Sprint(m.Server), threads, m.Reason})
	}
	if _, err := io.WriteString(c.stdout, page.Table(rows)); err != nil || missing == 0 {
		return err
	}
	return fmt.Errorf("%w: %d of %d", mps.ErrNotClient, missing, len(pids))
}
