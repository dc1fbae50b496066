// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package colocation

import (
	"errors"
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// signalGroup ends the command: there is nothing gentler here.
func signalGroup(cmd *exec.Cmd, _ os.Signal) error { return cmd.Process.Kill() }

func (s *server) halt(stop bool) error {
	if stop {
		return errors.New("a tenant cannot be halted on this system")
	}
	return nil
}
