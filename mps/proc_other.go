// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mps

import (
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
)

func procEnviron(int) ([]string, error) {
	return nil, fmt.Errorf("%w, not on %s", errPlatform, runtime.GOOS)
}

func ownGroup(*exec.Cmd) {}

func findProcess(int) (process, bool) { return process{}, false }

func (process) runs(string) bool { return false }

func (process) descendants() []process { return nil }

func (*Daemon) leftBehind() []process { return nil }

func pipeOfProcess(int) string { return "" }

func ownedByUs(fs.FileInfo) bool { return true }
