// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Options select the daemon of a Client. The zero value is the default daemon of this machine.
type Options struct {
	Runner        Runner        // nil = &Program{}
	PipeDirectory string        // "" = DefaultPipe
	Timeout       time.Duration // for each command; 0 = 10 s
	// GPUs, if given, are the daemon's devices: limits for other devices and limits above a device's memory are
	// then refused, since the daemon itself accepts them silently.
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

// NewClient returns a client. It runs nothing; a missing daemon is reported by the first call, as ErrNoDaemon.
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

// do sends one v2 command and returns the answer, which is text and no refusal.
func (c *Client) do(ctx context.Context, timeout time.Duration, words ...string) (string, error) {
	for _, w := range words {
		if !isWord(w) {
			return "", c.opError(words[0], fmt.Errorf("%w: %q would not reach the daemon as one word", ErrInvalid,
				problem.Clip(w)))
		}
	}
	op := strings.Join(words, " ")
	out, err := c.run(ctx, timeout, Invocation{Stdin: op + "\n"})
	if err == nil {
		if err = checkText(out.Stdout); err != nil {
			err = c.opError(op, err)
		}
	}
	return out.Stdout, err
}

// read sends a command and parses its answer.
func read[T any](ctx context.Context, c *Client, parse func(string) (T, error), words ...string) (v T, err error) {
	text, err := c.do(ctx, c.timeout, words...)
	if err != nil {
		return v, err
	}
	if v, err = parse(text); err != nil {
		err = c.opError(strings.Join(words, " "), err)
	}
	return v, err
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
	return &sharing.OpError{Package: "mps", Op: problem.Clip(op), Device: c.pipe, Err: err}
}

// outcome turns the program's output into an error: a refusal or a failure.
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

// Directories used by default.
const (
	DefaultPipe = "/tmp/nvidia-mps"
	DefaultLog  = "/var/log/nvidia-mps"
)
