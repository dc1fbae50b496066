package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"github.com/cotenant/cotenant/internal/command"
)

// Names of the environment variables of MPS, see
// https://docs.nvidia.com/deploy/mps/appendix-environment-variables.html.
const (
	EnvPipeDirectory  = "CUDA_MPS_PIPE_DIRECTORY"
	EnvLogDirectory   = "CUDA_MPS_LOG_DIRECTORY"
	EnvThreads        = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	EnvPinnedMemLimit = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	EnvPriority       = "CUDA_MPS_CLIENT_PRIORITY"
	EnvPartition      = "CUDA_MPS_SM_PARTITION"
	EnvPerContext     = "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"
	EnvProtocol       = "CUDA_MPS_PROTOCOL_VERSION"
	EnvVisibleDevices = "CUDA_VISIBLE_DEVICES"
	EnvMaxConnections = "CUDA_DEVICE_MAX_CONNECTIONS"
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
// Program is the one for this machine; mpstest.Daemon is one for tests.
// Another could run the program in a container.
type Runner = command.Runner

// Program runs nvidia-cuda-mps-control on this machine. The zero value is ready. It is safe for concurrent use.
//
// Of this process's environment the program gets all but what MPS reads: CUDA_VISIBLE_DEVICES and CUDA_MPS_*. A
// daemon would hand such limits on to everybody. What it is to have of them stands in Env.
type Program struct {
	Path      string   // "" = nvidia-cuda-mps-control on PATH
	Env       []string // added to the environment, "KEY=VALUE"
	MaxOutput int      // most bytes taken from each of stdout and stderr; 0 = 1 MiB
}

// Run runs the program once and waits for it. Output over MaxOutput ends the program and is ErrOutputTooLarge; a
// missing program is ErrNotInstalled; ErrPlatform where there is no MPS.
func (p *Program) Run(ctx context.Context, in Invocation) (Output, error) {
	path, err := p.lookup()
	if err != nil {
		return Output{}, err
	}
	in.Env = slices.Concat(p.Env, in.Env)
	out, err := command.Program{Path: path, MaxOutput: p.MaxOutput, Environ: withoutMPS(os.Environ())}.Run(ctx, in)
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
