//go:build !linux

package mps

import (
	"fmt"
	"os/exec"
	"runtime"
)

func procEnviron(int) ([]string, error) {
	return nil, fmt.Errorf("%w, not on %s", ErrPlatform, runtime.GOOS)
}

func ownGroup(*exec.Cmd) {}

func isMPSServer(int) bool { return false }
