package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
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
	Protocol           Protocol // ProtocolUnknown = v2
	ConfigFile         string   // v3: TOML to apply, see Setup
	StaticPartitioning bool     // v2: -S, driver 590 and later
	MultiUser          bool     // clients of all users share a server; root only
	GPUs               []GPU    // as in Options
	// StartTimeout is how long the daemon has to answer; 0 = 10 s.
	StartTimeout time.Duration
	Timeout      time.Duration // for each command; as in Options
	Logger       *slog.Logger
}

// Daemon is a control daemon that Start runs as a child in the foreground. It
// is safe for concurrent use.
type Daemon struct {
	client *Client
	proto  Protocol
	cmd    *exec.Cmd
	output *boundedBuffer
	done   chan struct{} // closed once the child is reaped; then err and output may be read
	err    error

	stop sync.Mutex // one Stop at a time
	last StopResult
}

// Start starts a control daemon as a child of this process, in the foreground
// and in a process group of its own, and waits until it answers. It refuses
// with ErrDaemonRunning if one answers in the pipe directory already. The
// daemon lives until Stop; ctx bounds the start only. On failure nothing is
// left running.
func Start(ctx context.Context, o DaemonOptions) (*Daemon, error) {
	c, proto, err := o.prepare(ctx)
	if err != nil {
		return nil, err
	}
	path, err := o.Program.lookup()
	if err != nil {
		return nil, &OpError{Op: "start", Device: c.pipe, Err: err}
	}
	d := &Daemon{client: c, proto: proto, done: make(chan struct{})}
	d.output = &boundedBuffer{limit: 64 << 10, full: func() {}}
	d.cmd = exec.Command(path, o.args("-f")...)
	d.cmd.Env = o.environ(c.pipe)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	d.cmd.WaitDelay = killedOutputPeriod
	ownGroup(d.cmd)
	if err := d.cmd.Start(); err != nil {
		return nil, &OpError{Op: "start", Device: c.pipe, Err: err}
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	if err := d.awaitStart(ctx, o); err != nil {
		err = &OpError{Op: "start", Device: c.pipe, Err: err}
		if kerr := d.cmd.Process.Kill(); kerr != nil && !errors.Is(kerr, os.ErrProcessDone) {
			err = errors.Join(err, kerr)
		}
		<-d.done
		return nil, err
	}
	return d, nil
}

// StartDetached starts a control daemon in the background (-d), where it
// outlives this process, and waits until it answers. Stop it with
// Client.Quit, or ClientV3.Quit.
func StartDetached(ctx context.Context, o DaemonOptions) (*Client, error) {
	c, _, err := o.prepare(ctx)
	if err != nil {
		return nil, err
	}
	prog := *o.Program
	prog.Env = o.additions(c.pipe)
	out, err := (&prog).Run(ctx, Invocation{Args: o.args("-d"), PipeDirectory: c.pipe})
	if err == nil {
		err = outcome(out)
	}
	if err == nil {
		err = o.answers(ctx, c, nil)
	}
	if err != nil {
		return nil, &OpError{Op: "start", Device: c.pipe, Err: err}
	}
	return c, nil
}

// prepare checks the options, makes the directories, and makes sure that
// nobody answers there.
func (o *DaemonOptions) prepare(ctx context.Context) (*Client, Protocol, error) {
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
	if o.Protocol == ProtocolUnknown {
		o.Protocol = ProtocolV2
	}
	if err := o.check(); err != nil {
		return nil, 0, err
	}
	if o.Runner == nil {
		o.Runner = o.Program
	}
	c, err := NewClient(Options{Runner: o.Runner, PipeDirectory: o.PipeDirectory, Timeout: o.Timeout, GPUs: o.GPUs, Logger: o.Logger})
	if err != nil {
		return nil, 0, err
	}
	// Clients of other users must reach the sockets.
	for _, dir := range []string{o.PipeDirectory, o.LogDirectory} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, 0, &OpError{Op: "start", Device: c.pipe, Err: err}
		}
	}
	switch err := o.ping(ctx, c); {
	case err == nil:
		return nil, 0, &OpError{Op: "start", Device: c.pipe, Err: ErrDaemonRunning}
	case errors.Is(err, ErrNoDaemon):
		return c, o.Protocol, nil
	default:
		return nil, 0, err
	}
}

func (o *DaemonOptions) check() error {
	var l problem.List
	checkPipeDirectory(&l, "PipeDirectory", o.PipeDirectory)
	if l.Len() == 0 && networkFileSystem(o.PipeDirectory) == sharing.AnswerYes {
		l.Addf("PipeDirectory", "use a directory of this node, for example under /run or /tmp", "%s is on a network file system, which holds no sockets", o.PipeDirectory)
	}
	if !strings.HasPrefix(o.LogDirectory, "/") || strings.ContainsFunc(o.LogDirectory, func(r rune) bool { return r < ' ' }) {
		l.Addf("LogDirectory", "use an absolute path", "%q is no absolute path", clip(o.LogDirectory))
	}
	for i, d := range o.VisibleDevices {
		if !isUUID(d) {
			l.Addf(fmt.Sprintf("VisibleDevices[%d]", i), "use the GPU's UUID", "%q is no UUID", clip(d))
		}
	}
	v3 := o.Protocol == ProtocolV3
	if v3 && o.StaticPartitioning {
		l.Addf("StaticPartitioning", "leave it out: v3 needs no such mode", "it belongs to v2")
	}
	if !v3 && o.ConfigFile != "" {
		l.Addf("ConfigFile", "set Protocol to ProtocolV3", "a configuration file belongs to v3")
	}
	if v3 && o.ConfigFile != "" && !strings.HasPrefix(o.ConfigFile, "/") {
		l.Addf("ConfigFile", "use an absolute path", "%q is relative", clip(o.ConfigFile))
	}
	if o.StartTimeout < 0 {
		l.Addf("StartTimeout", "use 0 for the default of 10 s", "%v is negative", o.StartTimeout)
	}
	return invalid(&l)
}

// args are the program's arguments; mode is -f or -d. -q means "quit" under v3
// and "ready devices" under v2, so it is never used here.
func (o *DaemonOptions) args(mode string) []string {
	args := []string{mode}
	if o.Protocol == ProtocolV3 {
		args = append(args, "-p", "3")
		if o.MultiUser {
			args = append(args, "-m")
		}
		if o.ConfigFile != "" {
			args = append(args, "-a", o.ConfigFile)
		}
		return args
	}
	if o.MultiUser {
		args = append(args, "-M")
	}
	if o.StaticPartitioning {
		args = append(args, "-S")
	}
	return args
}

func (o *DaemonOptions) additions(pipe string) []string {
	set := append([]string(nil), o.Program.Env...)
	set = append(set, EnvPipeDirectory+"="+pipe, EnvLogDirectory+"="+o.LogDirectory)
	if len(o.VisibleDevices) > 0 {
		set = append(set, EnvVisibleDevices+"="+strings.Join(o.VisibleDevices, ","))
	}
	if o.Protocol == ProtocolV3 {
		set = append(set, EnvProtocol+"=3")
	} else {
		set = append(set, EnvProtocol+"=2")
	}
	return set
}

func (o *DaemonOptions) environ(pipe string) []string {
	return mergeEnviron(os.Environ(), o.additions(pipe))
}

// ping asks a question that changes nothing.
func (o *DaemonOptions) ping(ctx context.Context, c *Client) error {
	if o.Protocol == ProtocolV3 {
		_, err := (&ClientV3{c: c}).Servers(ctx)
		return err
	}
	_, err := c.Servers(ctx)
	return err
}

func (d *Daemon) awaitStart(ctx context.Context, o DaemonOptions) error {
	err := o.answers(ctx, d.client, d.done)
	if errors.Is(err, errExited) {
		return fmt.Errorf("%w: the daemon ended at once (%v): %s", ErrCrashed, d.err, clip(strings.TrimSpace(d.output.String())))
	}
	return err
}

var errExited = errors.New("mps: the daemon has ended")

// answers waits until the daemon answers, or gone closes.
func (o *DaemonOptions) answers(ctx context.Context, c *Client, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.StartTimeout, fmt.Errorf("%w (%v): %w", ErrTimeout, o.StartTimeout, context.DeadlineExceeded))
	defer cancel()
	for {
		err := o.ping(ctx, c)
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

// Client returns a v2 client of the daemon.
func (d *Daemon) Client() *Client { return d.client }

// ClientV3 returns a v3 client of the daemon.
func (d *Daemon) ClientV3() *ClientV3 { return &ClientV3{c: d.client} }

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
	servers, err := d.servers(own)
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
				return d.last, &OpError{Op: "stop", Device: d.client.pipe, Err: err}
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

func (d *Daemon) servers(ctx context.Context) (pids []int, err error) {
	if d.proto != ProtocolV3 {
		return d.client.Servers(ctx)
	}
	list, err := d.ClientV3().Servers(ctx)
	for _, s := range list {
		if s.PID != 0 {
			pids = append(pids, s.PID)
		}
	}
	return pids, err
}

// quit asks the daemon to end, waits out the grace or ctx, then insists.
func (d *Daemon) quit(ctx, own context.Context, grace time.Duration) {
	if d.proto == ProtocolV3 {
		d.last.Graceful = d.ClientV3().Quit(own) == nil
		return
	}
	wait := time.NewTimer(max(grace, 0))
	defer wait.Stop()
	for busy := true; busy && grace > 0; {
		s, err := d.client.Snapshot(own)
		busy = err == nil && s.Daemon == sharing.AnswerYes && anyClient(s)
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
	graceful, err := d.client.Quit(own, time.Second)
	if d.last.Graceful = graceful && err == nil; !d.last.Graceful {
		d.last.Forced = "quit"
	}
}

func anyClient(s Snapshot) bool {
	for _, srv := range s.Servers {
		if len(srv.Clients) > 0 {
			return true
		}
	}
	return false
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
			errs = append(errs, &OpError{Op: fmt.Sprintf("kill server %d", pid), Device: d.client.pipe, Err: err})
		}
	}
	return errors.Join(errs...)
}
