//go:build unix

package colocation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup keeps a terminal's interrupt from the command, which is ended in order, and makes its children reachable.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals a command and its children.
func signalGroup(cmd *exec.Cmd, sig os.Signal) error { return kill(cmd, sig.(syscall.Signal)) }

// haltGroup stops a command and its children where they are, or has them go on.
func haltGroup(cmd *exec.Cmd, stop bool) error {
	if stop {
		return kill(cmd, syscall.SIGSTOP)
	}
	return kill(cmd, syscall.SIGCONT)
}

// listener finds the port and the socket of one that listens in Linux' tables.
var listener = regexp.MustCompile(`: \w+:(\w{4}) \w+:\w+ 0A (?:\S+\s+){5}(\d+)`)

// listening says on which ports the server and its children listen, where the system tells.
func (s *server) listening() (ports string) {
	if s.cmd == nil {
		return ""
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	four, _ := os.ReadFile("/proc/net/tcp")
	six, _ := os.ReadFile("/proc/net/tcp6")
	for _, m := range listener.FindAllStringSubmatch(string(four)+string(six), -1) {
		port, _ := strconv.ParseUint(m[1], 16, 16)
		if slices.ContainsFunc(files, func(file string) bool {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			group, err := syscall.Getpgid(pid)
			to, _ := os.Readlink(file)
			return err == nil && group == s.cmd.Process.Pid && to == "socket:["+m[2]+"]"
		}) {
			ports += fmt.Sprint("; it listens on port ", port)
		}
	}
	return ports
}

func kill(cmd *exec.Cmd, s syscall.Signal) error {
	if err := syscall.Kill(-cmd.Process.Pid, s); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
