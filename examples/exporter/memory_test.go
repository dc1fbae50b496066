// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asCrowd in the environment is a number of pods more that hold a place on a
// time-sliced GPU of the simulated node, and do nothing.
const asCrowd = "COTENANT_TEST_CROWD"

func addPods(n int) {
	for i := range n {
		simSlots = append(simSlots, simSlot{gpu: 2, app: fmt.Sprintf("idle%d", i), namespace: fmt.Sprintf("crowd-%d", i%500), to: simSteps})
	}
}

// insideLimit runs the program with pods and slow readers and returns the most memory that it had resident, in MiB.
func insideLimit(t *testing.T, pods, readers int, span time.Duration) float64 {
	t.Helper()
	address := freePort(t)
	cmd := exec.Command(os.Args[0])
	if group := memoryGroup(t, shippedLimit(t)); group != "" {
		cmd = exec.Command("sh", "-c", `echo $$ > "$1" && exec "$0"`, os.Args[0], filepath.Join(group, "cgroup.procs"))
	}
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+shipped(t, `GOMEMLIMIT, value: (\w+)`), asCrowd+"="+strconv.Itoa(pods),
		asExporter+"=-simulate -speed 60 -scrape-interval 1s -node n1 -listen "+address+" -state "+t.TempDir())
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	eventually(t, "it answers", func() error { _, err := scrape("http://" + address); return err })
	end := time.Now().Add(span)
	var last page
	for time.Now().Before(end) {
		stop := holdReaders(t, address, readers)
		time.Sleep(2 * time.Second)
		stop()
		p, err := scrape("http://" + address)
		if err != nil {
			t.Logf("a scrape with %d readers: %v", readers, err)
			continue
		}
		if err := p.holds(last); err != nil {
			t.Fatal(err)
		}
		last = p
	}
	if len(last) == 0 {
		t.Fatalf("no scrape was answered\n%s", log.String())
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(peak)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d pods, %d slow readers, %v: %d series, at most %.0f MiB", pods, readers, span, len(last), kib/1024)
			return kib / 1024
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// memoryGroup makes a control group that kills processes above a number of MiB, and returns its folder: "" where
// this host does not let it.
func memoryGroup(t *testing.T, mib float64) string {
	for root, limit := range map[string]string{"/sys/fs/cgroup": "memory.max", "/sys/fs/cgroup/memory": "memory.limit_in_bytes"} {
		dir, err := os.MkdirTemp(root, "cotenant-test")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Log(err)
			}
		})
		file, err := os.OpenFile(filepath.Join(dir, limit), os.O_WRONLY, 0) // without the controller there is none
		if err != nil {
			continue
		}
		_, err = fmt.Fprintf(file, "%d", int64(mib*(1<<20)))
		if file.Close(); err == nil {
			t.Logf("in the control group %s", dir)
			return dir
		}
	}
	t.Log("no control group can be made here: only the peak of the resident memory is held to the limit")
	return ""
}

// shipped finds a figure of deploy/daemonset.yaml.
func shipped(t *testing.T, pattern string) string {
	t.Helper()
	text, err := os.ReadFile("deploy/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no %s", pattern)
	}
	return string(m[1])
}

// shippedLimit is the container's limit in MiB.
func shippedLimit(t *testing.T) float64 {
	n, err := strconv.ParseFloat(shipped(t, `limits: {memory: (\d+)Mi}`), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInsideTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a program")
	}
	if peak := insideLimit(t, 2000, 60, 4*time.Second); peak > shippedLimit(t) {
		t.Errorf("%.0f MiB", peak)
	}
}
