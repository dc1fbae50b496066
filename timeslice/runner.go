package timeslice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/command"
)

// Invocation is one run of nvidia-smi: Args after its name, and Env, what is
// added to its environment, "KEY=VALUE".
type Invocation = command.Invocation

// Output is what one run of nvidia-smi left behind: Stdout, Stderr and
// ExitCode.
type Output = command.Output

// Runner runs nvidia-smi:
//
//	Run(ctx context.Context, in Invocation) (Output, error)
//
// A command that ran and failed is an Output with its exit code, not an error;
// an error says that it could not be run, or was stopped because ctx ended.
// Implementations must be safe for concurrent use.
type Runner = command.Runner

// SMI is the Runner that executes nvidia-smi, without a shell. The zero value
// finds it on PATH. It is safe for concurrent use.
type SMI struct {
	Path      string        // of the executable; "" means nvidia-smi on PATH
	Timeout   time.Duration // of one run; 0 means 10 s
	MaxOutput int           // most bytes taken of each stream; 0 means 1 MiB. More is an error.
}

// Run implements Runner.
func (s SMI) Run(ctx context.Context, in Invocation) (Output, error) {
	path, timeout := s.Path, s.Timeout
	if path == "" {
		path = "nvidia-smi"
	}
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := command.Program{Path: path, MaxOutput: s.MaxOutput}.Run(ctx, in)
	switch {
	case errors.Is(err, command.ErrOutputTooLarge):
		err = fmt.Errorf("%w: %s: %w", ErrUnreadable, path, err)
	case ctx.Err() != nil:
		err = fmt.Errorf("%s did not end in time: %w", path, err)
	}
	return out, err
}
