package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/internal/command"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps/internal/form"
)

// DaemonOptions say how to start a control daemon. Starting one changes
// nothing else on the machine: no compute mode, clock or policy.
type DaemonOptions struct {
	Program       *Program // starts the daemon; nil = the zero Program
	Runner        Runner   // talks to it once it runs; nil = Program
	PipeDirectory string   // "" = DefaultPipe; made if it is not there
	LogDirectory  string   // "" = DefaultLog; made if it is not there
	// VisibleDevices are UUIDs of the GPUs to serve; nil = all. Clients count
	// them from 0 in this order.
	VisibleDevices     []string
	StaticPartitioning bool  // -S, driver 590 and later
	MultiUser          bool  // clients of all users share a server; root only
	GPUs               []GPU // as in Options
	// StartTimeout is how long the daemon has to answer; 0 = 10 s.
	StartTimeout time.Duration
	Timeout      time.Duration // for each command; as in Options
	Logger       *slog.Logger
	// Dialect is the protocol that the daemon speaks; nil = v2, the default of
	// every driver. Package mpsv3 has the other one.
	Dialect Dialect
}

// Dialect is a control daemon's protocol, as far as starting and stopping it
// goes.
type Dialect interface {
	// Launch returns the program's arguments beside -f or -d, and variables for
	// the daemon's environment.
	Launch(opts DaemonOptions) (args, environ []string, err error)
	// Servers asks the daemon for its servers, and Clients for the clients of
	// all of them.
	Servers(ctx context.Context, c *Client) ([]int, error)
	Clients(ctx context.Context, c *Client) ([]int, error)
	// Quit asks the daemon to end now; graceful is false when the daemon said
	// that a server did not end by itself.
	Quit(ctx context.Context, c *Client) (graceful bool, err error)
}

// v2 is the Dialect of every driver.
type v2 struct{}

func (v2) Launch(opts DaemonOptions) (args, environ []string, err error) {
	if opts.MultiUser {
		args = append(args, "-M")
	}
	if opts.StaticPartitioning {
		args = append(args, "-S")
	}
	return args, []string{EnvProtocol + "=2"}, nil
}

func (v2) Servers(ctx context.Context, c *Client) ([]int, error) { return c.Servers(ctx) }

func (v2) Clients(ctx context.Context, c *Client) ([]int, error) {
	s, err := c.Snapshot(ctx)
	var clients []int
	for _, srv := range s.Servers {
		clients = append(clients, srv.Clients...)
	}
	return clients, err
}

func (v2) Quit(ctx context.Context, c *Client) (bool, error) { return c.Quit(ctx, time.Second) }

// Daemon is a control daemon that Start runs as a child in the foreground. It
// is safe for concurrent use.
type Daemon struct {
	client  *Client
	dialect Dialect
	cmd     *exec.Cmd
	output  *command.Buffer
	done    chan struct{} // closed once the child is reaped; then err and output may be read
	err     error

	stop sync.Mutex // one Stop at a time
	last StopResult
}

// Start starts a control daemon as a child of this process, in the foreground
// and in a process group of its own, and waits until it answers. It refuses
// with ErrDaemonRunning if one answers in the pipe directory already. The
// daemon lives until Stop; ctx bounds the start only. On failure nothing is
// left running.
func Start(ctx context.Context, opts DaemonOptions) (*Daemon, error) {
	l, err := opts.prepare(ctx)
	if err != nil {
		return nil, err
	}
	path, err := opts.Program.lookup()
	if err != nil {
		return nil, l.client.opError("start", err)
	}
	d := &Daemon{client: l.client, dialect: opts.Dialect, done: make(chan struct{}), output: &command.Buffer{Limit: 64 << 10}}
	d.cmd = exec.Command(path, append([]string{"-f"}, l.args...)...)
	d.cmd.Env = command.Environ(os.Environ(), slices.Concat(opts.Program.Env, l.environ))
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	d.cmd.WaitDelay = command.OutputPeriod
	ownGroup(d.cmd)
	if err := d.cmd.Start(); err != nil {
		return nil, l.client.opError("start", err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	err = opts.answers(ctx, l.client, d.done)
	if errors.Is(err, errExited) {
		err = fmt.Errorf("%w: the daemon ended at once (%v): %s", ErrCrashed, d.err, problem.Clip(strings.TrimSpace(d.output.String())))
	}
	if err != nil {
		err = l.client.opError("start", err)
		if kerr := d.cmd.Process.Kill(); kerr != nil && !errors.Is(kerr, os.ErrProcessDone) {
			err = errors.Join(err, kerr)
		}
		<-d.done
		return nil, err
	}
	return d, nil
}

// StartDetached starts a control daemon in the background (-d), where it
// outlives this process, and waits until it answers. Stop it with Client.Quit.
func StartDetached(ctx context.Context, opts DaemonOptions) (*Client, error) {
	l, err := opts.prepare(ctx)
	if err != nil {
		return nil, err
	}
	out, err := opts.Program.Run(ctx, Invocation{Args: append([]string{"-d"}, l.args...), Env: l.environ})
	if err == nil {
		err = outcome(out)
	}
	if err == nil {
		err = opts.answers(ctx, l.client, nil)
	}
	if err != nil {
		return nil, l.client.opError("start", err)
	}
	return l.client, nil
}

// launch is how a daemon that is to start is run and asked.
type launch struct {
	client        *Client
	args, environ []string
}

// prepare sets defaults, checks the options, makes the directories, and makes
// sure that nobody answers there.
func (o *DaemonOptions) prepare(ctx context.Context) (*launch, error) {
	if o.Program == nil {
		o.Program = &Program{}
	}
	if o.PipeDirectory == "" {
		o.PipeDirectory = DefaultPipe
	}
	if o.LogDirectory == "" {
		o.LogDirectory = DefaultLog
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultTimeout
	}
	if o.Dialect == nil {
		o.Dialect = v2{}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Runner == nil {
		o.Runner = o.Program
	}
	l := &launch{environ: []string{EnvPipeDirectory + "=" + o.PipeDirectory, EnvLogDirectory + "=" + o.LogDirectory}}
	if len(o.VisibleDevices) > 0 {
		l.environ = append(l.environ, EnvVisibleDevices+"="+strings.Join(o.VisibleDevices, ","))
	}
	args, environ, err := o.Dialect.Launch(*o)
	if err != nil {
		return nil, err
	}
	l.args, l.environ = args, append(l.environ, environ...)
	l.client, err = NewClient(Options{Runner: o.Runner, PipeDirectory: o.PipeDirectory, Timeout: o.Timeout, GPUs: o.GPUs, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	// Clients of other users must reach the sockets.
	for _, dir := range []string{o.PipeDirectory, o.LogDirectory} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, l.client.opError("start", err)
		}
	}
	switch _, err := o.Dialect.Servers(ctx, l.client); {
	case err == nil:
		return nil, l.client.opError("start", ErrDaemonRunning)
	case errors.Is(err, ErrNoDaemon):
		return l, nil
	default:
		return nil, err
	}
}

func (o *DaemonOptions) check() error {
	var l problem.List
	checkLocalDirectory(&l, "PipeDirectory", o.PipeDirectory)
	if !strings.HasPrefix(o.LogDirectory, "/") || strings.ContainsFunc(o.LogDirectory, func(r rune) bool { return r < ' ' }) {
		l.Addf("LogDirectory", "use an absolute path", "%q is no absolute path", problem.Clip(o.LogDirectory))
	}
	for i, d := range o.VisibleDevices {
		if !form.IsUUID(d) {
			l.Addf(fmt.Sprintf("VisibleDevices[%d]", i), "use the GPU's UUID", "%q is no UUID", problem.Clip(d))
		}
	}
	if o.StartTimeout < 0 {
		l.Addf("StartTimeout", "use 0 for the default of 10 s", "%v is negative", o.StartTimeout)
	}
	return invalid(&l)
}

var errExited = errors.New("mps: the daemon has ended")

// answers waits until the daemon answers, or gone closes.
func (o *DaemonOptions) answers(ctx context.Context, c *Client, gone <-chan struct{}) error {
	ctx, cancel := withTimeout(ctx, o.StartTimeout)
	defer cancel()
	for {
		_, err := o.Dialect.Servers(ctx, c)
		if err == nil || !errors.Is(err, ErrNoDaemon) {
			return err
		}
		select {
		case <-gone:
			return errExited
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Client returns a client of the daemon.
func (d *Daemon) Client() *Client { return d.client }

// PID returns the daemon's process ID.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Done is closed when the daemon has ended, by Stop or by itself.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// StopResult says how a daemon ended.
type StopResult struct {
	Graceful bool // it ended by itself, all servers with it
	// Forced is the strongest that was needed: "", "quit", "terminated" or
	// "killed".
	Forced string
	// Servers are servers that had to be killed because they outlived the
	// daemon; their clients have failed.
	Servers []int
}

// Stop ends the daemon: it is asked to quit, and clients have grace to leave;
// after that their work is lost. A daemon that does not answer is terminated,
// then killed, and servers that outlive it are killed too. Stop finishes even
// if ctx ends, which only takes the rest of the grace away. Calls after the
// first return the same result.
func (d *Daemon) Stop(ctx context.Context, grace time.Duration) (StopResult, error) {
	d.stop.Lock()
	defer d.stop.Unlock()
	select {
	case <-d.done:
		return d.last, nil
	default:
	}
	own := context.WithoutCancel(ctx)
	servers, err := d.dialect.Servers(own, d.client)
	if err != nil {
		d.client.log.WarnContext(ctx, "mps stop: servers not known", "err", err)
	}
	d.quit(ctx, own, grace)
	for _, step := range []struct {
		name string
		sig  os.Signal
	}{{"", nil}, {"terminated", syscall.SIGTERM}, {"killed", os.Kill}} {
		if step.sig != nil {
			d.last.Graceful, d.last.Forced = false, step.name
			if err := d.cmd.Process.Signal(step.sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return d.last, d.client.opError("stop", err)
			}
		}
		select {
		case <-d.done:
			return d.last, d.reapServers(servers)
		case <-time.After(2 * time.Second):
		}
	}
	<-d.done // SIGKILL is not refused
	return d.last, d.reapServers(servers)
}

// quit waits until no client is left, or the grace or ctx is over, then asks
// the daemon to end.
func (d *Daemon) quit(ctx, own context.Context, grace time.Duration) {
	wait := time.NewTimer(max(grace, 0))
	defer wait.Stop()
	for grace > 0 {
		if clients, err := d.dialect.Clients(own, d.client); err != nil || len(clients) == 0 {
			break
		}
		select {
		case <-wait.C:
			grace = 0
		case <-ctx.Done():
			grace = 0
		case <-d.done:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	graceful, err := d.dialect.Quit(own, d.client)
	if d.last.Graceful = graceful && err == nil; !d.last.Graceful {
		d.last.Forced = "quit"
	}
}

// reapServers kills servers of a daemon that has gone. What has another name
// than the server program is left alone: the process ID was reused.
func (d *Daemon) reapServers(servers []int) error {
	var errs []error
	deadline := time.Now().Add(2 * time.Second) // a server may be on its way out
	for _, pid := range servers {
		for isMPSServer(pid) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if !isMPSServer(pid) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Kill()
		}
		if err == nil {
			d.last.Servers = append(d.last.Servers, pid)
		} else if !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, d.client.opError(fmt.Sprintf("kill server %d", pid), err))
		}
	}
	return errors.Join(errs...)
}
