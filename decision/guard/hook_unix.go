// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guard

import (
	"os/exec"
	"syscall"
)

// group lets a hook's time-out end its children too: those that stayed in its process group.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// ended describes a time-out's effect.
const ended = "its process group was ended"
