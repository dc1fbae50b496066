// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func procFile(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// procEnviron reads the environment that a process was started with.
func procEnviron(pid int) ([]string, error) {
	b, err := os.ReadFile(procFile(pid, "environ"))
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

// status holds the fields of /proc/PID/stat of a process that has not ended.
type status struct {
	process
	parent, group int
}

func readStatus(pid int) (s status, ok bool) {
	b, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return s, false
	}
	// The name, in brackets, may hold anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return s, false
	}
	s.pid = pid
	var errs [3]error
	s.parent, errs[0] = strconv.Atoi(f[1])
	s.group, errs[1] = strconv.Atoi(f[2])
	s.started, errs[2] = strconv.ParseUint(f[19], 10, 64)
	return s, errors.Join(errs[:]...) == nil
}

// findProcess returns the process that has the ID now.
func findProcess(pid int) (process, bool) {
	s, ok := readStatus(pid)
	return s.process, ok
}

// runs answers whether the process runs a program of that name: by its file, or
// by the name that it was started under (a script's comes after its shell).
func (p process) runs(name string) bool {
	if exe, err := os.Readlink(procFile(p.pid, "exe")); err == nil &&
		filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name {
		return true
	}
	b, err := os.ReadFile(procFile(p.pid, "cmdline"))
	if err != nil {
		return false
	}
	args := strings.Split(string(b), "\x00")
	if filepath.Base(args[0]) == name {
		return true
	}
	comm, err := os.ReadFile(procFile(p.pid, "comm")) // the kernel keeps 15 bytes
	return err == nil && len(args) > 1 && filepath.Base(args[1]) == name &&
		strings.TrimSpace(string(comm)) == name[:min(15, len(name))]
}

// descendants are the processes that p has started, and those that they have.
func (p process) descendants() []process {
	var out []process
	seen := map[int]bool{p.pid: true}
	for next := []int{p.pid}; len(next) > 0; next = next[1:] {
		lists, err := filepath.Glob(procFile(next[0], "task/*/children"))
		if err != nil {
			continue
		}
		for _, list := range lists {
			b, err := os.ReadFile(list)
			if err != nil {
				continue // the thread has ended
			}
			for _, word := range strings.Fields(string(b)) {
				pid, err := strconv.Atoi(word)
				if c, ok := findProcess(pid); err == nil && ok && !seen[pid] {
					seen[pid] = true
					out, next = append(out, c), append(next, pid)
				}
			}
		}
	}
	return out
}

// leftBehind are the processes of a daemon that has gone: the group that Start
// gave it, and MPS servers of its pipe directory that no other daemon has.
func (d *Daemon) leftBehind() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	// Somebody else's group can have the number once the daemon's is empty.
	leader, ok := findProcess(d.process.pid)
	here, _ := os.Readlink("/proc/self/ns/mnt")
	group := d.child != nil && (!ok || leader == d.process)
	var out []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		s, ok := readStatus(pid)
		if !ok || s.process == d.process {
			continue
		}
		parent := process{pid: s.parent}
		if group && s.group == d.process.pid && s.started >= d.process.started ||
			s.runs(serverProgram) && inNamespace(pid, here) && pipeOfProcess(pid) == d.client.pipe &&
				!parent.runs(controlProgram) && !parent.runs(d.program) {
			out = append(out, s.process)
		}
	}
	return out
}

// inNamespace answers whether a process sees files as one in a mount namespace
// does: in a container the pipe directory's path means another directory.
func inNamespace(pid int, mount string) bool {
	its, err := os.Readlink(procFile(pid, "ns/mnt"))
	return err == nil && its == mount
}

// pipeOfProcess is the pipe directory that a process was started with.
func pipeOfProcess(pid int) string {
	environ, err := procEnviron(pid)
	if err != nil {
		return ""
	}
	dir := ""
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, EnvPipeDirectory+"="); ok {
			dir = value
		}
	}
	return cmp.Or(dir, DefaultPipe)
}

// ownedByUs reports whether a file is this user's or root's.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
