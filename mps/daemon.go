// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// DaemonOptions say how to start a control daemon. Starting one changes
// nothing else on the machine: no compute mode, clock or policy.
type DaemonOptions struct {
	Program       *Program // starts the daemon; nil = the zero Program
	Runner        Runner   // talks to it once it runs; nil = Program
	PipeDirectory string   // "" = DefaultPipe; created if missing
	LogDirectory  string   // "" = DefaultLog; created if missing
	// VisibleDevices are UUIDs of the GPUs to serve; nil = all. Clients number them from 0 in this order.
	VisibleDevices []string
	// StartTimeout bounds the wait for the daemon's first answer; 0 = 10 s.
	StartTimeout time.Duration
	Timeout      time.Duration // for each command; as in Options
	Logger       *slog.Logger
}

// Daemon is a control daemon: a child process in the foreground (Start), or one that already ran (Adopt). It is safe
// for concurrent use.
type Daemon struct {
	client  *Client
	program string // the name of the program's file
	process process
	child   *exec.Cmd // nil of one that Adopt found
	output  *buffer
	done    chan struct{} // closed once the daemon has ended; then err and output may be read
	err     error

	mu      sync.Mutex
	started map[process]bool // processes that the daemon was seen to start, its servers among them

	stop    sync.Mutex // one Stop at a time
	stopped bool
	last    StopResult
}

// Start starts a control daemon as a child of this process, in the foreground and in its own process group, and waits
// until it answers. The error is ErrDaemonRunning if one already answers in the pipe directory. The daemon lives until
// Stop; ctx bounds only the start. On failure nothing is left running. Of two concurrent calls for one pipe directory,
// one fails.
func Start(ctx context.Context, opts DaemonOptions) (*Daemon, error) {
	c, environ, err := opts.prepare(ctx)
	if err != nil {
		return nil, err
	}
	path, err := opts.Program.lookup()
	if err != nil {
		return nil, c.opError("start", err)
	}
	d := newDaemon(c, path)
	d.output = &buffer{limit: 64 << 10}
	d.child = exec.Command(path, "-f")
	d.child.Env = setIn(withoutMPS(os.Environ()), slices.Concat(opts.Program.Env, environ))
	d.child.Stdout, d.child.Stderr = d.output, d.output
	d.child.WaitDelay = outputPeriod
	ownGroup(d.child)
	if err := d.child.Start(); err != nil {
		return nil, c.opError("start", err)
	}
	d.process.pid = d.child.Process.Pid
	if p, ok := findProcess(d.process.pid); ok { // it is not reaped yet, so it is this one
		d.process = p
	}
	go func() {
		d.err = d.child.Wait()
		close(d.done)
	}()
	err = opts.answers(ctx, d)
	if errors.Is(err, errExited) {
		output := strings.TrimSpace(d.output.String())
		why := ErrCrashed
		if r := (*failure)(nil); errors.As(rejection(output), &r) && len(r.is) > 1 { // another daemon was faster
			why = r.is[1]
		}
		err = fmt.Errorf("%w: the daemon ended at once (%v): %s", why, d.err, problem.Clip(output))
	}
	if err != nil {
		d.look()
		err = errors.Join(c.opError("start", err), d.signal(os.Kill))
		<-d.done
		return nil, errors.Join(err, d.reap(d.known, 0))
	}
	go d.watch()
	return d, nil
}

func newDaemon(c *Client, path string) *Daemon {
	return &Daemon{client: c, program: filepath.Base(path), done: make(chan struct{}), started: map[process]bool{}}
}

// prepare sets defaults, checks the options, makes the directories, and makes sure that nobody answers there. It
// returns the client and the environment of the daemon that is to start.
func (o *DaemonOptions) prepare(ctx context.Context) (c *Client, environ []string, err error) {
	if c, err = o.newClient(); err != nil {
		return nil, nil, err
	}
	environ = []string{EnvPipeDirectory + "=" + o.PipeDirectory, envLogDirectory + "=" + o.LogDirectory,
		envProtocol + "=2"}
	if len(o.VisibleDevices) > 0 {
		environ = append(environ, EnvVisibleDevices+"="+strings.Join(o.VisibleDevices, ","))
	}
	for _, dir := range []string{o.PipeDirectory, o.LogDirectory} {
		if err := makeDirectory(dir); err != nil {
			return nil, nil, c.opError("start", err)
		}
	}
	switch _, err = c.servers(ctx); {
	case err == nil:
		err = c.opError("start", ErrDaemonRunning)
	case errors.Is(err, ErrNoDaemon):
		err = nil
	}
	return c, environ, err
}

// newClient sets defaults, checks the options and returns a client.
func (o *DaemonOptions) newClient() (*Client, error) {
	o.Program = cmp.Or(o.Program, &Program{})
	o.PipeDirectory = cmp.Or(o.PipeDirectory, DefaultPipe)
	o.LogDirectory = cmp.Or(o.LogDirectory, DefaultLog)
	o.StartTimeout = cmp.Or(o.StartTimeout, defaultTimeout)
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Runner = cmp.Or(o.Runner, Runner(o.Program))
	return NewClient(Options{Runner: o.Runner, PipeDirectory: o.PipeDirectory, Timeout: o.Timeout, Logger: o.Logger})
}

func (o *DaemonOptions) check() error {
	var l problem.List
	checkPipeDirectory(&l, "PipeDirectory", o.PipeDirectory)
	if !strings.HasPrefix(o.LogDirectory, "/") || strings.ContainsFunc(o.LogDirectory,
		func(r rune) bool { return r < ' ' }) {
		l.Addf("LogDirectory", "use an absolute path", "%q is no absolute path", problem.Clip(o.LogDirectory))
	}
	for i, d := range o.VisibleDevices {
		l.If(!isUUID(d), fmt.Sprintf("VisibleDevices[%d]", i), "use the GPU's UUID", "%q is no UUID",
			problem.Clip(d))
	}
	l.If(o.StartTimeout < 0, "StartTimeout", "use 0 for the default of 10 s", "%v is negative", o.StartTimeout)
	return l.Under(ErrInvalid)
}

var errExited = errors.New("mps: the daemon has ended")

// survives is the time for which a daemon without a process ID must live on after an answer: another daemon may have
// given it.
const survives = 100 * time.Millisecond

// answers waits until the daemon answers. Where d has a process, the answer must
// be of that one, which path runs, and not of a daemon that was quicker.
func (o *DaemonOptions) answers(ctx context.Context, d *Daemon) error {
	ctx, cancel := withTimeout(ctx, o.StartTimeout)
	defer cancel()
	var first time.Time
	for {
		switch _, err := d.client.servers(ctx); {
		case err == nil:
			if first.IsZero() {
				first = time.Now()
			}
			other, known := daemonOf(o.PipeDirectory, d.program)
			own := known && d.owns(other) || !known && time.Since(first) > survives
			if own && d.process.alive() {
				return nil
			}
		case errors.Is(err, ErrTimeout) && ctx.Err() == nil: // a busy node: the next may be answered
		case !errors.Is(err, ErrNoDaemon):
			return err
		}
		select {
		case <-d.done:
			if _, err := d.client.servers(ctx); err == nil {
				return ErrDaemonRunning // another one was quicker
			}
			return errExited
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// owns reports whether a process is the daemon's, or one that it has started.
func (d *Daemon) owns(p process) bool {
	return p == d.process || slices.Contains(d.process.descendants(), p)
}

// Client returns a client of the daemon.
func (d *Daemon) Client() *Client { return d.client }

// Done is closed when the daemon has ended, by Stop or by itself.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// process is one run of a program: later processes with its ID have started at another time.
type process struct {
	pid     int
	started uint64 // clock ticks since the machine has started
}

func (p process) alive() bool {
	now, ok := findProcess(p.pid)
	return ok && now == p
}

// signal signals the process, and no other one that has its ID by now: the handle
// of os.FindProcess belongs to the process that alive then checks.
func (p process) signal(sig os.Signal) error {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	if p.alive() {
		err = h.Signal(sig)
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, h.Release())
}

// pidFile names the file into which a control daemon writes its process ID, in its pipe
// directory; one that is killed leaves it there (seen on an H100).
const pidFile = "nvidia-cuda-mps-control.pid"

// daemonOf finds the control daemon of a pipe directory by the process ID in it, provided that this process runs the
// program for that directory: a number from another container belongs to another process here.
func daemonOf(pipe, program string) (process, bool) {
	b, err := os.ReadFile(filepath.Join(pipe, pidFile))
	if err != nil {
		return process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 0 {
		return process{}, false
	}
	p, ok := findProcess(pid)
	return p, ok && (p.runs(controlProgram) || p.runs(program)) && pipeOfProcess(pid) == pipe
}
