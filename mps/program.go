// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Invocation is one run of the control program.
type Invocation struct {
	Args  []string // after its name
	Stdin string   // v2 commands, each ended by a newline
	Env   []string // added to the environment, "KEY=VALUE", later entries win: selects the daemon
}

// Output holds the outcome of one run of the control program.
type Output struct {
	Stdout, Stderr string
	ExitCode       int
}

// Runner runs the control program. Run returns an error only if the program could not be run to its end; a non-zero
// exit status is no error. When ctx ends, Run ends the program and returns an error. Implementations must be safe for
// concurrent use.
//
// Program is the Runner for this machine, mpstest.Daemon one for tests.
type Runner interface {
	Run(ctx context.Context, in Invocation) (Output, error)
}

// Program runs nvidia-cuda-mps-control on this machine, without a shell. The zero value is ready. It is safe for
// concurrent use.
//
// The program inherits this process's environment without CUDA_VISIBLE_DEVICES and CUDA_MPS_*, since a daemon would
// pass such limits on to all its clients. Set them in Env if needed.
type Program struct {
	Path string   // "" = nvidia-cuda-mps-control on PATH
	Env  []string // added to the environment, "KEY=VALUE"
}

// maxOutput bounds the bytes taken from each of stdout and stderr.
const maxOutput = 1 << 20

// outputPeriod bounds the wait for output after a program has ended: a child of its own may hold the pipes open.
const outputPeriod = 2 * time.Second

// Run runs the program once and waits for it. More than 1 MiB of output ends the program and is an error; a
// missing program is ErrNotInstalled.
func (p *Program) Run(ctx context.Context, in Invocation) (Output, error) {
	path, err := p.lookup()
	if err != nil {
		return Output{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	full := func() { cancel(fmt.Errorf("%w: over %d bytes", errOutputTooLarge, maxOutput)) }
	stdout, stderr := &buffer{limit: maxOutput, full: full}, &buffer{limit: maxOutput, full: full}
	cmd := exec.CommandContext(ctx, path, in.Args...)
	cmd.Env = setIn(withoutMPS(os.Environ()), slices.Concat(p.Env, in.Env))
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(in.Stdin), stdout, stderr, outputPeriod
	err = cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String()}
	exit := (*exec.ExitError)(nil)
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return out, cause
	case errors.As(err, &exit) && exit.Exited():
		out.ExitCode = exit.ExitCode()
		return out, nil
	case exit != nil: // a signal has ended it
		err = fmt.Errorf("%w: %w", ErrCrashed, err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return out, err
}

func (p *Program) lookup() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w, not on %s", errPlatform, runtime.GOOS)
	}
	path, err := exec.LookPath(cmp.Or(p.Path, controlProgram))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w: %w", ErrPermission, err)
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return path, nil
}

// setIn returns an environment with the variables of set put in their place; later entries win.
func setIn(environ, set []string) []string {
	at := make(map[string]int, len(environ)+len(set))
	var out []string
	for _, kv := range slices.Concat(environ, set) {
		key, _, _ := strings.Cut(kv, "=")
		if i, ok := at[key]; ok {
			out[i] = kv
			continue
		}
		at[key] = len(out)
		out = append(out, kv)
	}
	return out
}

// buffer keeps the first limit bytes of a stream and swallows the rest, so that a program that prints without end
// neither blocks nor fills the memory. full, if given, is called when there are more. os/exec writes to it from one
// goroutine and reads it after that has ended.
type buffer struct {
	kept  bytes.Buffer // not embedded: its ReadFrom would bypass Write
	limit int
	full  func()
}

// Write implements io.Writer. It never fails.
func (b *buffer) Write(p []byte) (int, error) {
	room := min(b.limit-b.kept.Len(), len(p))
	b.kept.Write(p[:room])
	if room < len(p) && b.full != nil {
		b.full()
	}
	return len(p), nil
}

// String returns the kept output.
func (b *buffer) String() string { return b.kept.String() }

// withoutMPS returns an environment without the variables that MPS reads.
func withoutMPS(base []string) []string {
	kept := make([]string, 0, len(base))
	for _, kv := range base {
		key, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(key, "CUDA_MPS_") && key != EnvVisibleDevices {
			kept = append(kept, kv)
		}
	}
	return kept
}

// Names of the programs.
const (
	controlProgram = "nvidia-cuda-mps-control"
	serverProgram  = "nvidia-cuda-mps-server"
)

// Names of the environment variables of MPS, see
// https://docs.nvidia.com/deploy/mps/appendix-environment-variables.html.
const (
	EnvPipeDirectory  = "CUDA_MPS_PIPE_DIRECTORY"
	envLogDirectory   = "CUDA_MPS_LOG_DIRECTORY"
	EnvThreads        = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	EnvPinnedMemLimit = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	envProtocol       = "CUDA_MPS_PROTOCOL_VERSION"
	EnvVisibleDevices = "CUDA_VISIBLE_DEVICES"
)
