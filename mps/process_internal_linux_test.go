// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
)

// TestProcessIdentity distinguishes a server from programs with similar names, and a process from an earlier one with
// its ID.
func TestProcessIdentity(t *testing.T) {
	start := func(name string) process {
		cmd := &exec.Cmd{Path: "/bin/sleep", Args: []string{name, "60"}}
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // perhaps it has ended
			_ = cmd.Wait()
		})
		// Start returns when the kernel has let go of the old program, which may be
		// before the new one's arguments can be read.
		for range 1000 {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid)); strings.HasPrefix(string(line), name+"\x00") {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p, ok := findProcess(cmd.Process.Pid)
		if !ok {
			t.Fatal("the process is not found")
		}
		return p
	}
	server, control := start("nvidia-cuda-mps-server"), start("nvidia-cuda-mps-control")
	if !server.runs(serverProgram) || control.runs(serverProgram) || !control.runs(controlProgram) {
		t.Error("programs are confused")
	}
	reused := process{pid: server.pid, started: server.started - 1}
	if reused.alive() {
		t.Error("another process with the ID counts as the one before")
	}
	if err := reused.signal(os.Kill); err != nil || !server.alive() {
		t.Errorf("a process was signalled in place of one that has gone: %v", err)
	}
	if err := server.signal(syscall.SIGSTOP); err != nil || !server.alive() {
		t.Errorf("%v", err)
	}
	must.Do(t, server.signal(os.Kill))
}
