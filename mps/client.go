package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// GPU is a device that an MPS daemon serves, as far as the caller knows it.
type GPU struct {
	Ordinal int           // as MPS clients count, after the daemon's CUDA_VISIBLE_DEVICES
	UUID    string        // "GPU-..."
	Memory  sharing.Bytes // total; 0 = not known
	SMs     int           // 0 = not known
}

// Options say which daemon a client talks to. The zero value is the default
// daemon of this machine.
type Options struct {
	Runner        Runner        // nil = &Program{}
	PipeDirectory string        // "" = DefaultPipe
	Timeout       time.Duration // for each command; 0 = 10 s
	// GPUs, if given, are what the daemon serves: limits for other devices and
	// limits above a device's memory are then refused, since the daemon itself
	// takes them without a word (MPSV2).
	GPUs   []GPU
	Logger *slog.Logger // nil = discard
}

// Client talks to a control daemon with protocol v2. It holds no connection:
// each call runs the control program once. It is safe for concurrent use.
type Client struct {
	runner  Runner
	pipe    string
	timeout time.Duration
	gpus    []GPU
	log     *slog.Logger
}

const defaultTimeout = 10 * time.Second

// NewClient returns a client. Nothing is run; a missing daemon shows at the
// first call, as ErrNoDaemon.
func NewClient(o Options) (*Client, error) {
	var l problem.List
	if o.PipeDirectory == "" {
		o.PipeDirectory = DefaultPipe
	}
	checkPipeDirectory(&l, "PipeDirectory", o.PipeDirectory)
	if o.Timeout < 0 {
		l.Addf("Timeout", "use 0 for the default of 10 s", "%v is negative", o.Timeout)
	}
	checkGPUs(&l, "GPUs", o.GPUs)
	if err := invalid(&l); err != nil {
		return nil, err
	}
	c := &Client{runner: o.Runner, pipe: o.PipeDirectory, timeout: o.Timeout, gpus: append([]GPU(nil), o.GPUs...), log: o.Logger}
	if c.runner == nil {
		c.runner = &Program{}
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// PipeDirectory returns the daemon's pipe directory; clients of the daemon
// must have it in CUDA_MPS_PIPE_DIRECTORY.
func (c *Client) PipeDirectory() string { return c.pipe }

// do sends one v2 command and returns the answer, already known to be text
// and no refusal.
func (c *Client) do(ctx context.Context, words ...string) (string, error) {
	return c.doWithin(ctx, c.timeout, words...)
}

func (c *Client) doWithin(ctx context.Context, timeout time.Duration, words ...string) (string, error) {
	for _, w := range words {
		if !form.IsWord(w) {
			return "", c.opError(clip(words[0]), fmt.Errorf("%w: %q would not reach the daemon as one word", ErrInvalid, clip(w)))
		}
	}
	out, err := c.run(ctx, timeout, Invocation{Stdin: strings.Join(words, " ") + "\n"})
	return out.Stdout, err
}

// Command runs the control program once for this daemon and returns what it
// printed. A refusal is a *RejectedError. It is for what Client has no method
// for: commands of later drivers, and protocol v3 (package mpsv3).
func (c *Client) Command(ctx context.Context, in Invocation) (string, error) {
	out, err := c.run(ctx, c.timeout, in)
	return out.Stdout, err
}

// run runs the program and classifies the outcome.
func (c *Client) run(ctx context.Context, timeout time.Duration, in Invocation) (Output, error) {
	start, op := time.Now(), strings.TrimSpace(strings.Join(in.Args, " ")+in.Stdin)
	cmdCtx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	in.Env = append([]string{EnvPipeDirectory + "=" + c.pipe}, in.Env...)
	out, err := c.runner.Run(cmdCtx, in)
	if cause := context.Cause(cmdCtx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if err == nil {
		err = outcome(out)
	}
	c.log.DebugContext(ctx, "mps command", "op", op, "pipe", c.pipe, "took", time.Since(start), "err", err)
	if err != nil {
		return Output{}, c.opError(clip(op), err)
	}
	return out, nil
}

func (c *Client) opError(op string, err error) error {
	return &OpError{Op: op, Device: c.pipe, Err: err}
}

// withTimeout bounds ctx by d, after which its cause is ErrTimeout.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w (%v): %w", ErrTimeout, d, context.DeadlineExceeded))
}

// outcome turns what the program left behind into an error: a refusal, a
// failure, or an answer that is no text.
func outcome(out Output) error {
	if r := rejection(out.Stdout); r != nil {
		return r
	}
	if r := rejection(out.Stderr); r != nil {
		return r
	}
	if out.ExitCode != 0 {
		return fmt.Errorf("%w with exit status %d: %s", ErrCrashed, out.ExitCode, clip(strings.TrimSpace(out.Stderr+" "+out.Stdout)))
	}
	return checkText(out.Stdout)
}

// read sends a command and parses its answer.
func read[T any](ctx context.Context, c *Client, parse func(string) (T, error), words ...string) (T, error) {
	var zero T
	text, err := c.do(ctx, words...)
	if err != nil {
		return zero, err
	}
	v, err := parse(text)
	if err != nil {
		return zero, c.opError(strings.Join(words, " "), err)
	}
	return v, nil
}

// checkPID refuses process IDs that are none.
func checkPID(l *problem.List, path string, pid int) {
	if pid <= 0 || pid > 1<<31-1 {
		l.Addf(path, "process IDs are positive", "%d is no process ID", pid)
	}
}

func pidWord(path string, pid int) (string, error) {
	var l problem.List
	checkPID(&l, path, pid)
	return strconv.Itoa(pid), invalid(&l)
}

// Servers lists the process IDs of the daemon's servers, possibly none.
func (c *Client) Servers(ctx context.Context) ([]int, error) {
	return read(ctx, c, ParsePIDs, "get_server_list")
}

// ServerStatus returns a server's state. An unknown process ID is
// ErrServerNotFound.
func (c *Client) ServerStatus(ctx context.Context, server int) (ServerState, error) {
	w, err := pidWord("server", server)
	if err != nil {
		return StateUnknown, err
	}
	return read(ctx, c, parseState, "get_server_status", w)
}

// Clients lists the process IDs of a server's clients. A terminated client
// stays in the list until its process ends (H200).
func (c *Client) Clients(ctx context.Context, server int) ([]int, error) {
	w, err := pidWord("server", server)
	if err != nil {
		return nil, err
	}
	return read(ctx, c, ParsePIDs, "get_client_list", w)
}

// DeviceClients lists the devices with the clients that enumerate them, of one
// server or, for server 0, of all.
func (c *Client) DeviceClients(ctx context.Context, server int) ([]DeviceClients, error) {
	if server == 0 {
		return read(ctx, c, ParseDeviceClients, "get_device_client_list")
	}
	w, err := pidWord("server", server)
	if err != nil {
		return nil, err
	}
	return read(ctx, c, ParseDeviceClients, "get_device_client_list", w)
}

// Devices lists the devices as servers enumerate them: the default
// enumeration and each server's, or for a server other than 0 only its own.
func (c *Client) Devices(ctx context.Context, server int) ([]ServerDevices, error) {
	if server == 0 {
		return read(ctx, c, ParseDeviceQuery, "device_query")
	}
	w, err := pidWord("server", server)
	if err != nil {
		return nil, err
	}
	return read(ctx, c, ParseDeviceQuery, "device_query", w)
}

// Processes lists the client processes of all servers.
func (c *Client) Processes(ctx context.Context) ([]Process, error) {
	return read(ctx, c, ParseProcesses, "ps")
}

// StartServer asks for a server of the user uid and waits until the daemon
// lists it; servers also start by themselves with the first client. It returns
// the server's process ID. mlopart splits GPUs of compute capability 10 along
// their dies (driver 595 and later). A second server of a user is
// ErrServerExists; one that does not appear within the time-out is ErrTimeout
// and perhaps waits for the clients of another user's server to leave.
func (c *Client) StartServer(ctx context.Context, uid int, mlopart bool) (int, error) {
	var l problem.List
	if uid < 0 || uint64(uid) > 1<<32-2 {
		l.Addf("uid", "use a user ID of the system", "%d is no user ID", uid)
	}
	if err := invalid(&l); err != nil {
		return 0, err
	}
	before, err := c.Servers(ctx)
	if err != nil {
		return 0, err
	}
	words := []string{"start_server", "-uid", strconv.Itoa(uid)}
	if mlopart {
		words = append(words, "-mlopart")
	}
	if _, err := c.do(ctx, words...); err != nil {
		return 0, err
	}
	var server int
	err = c.poll(ctx, "start_server", func(ctx context.Context) (bool, error) {
		now, err := c.Servers(ctx)
		for _, pid := range now {
			if !slices.Contains(before, pid) {
				server = pid
				state, err := c.ServerStatus(ctx, pid)
				return state == StateActive, err
			}
		}
		return false, err
	})
	return server, err
}

// ShutdownServer stops a server and waits until the daemon lists it no more.
// Without force a server with clients refuses with ErrServerBusy; with force
// its clients lose their work.
func (c *Client) ShutdownServer(ctx context.Context, server int, force bool) error {
	w, err := pidWord("server", server)
	if err != nil {
		return err
	}
	words := []string{"shutdown_server", w}
	if force {
		words = append(words, "-f")
	}
	if _, err := c.do(ctx, words...); err != nil {
		return err
	}
	return c.poll(ctx, "shutdown_server "+w, func(ctx context.Context) (bool, error) {
		now, err := c.Servers(ctx)
		return err == nil && !slices.Contains(now, server), err
	})
}

// poll asks until done or the client's time-out has passed.
func (c *Client) poll(ctx context.Context, op string, done func(context.Context) (bool, error)) error {
	ctx, cancel := withTimeout(ctx, c.timeout)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		ok, err := done(ctx)
		if err != nil || ok {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return c.opError(op, err)
		}
	}
}

// sleep waits for d or until ctx ends, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Quit asks the daemon to end with its servers. Clients still connected after
// grace lose their work; grace 0 waits for them without end, within ctx. Grace
// is sent in whole seconds, rounded up. graceful is false when the daemon said
// that a server did not end by itself.
func (c *Client) Quit(ctx context.Context, grace time.Duration) (graceful bool, err error) {
	if grace < 0 || grace > 24*time.Hour {
		return false, fmt.Errorf("%w: grace: %v is not between 0 and 24h", ErrInvalid, grace)
	}
	words, timeout := []string{"quit"}, 24*time.Hour
	if grace > 0 {
		secs := int((grace + time.Second - 1) / time.Second)
		words = append(words, "-t", strconv.Itoa(secs))
		timeout = time.Duration(secs)*time.Second + c.timeout
	}
	_, err = c.doWithin(ctx, timeout, words...)
	if errors.Is(err, ErrCrashed) && !errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// checkPipeDirectory refuses directories that cannot hold the daemon's
// sockets or that an environment cannot carry.
func checkPipeDirectory(l *problem.List, path, dir string) {
	// sun_path holds 108 bytes with the terminating 0, and the longest socket
	// is control_privileged.
	const longest = 107 - len("/control_privileged")
	switch {
	case dir == "":
		l.Addf(path, `use an absolute path, for example "`+DefaultPipe+`"`, "it is empty")
	case strings.ContainsFunc(dir, func(r rune) bool { return r < ' ' || r == 0x7f }):
		l.Addf(path, "use a plain path", "%q holds control characters", clip(dir))
	case !strings.HasPrefix(dir, "/"):
		l.Addf(path, "use an absolute path: daemon and clients run in different directories", "%q is relative", clip(dir))
	case filepath.ToSlash(filepath.Clean(dir)) != dir:
		l.Addf(path, "write it as "+filepath.ToSlash(filepath.Clean(dir)), "%q is not in its shortest form", clip(dir))
	case len(dir) > longest:
		l.Addf(path, fmt.Sprintf("use at most %d bytes", longest), "%d bytes are too long for a socket's path", len(dir))
	}
}

func checkGPUs(l *problem.List, path string, gpus []GPU) {
	ordinals, uuids := map[int]bool{}, map[string]bool{}
	for i, g := range gpus {
		at := fmt.Sprintf("%s[%d]", path, i)
		if g.Ordinal < 0 || ordinals[g.Ordinal] {
			l.Addf(at+".Ordinal", "number the GPUs from 0", "%d is negative or given twice", g.Ordinal)
		}
		if g.UUID != "" && (!form.IsUUID(g.UUID) || uuids[g.UUID]) {
			l.Addf(at+".UUID", `give each GPU's own UUID, "GPU-..."`, "%q is no UUID or given twice", clip(g.UUID))
		}
		if g.Memory < 0 || g.SMs < 0 {
			l.Addf(at, "leave them 0 if not known", "negative memory or SMs")
		}
		ordinals[g.Ordinal], uuids[g.UUID] = true, g.UUID != ""
	}
}
