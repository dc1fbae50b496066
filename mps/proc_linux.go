package mps

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// procEnviron reads the environment that a process was started with.
func procEnviron(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("%w: process %d", ErrClientNotFound, pid)
	}
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
}

// ownGroup keeps a terminal's interrupt from the child: the daemon must
// outlive the clients that the same interrupt ends.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// isMPSServer answers whether the process runs the MPS server program, so that
// a reused process ID is never signalled. The kernel keeps 15 bytes of a name.
func isMPSServer(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(bytes.TrimSpace(b)) == "nvidia-cuda-mps-server"[:15]
}
