// Package command runs a program of NVIDIA's once, without a shell, and bounds
// what it may print. Packages mps and timeslice show its types to users.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Invocation is one run of a program.
type Invocation struct {
	Args  []string // after the program's name
	Stdin string
	Env   []string // added to the environment, "KEY=VALUE"; later entries win
}

// Output holds the outcome of one run of a program.
type Output struct {
	Stdout, Stderr string
	ExitCode       int
}

// Runner runs a program. Run returns an error only if the program could not be run to its end; one that exits with
// another status than 0 is no error. When ctx ends, Run ends the program and returns an error. Implementations must
// be safe for concurrent use.
type Runner interface {
	Run(ctx context.Context, in Invocation) (Output, error)
}

// ErrOutputTooLarge says that a program printed more than it may.
var ErrOutputTooLarge = errors.New("the output is larger than the allowed size")

// maxOutput bounds what is taken from each of stdout and stderr, in bytes.
const maxOutput = 1 << 20

// OutputPeriod bounds the wait for output after a program has ended: a child of its own may hold the pipes open.
const OutputPeriod = 2 * time.Second

// Program is a program at Path.
type Program struct {
	Path    string
	Environ []string // what an invocation's Env is added to; nil is this process's
}

// Run runs the program once. More than 1 MiB of output ends the program and is
// ErrOutputTooLarge. A program that a signal ends is an error, too.
func (p Program) Run(ctx context.Context, in Invocation) (Output, error) {
	base := p.Environ
	if base == nil {
		base = os.Environ()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tooLarge := func() { cancel(fmt.Errorf("%w: over %d bytes", ErrOutputTooLarge, maxOutput)) }
	stdout, stderr := &Buffer{Limit: maxOutput, Full: tooLarge}, &Buffer{Limit: maxOutput, Full: tooLarge}
	cmd := exec.CommandContext(ctx, p.Path, in.Args...)
	cmd.Env = Environ(base, in.Env)
	cmd.Stdin = strings.NewReader(in.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = OutputPeriod
	err := cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String()}
	if cause := context.Cause(ctx); cause != nil {
		return out, cause
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		out.ExitCode = exit.ExitCode()
		return out, nil
	}
	return out, err
}

// Environ returns base with the variables of set put in their place; later entries win.
func Environ(base, set []string) []string {
	at := make(map[string]int, len(base)+len(set))
	var out []string
	for _, list := range [][]string{base, set} {
		for _, kv := range list {
			key, _, _ := strings.Cut(kv, "=")
			if i, ok := at[key]; ok {
				out[i] = kv
				continue
			}
			at[key] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

// Lookup returns the last value of a variable in an environment, "" if there is none.
func Lookup(environ []string, key string) (value string) {
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			value = v
		}
	}
	return value
}

// Buffer keeps the first Limit bytes of a stream and swallows the rest, so that a program that prints without end
// neither blocks nor fills the memory. Full, if given, is called when there are more. os/exec writes to it from one
// goroutine and reads it after that has ended.
type Buffer struct {
	kept  bytes.Buffer // not embedded: its ReadFrom would go round Write
	Limit int
	Full  func()
}

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	room := b.Limit - b.kept.Len()
	if len(p) <= room {
		return b.kept.Write(p)
	}
	b.kept.Write(p[:room])
	if b.Full != nil {
		b.Full()
	}
	return len(p), nil
}

// String returns what was kept.
func (b *Buffer) String() string { return b.kept.String() }
