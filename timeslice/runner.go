package timeslice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Output is what a command printed and how it ended.
type Output struct {
	Stdout, Stderr string
	ExitCode       int
}

// Runner runs nvidia-smi with the given arguments. A command that ran and
// failed is an Output with its exit code, not an error; an error says that it
// could not be run, or was stopped because ctx ended.
type Runner interface {
	Run(ctx context.Context, args ...string) (Output, error)
}

// Command is the Runner that executes nvidia-smi, without a shell. The zero
// value finds it on PATH. It is safe for concurrent use.
type Command struct {
	Path      string        // of the executable; "" means nvidia-smi on PATH
	Timeout   time.Duration // of one run; 0 means 10 s
	MaxOutput int           // bytes kept of each stream; 0 means 1 MiB. More is an error.
}

// Run implements Runner.
func (c Command) Run(ctx context.Context, args ...string) (Output, error) {
	path, timeout, limit := c.Path, c.Timeout, c.MaxOutput
	if path == "" {
		path = "nvidia-smi"
	}
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	if limit <= 0 {
		limit = 1 << 20
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stdout, stderr := &bounded{limit: limit}, &bounded{limit: limit}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second // a child of its own may hold the pipes open
	err := cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out, fmt.Errorf("%s did not end in time: %w", path, ctx.Err())
	case stdout.over || stderr.over:
		return out, fmt.Errorf("%w: %s printed more than %d bytes", ErrUnreadable, path, limit)
	case errors.As(err, &exit):
		out.ExitCode = exit.ExitCode()
		return out, nil
	}
	return out, err
}

// bounded keeps the first bytes of a stream and swallows the rest, so that a
// command which prints without end neither blocks nor fills the memory.
type bounded struct {
	kept  bytes.Buffer // not embedded: its ReadFrom would pass Write by
	limit int
	over  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.kept.Len(); len(p) > room {
		b.over = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}

func (b *bounded) String() string { return b.kept.String() }
