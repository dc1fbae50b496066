package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Names of the environment variables of MPS (ME).
const (
	EnvPipeDirectory   = "CUDA_MPS_PIPE_DIRECTORY"
	EnvLogDirectory    = "CUDA_MPS_LOG_DIRECTORY"
	EnvThreads         = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	EnvPinnedMemLimit  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	EnvPriority        = "CUDA_MPS_CLIENT_PRIORITY"
	EnvPartition       = "CUDA_MPS_SM_PARTITION"
	EnvPerContext      = "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"
	EnvProtocol        = "CUDA_MPS_PROTOCOL_VERSION"
	EnvVisibleDevices  = "CUDA_VISIBLE_DEVICES"
	EnvMaxConnections  = "CUDA_DEVICE_MAX_CONNECTIONS"
	DefaultPipe        = "/tmp/nvidia-mps"     // pipe directory when none is set (v2; v3 unless the daemon runs as root)
	DefaultPipeRootV3  = "/run/nvidia-mps"     // pipe directory of a v3 daemon run by root
	DefaultLog         = "/var/log/nvidia-mps" // log directory when none is set
	ControlProgram     = "nvidia-cuda-mps-control"
	defaultMaxOutput   = 1 << 20
	killedOutputPeriod = 2 * time.Second
)

// Invocation is one run of the control program.
type Invocation struct {
	Args          []string // arguments after the program's name; v3 commands and options
	Stdin         string   // v2 commands, each ended by a newline
	PipeDirectory string   // the daemon it is for
	Protocol      Protocol // ProtocolV3 announces itself; otherwise the program's default
}

// Output is what one run of the control program left behind.
type Output struct {
	Stdout   string
	Stderr   string
	ExitCode int
}

// Runner runs the control program. Run returns an error only if the program
// could not be run to its end; a program that exits with another status than 0
// is no error. When ctx ends, Run ends the program and returns an error.
// Implementations must be safe for concurrent use.
//
// Program is the one for this machine; mpstest.Daemon is one for tests.
// Another could run the program in a container.
type Runner interface {
	Run(ctx context.Context, in Invocation) (Output, error)
}

// Program runs nvidia-cuda-mps-control on this machine. The zero value is
// ready. It is safe for concurrent use.
type Program struct {
	Path      string   // "" = nvidia-cuda-mps-control on PATH
	Env       []string // added to the environment, "KEY=VALUE"
	MaxOutput int      // most bytes taken from each of stdout and stderr; 0 = 1 MiB
}

// Run runs the program once and waits for it. Output over MaxOutput ends the
// program and is ErrOutputTooLarge; a missing program is ErrNotInstalled;
// ErrPlatform where there is no MPS.
func (p *Program) Run(ctx context.Context, in Invocation) (Output, error) {
	path, err := p.lookup()
	if err != nil {
		return Output{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := p.MaxOutput
	if limit <= 0 {
		limit = defaultMaxOutput
	}
	stdout := &boundedBuffer{limit: limit, full: func() { cancel(ErrOutputTooLarge) }}
	stderr := &boundedBuffer{limit: limit, full: func() { cancel(ErrOutputTooLarge) }}
	cmd := exec.CommandContext(ctx, path, in.Args...)
	cmd.Env = p.environ(in)
	cmd.Stdin = strings.NewReader(in.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = killedOutputPeriod
	err = cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String()}
	if cause := context.Cause(ctx); cause != nil {
		return out, cause
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		out.ExitCode = exit.ExitCode()
		return out, nil
	case errors.As(err, &exit):
		return out, fmt.Errorf("%w: %v", ErrCrashed, err)
	case errors.Is(err, fs.ErrPermission):
		return out, fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return out, err
}

func (p *Program) lookup() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w, not on %s", ErrPlatform, runtime.GOOS)
	}
	name := p.Path
	if name == "" {
		name = ControlProgram
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("%w: %w", ErrPermission, err)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return path, nil
}

// environ is this process's environment with the daemon chosen by in.
func (p *Program) environ(in Invocation) []string {
	set := append([]string(nil), p.Env...)
	if in.PipeDirectory != "" {
		set = append(set, EnvPipeDirectory+"="+in.PipeDirectory)
	}
	if in.Protocol == ProtocolV3 {
		set = append(set, EnvProtocol+"=3")
	}
	return mergeEnviron(os.Environ(), set)
}

// mergeEnviron returns base with the variables of set put in their place;
// later entries win.
func mergeEnviron(base, set []string) []string {
	at := make(map[string]int, len(base)+len(set))
	var out []string
	for _, kv := range append(append([]string(nil), base...), set...) {
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

// boundedBuffer keeps at most limit bytes and calls full once there are more.
// The buffer is no embedded field: its ReadFrom would go round the limit.
// os/exec writes to it from one goroutine and reads it after that has ended.
type boundedBuffer struct {
	buf   bytes.Buffer
	limit int
	full  func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.buf.Len(); len(p) > room {
		b.buf.Write(p[:max(room, 0)])
		b.full()
		return 0, ErrOutputTooLarge
	}
	return b.buf.Write(p)
}

func (b *boundedBuffer) String() string { return b.buf.String() }
