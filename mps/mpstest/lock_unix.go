// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mpstest

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock takes the pipe directory for this process's life, as the real daemon does by the same file.
func lock(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "control_lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	fd, err := syscall.Dup(int(f.Fd())) // held until the process ends
	if err != nil {
		return err
	}
	syscall.CloseOnExec(fd)
	if err := f.Close(); err != nil {
		return err
	}
	return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
}
