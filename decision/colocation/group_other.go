//go:build !unix

package colocation

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// signalGroup ends the command: there is nothing gentler here.
func signalGroup(cmd *exec.Cmd, _ os.Signal) error { return cmd.Process.Kill() }
