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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/command"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// GPU is a device that an MPS daemon serves, as far as the caller knows it.
type GPU struct {
	Ordinal int           // as MPS clients count, after the daemon's CUDA_VISIBLE_DEVICES
	UUID    string        // "GPU-..."
	Memory  sharing.Bytes // total; 0 = not known
	SMs     int           // 0 = not known
}

// Options say which daemon a client talks to. The zero value is the default daemon of this machine.
type Options struct {
	Runner        Runner        // nil = &Program{}
	PipeDirectory string        // "" = DefaultPipe
	Timeout       time.Duration // for each command; 0 = 10 s
	// GPUs, if given, are what the daemon serves: limits for other devices and limits above a device's memory are
	// then refused, since the daemon itself takes them without a word.
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

// NewClient returns a client. Nothing is run; a missing daemon shows at the first call, as ErrNoDaemon.
func NewClient(opts Options) (*Client, error) {
	var l problem.List
	c := &Client{runner: cmp.Or(opts.Runner, Runner(&Program{})), pipe: cmp.Or(opts.PipeDirectory, DefaultPipe),
		timeout: opts.Timeout, gpus: slices.Clone(opts.GPUs), log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))}
	checkPipeDirectory(&l, "PipeDirectory", c.pipe)
	l.If(c.timeout < 0, "Timeout", "use 0 for the default of 10 s", "%v is negative", c.timeout)
	checkGPUs(&l, "GPUs", c.gpus)
	if err := l.Under(ErrInvalid); err != nil {
		return nil, err
	}
	c.timeout = cmp.Or(c.timeout, defaultTimeout)
	return c, nil
}

// PipeDirectory returns the daemon's pipe directory; clients of the daemon must have it in CUDA_MPS_PIPE_DIRECTORY.
func (c *Client) PipeDirectory() string { return c.pipe }

// Command runs the control program once for this daemon and returns what it printed. A refusal is ErrRejected.
// It is for what Client has no method for, such as static SM partitions and the commands of protocol v3. What was
// printed may hold anything where tenants choose words, as in names of programs.
func (c *Client) Command(ctx context.Context, in Invocation) (string, error) {
	out, err := c.run(ctx, c.timeout, in)
	return out.Stdout, err
}

// do sends one v2 command and returns the answer, already known to be text and no refusal.
func (c *Client) do(ctx context.Context, words ...string) (string, error) {
	text, err := c.doWithin(ctx, c.timeout, words...)
	if err == nil {
		if err = checkText(text); err != nil {
			err = c.opError(strings.Join(words, " "), err)
		}
	}
	return text, err
}

func (c *Client) doWithin(ctx context.Context, timeout time.Duration, words ...string) (string, error) {
	for _, w := range words {
		if !isWord(w) {
			return "", c.opError(words[0], fmt.Errorf("%w: %q would not reach the daemon as one word", ErrInvalid,
				problem.Clip(w)))
		}
	}
	out, err := c.run(ctx, timeout, Invocation{Stdin: strings.Join(words, " ") + "\n"})
	return out.Stdout, err
}

// read sends a command and parses its answer.
func read[T any](ctx context.Context, c *Client, parse func(string) (T, error), words ...string) (T, error) {
	text, err := c.do(ctx, words...)
	if err != nil {
		var zero T
		return zero, err
	}
	return parsed(c, parse, text, words...)
}

// parsed returns what parse reads from the answer to a command, or an error that names the command.
func parsed[T any](c *Client, parse func(string) (T, error), text string, words ...string) (T, error) {
	v, err := parse(text)
	if err != nil {
		var zero T
		return zero, c.opError(strings.Join(words, " "), err)
	}
	return v, nil
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
		return Output{}, c.opError(op, err)
	}
	return out, nil
}

func (c *Client) opError(op string, err error) error {
	return &OpError{Op: problem.Clip(op), Device: c.pipe, Err: err}
}

// outcome turns what the program left behind into an error: a refusal or a failure.
func outcome(out Output) error {
	for _, text := range []string{out.Stdout, out.Stderr} {
		if r := rejection(text); r != nil {
			return r
		}
	}
	if out.ExitCode != 0 {
		return fmt.Errorf("%w with exit status %d: %s", ErrCrashed, out.ExitCode,
			problem.Clip(strings.TrimSpace(out.Stderr+" "+out.Stdout)))
	}
	return nil
}

// withTimeout bounds ctx by d, after which its cause is ErrTimeout.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w (%v): %w", ErrTimeout, d, context.DeadlineExceeded))
}

// until asks at least once, then at most every so often until done or within has passed. ok is false when time is up.
func (c *Client) until(ctx context.Context, op string, within, every time.Duration, done func(context.Context) (bool,
	error)) (ok bool, err error) {
	wait := min(every, 10*time.Millisecond)
	for deadline := time.Now().Add(within); ; wait = min(2*wait, every) {
		if ok, err := done(ctx); err != nil || ok {
			return ok, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		if err := sleep(ctx, min(wait, left)); err != nil {
			return false, c.opError(op, err)
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

// Names of the environment variables of MPS, see
// https://docs.nvidia.com/deploy/mps/appendix-environment-variables.html.
const (
	EnvPipeDirectory  = "CUDA_MPS_PIPE_DIRECTORY"
	EnvLogDirectory   = "CUDA_MPS_LOG_DIRECTORY"
	EnvThreads        = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	EnvPinnedMemLimit = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	EnvProtocol       = "CUDA_MPS_PROTOCOL_VERSION"
	EnvVisibleDevices = "CUDA_VISIBLE_DEVICES"
)

// Directories that are used when none is set.
const (
	DefaultPipe = "/tmp/nvidia-mps"
	DefaultLog  = "/var/log/nvidia-mps"
)

// Invocation is one run of the control program: Args after its name, Stdin (v2 commands, each ended by a newline),
// and Env, "KEY=VALUE", which names the daemon that it is for.
type Invocation = command.Invocation

// Output holds the outcome of one run of the control program: Stdout, Stderr and ExitCode.
type Output = command.Output

// Runner runs the control program:
//
//	Run(ctx context.Context, in Invocation) (Output, error)
//
// Run returns an error only if the program could not be run to its end; a program that exits with another status
// than 0 is no error. When ctx ends, Run ends the program and returns an error. Implementations must be safe for
// concurrent use.
//
// Program is the one for this machine; mpstest.Daemon is one for tests. Another could run the program in a container.
type Runner = command.Runner

// Program runs nvidia-cuda-mps-control on this machine. The zero value is ready. It is safe for concurrent use.
//
// Of this process's environment the program gets all but what MPS reads: CUDA_VISIBLE_DEVICES and CUDA_MPS_*. A
// daemon would hand such limits on to everybody. What it is to have of them stands in Env.
type Program struct {
	Path string   // "" = nvidia-cuda-mps-control on PATH
	Env  []string // added to the environment, "KEY=VALUE"
}

// Run runs the program once and waits for it. More than 1 MiB of output ends the program and is ErrOutputTooLarge; a
// missing program is ErrNotInstalled; ErrPlatform where there is no MPS.
func (p *Program) Run(ctx context.Context, in Invocation) (Output, error) {
	path, err := p.lookup()
	if err != nil {
		return Output{}, err
	}
	in.Env = slices.Concat(p.Env, in.Env)
	out, err := command.Program{Path: path, Environ: withoutMPS(os.Environ())}.Run(ctx, in)
	switch exit := (*exec.ExitError)(nil); {
	case errors.Is(err, command.ErrOutputTooLarge):
		err = fmt.Errorf("%w: %w", ErrOutputTooLarge, err)
	case errors.As(err, &exit):
		err = fmt.Errorf("%w: %w", ErrCrashed, err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return out, err
}

func (p *Program) lookup() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w, not on %s", ErrPlatform, runtime.GOOS)
	}
	name := cmp.Or(p.Path, controlProgram)
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w: %w", ErrPermission, err)
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return path, nil
}
