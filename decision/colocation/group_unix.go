// SPDX-License-Identifier: Apache-2.0

//go:build unix

package colocation

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's interrupt from the command, which is ended in order, and makes its children reachable.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals a command and its children.
func signalGroup(cmd *exec.Cmd, sig os.Signal) error {
	if err := syscall.Kill(-cmd.Process.Pid, sig.(syscall.Signal)); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// halt stops a tenant and its children where they are, or has them go on.
func (s *server) halt(stop bool) error {
	if stop {
		return signalGroup(s.cmd, syscall.SIGSTOP)
	}
	return signalGroup(s.cmd, syscall.SIGCONT)
}
