package mps

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of the programs.
const (
	controlProgram = "nvidia-cuda-mps-control"
	serverProgram  = "nvidia-cuda-mps-server"
)

// process is one run of a program: later processes with its ID have started at another time.
type process struct {
	pid     int
	started uint64 // clock ticks since the machine has started
}

func (p process) alive() bool {
	now, ok := findProcess(p.pid)
	return ok && now == p
}

// signal signals the process, and nobody else who has its ID by now: the handle
// of os.FindProcess stands for the process that alive then looks at.
func (p process) signal(sig os.Signal) error {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	if p.alive() {
		err = h.Signal(sig)
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, h.Release())
}

// pidFile names the file into which a control daemon writes its process ID, in its pipe
// directory; one that is killed leaves it there (seen on an H100).
const pidFile = "nvidia-cuda-mps-control.pid"

// daemonOf finds the control daemon of a pipe directory by what that says, as long as it is a process that runs the
// program for that directory: a number from another container means somebody else here.
func daemonOf(pipe, program string) (process, bool) {
	b, err := os.ReadFile(filepath.Join(pipe, pidFile))
	if err != nil {
		return process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 0 {
		return process{}, false
	}
	p, ok := findProcess(pid)
	return p, ok && (p.runs(controlProgram) || p.runs(program)) && pipeOfProcess(pid) == pipe
}
