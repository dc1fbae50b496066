// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// checkPipeDirectory refuses directories that cannot hold the daemon's sockets or that an environment cannot carry. It
// does not see that one is on a network file system, where the daemon itself fails.
func checkPipeDirectory(l *problem.List, path, dir string) {
	// sun_path holds 108 bytes with the terminating 0, and the longest socket is control_privileged.
	const longest = 107 - len("/control_privileged")
	switch {
	case dir == "":
		l.Addf(path, `use an absolute path, for example "`+DefaultPipe+`"`, "it is empty")
	case strings.ContainsFunc(dir, func(r rune) bool { return r < ' ' || r == 0x7f }):
		l.Addf(path, "use a plain path", "%q holds control characters", problem.Clip(dir))
	case !strings.HasPrefix(dir, "/"):
		l.Addf(path, "use an absolute path: daemon and clients run in different directories", "%q is relative",
			problem.Clip(dir))
	case filepath.ToSlash(filepath.Clean(dir)) != dir:
		l.Addf(path, "write it as "+filepath.ToSlash(filepath.Clean(dir)), "%q is not in its shortest form",
			problem.Clip(dir))
	case len(dir) > longest:
		l.Addf(path, fmt.Sprintf("use at most %d bytes", longest), "%d bytes are too long for a socket's path", len(dir))
	}
}

func checkGPUs(l *problem.List, path string, gpus []GPU) {
	ordinals, uuids := map[int]bool{}, map[string]bool{}
	for i, g := range gpus {
		at := fmt.Sprintf("%s[%d]", path, i)
		l.If(g.Ordinal < 0 || ordinals[g.Ordinal], at+".Ordinal", "number the GPUs from 0",
			"%d is negative or given twice", g.Ordinal)
		l.If(g.UUID != "" && (!isUUID(g.UUID) || uuids[g.UUID]), at+".UUID", `give each GPU's own UUID, "GPU-..."`,
			"%q is no UUID or given twice", problem.Clip(g.UUID))
		l.If(g.Memory < 0 || g.SMs < 0, at, "leave them 0 if not known", "negative memory or SMs")
		ordinals[g.Ordinal], uuids[g.UUID] = true, g.UUID != ""
	}
}

// checkDevice accepts a device named by ordinal ("0") or UUID ("GPU-...").
func checkDevice(l *problem.List, path, device string) bool {
	ok := isOrdinal(device) || isUUID(device)
	l.If(!ok, path, `name it by ordinal, "0", or by UUID, "GPU-..."`, "%q is no device", problem.Clip(device))
	return ok
}

// findGPU finds a device by ordinal, UUID or unambiguous beginning of a UUID.
func findGPU(gpus []GPU, device string) (GPU, bool) {
	var found GPU
	n := 0
	for _, g := range gpus {
		if strconv.Itoa(g.Ordinal) == device || g.UUID == device {
			return g, true
		}
		if isUUID(device) && strings.HasPrefix(g.UUID, device) {
			found = g
			n++
		}
	}
	return found, n == 1
}

func gpuNames(gpus []GPU) string {
	var names []string
	for _, g := range gpus {
		names = append(names, strings.TrimSuffix(fmt.Sprintf("%d (%s)", g.Ordinal, g.UUID), " ()"))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

func checkPID(l *problem.List, path string, pid int) {
	l.If(pid <= 0 || pid > 1<<31-1, path, "process IDs are positive", "%d is no process ID", pid)
}

func pidWord(path string, pid int) (string, error) {
	var l problem.List
	checkPID(&l, path, pid)
	return strconv.Itoa(pid), l.Under(ErrInvalid)
}

// percentUnit is the last decimal of a percentage that is sent.
const percentUnit = 1e-4

// checkPercentage accepts the daemon's range: over 0 and up to 100, to four decimals.
func checkPercentage(l *problem.List, path string, pct float64) {
	switch {
	case math.IsNaN(pct):
		l.Addf(path, "use a number over 0 and up to 100", "%v is no percentage", pct)
	case pct <= 0 || pct > 100:
		l.Addf(path, "use a number over 0 and up to 100", "%v%% is out of range", pct)
	case pct < percentUnit:
		l.Addf(path, "use at least 0.0001", "%v%% is smaller than can be sent", pct)
	}
}

func formatPercentage(pct float64) string {
	return strconv.FormatFloat(math.Round(pct*1e4)/1e4, 'f', -1, 64)
}

// checkMemLimit accepts limits that can be sent without rounding. total 0 is not known.
func checkMemLimit(l *problem.List, path string, limit, total sharing.Bytes) {
	switch {
	case limit <= 0:
		l.Addf(path, "leave the limit out to have none", "%d bytes is no limit", int64(limit))
	case limit%sharing.MiB != 0:
		l.Addf(path, fmt.Sprintf("use %dMiB", limit.MiB()), "%v is not whole in MiB, the daemon's smallest unit", limit)
	case total > 0 && limit > total:
		l.Addf(path, "use at most the GPU's memory", "%v is larger than the GPU's %v", limit, total)
	}
}

// makeDirectory makes a directory that clients of other users reach, whatever the umask, and refuses one that is
// there if another user could have put it there or can put things into it.
func makeDirectory(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDirectory(parent); err != nil {
			return err
		}
	}
	switch err := os.Mkdir(dir, 0o755); {
	case err == nil:
		return os.Chmod(dir, 0o755)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	unsafe := func(what, remedy string) error { return fmt.Errorf("%w: %s %s (%s)", errUnsafe, dir, what, remedy) }
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return unsafe("is a symbolic link", "name the directory itself")
	case !info.IsDir():
		return unsafe("is no directory", "remove it")
	case !ownedByUs(info):
		return unsafe("belongs to another user", "use a directory of your own or of root's")
	case info.Mode()&0o002 != 0:
		return unsafe("can be written by everybody", "chmod o-w "+dir)
	}
	return nil
}

// GPU is a device that an MPS daemon serves.
type GPU struct {
	Ordinal int           // as MPS clients count, after the daemon's CUDA_VISIBLE_DEVICES
	UUID    string        // "GPU-..."
	Memory  sharing.Bytes // total; 0 = not known
	SMs     int           // 0 = not known
}
