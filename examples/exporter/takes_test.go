// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var takes = flag.Duration("takes", 0, "for how long to measure the cost of the program (2m, say)")

// recordedReads is the CPU time and the duration of a reading on a host with two busy H100s (driver
// 580.159.04, 190 s): the mean of 382 cheap readings, 16 lists of processes and 38 energy readings of the exporter,
// which still read both GPUs at the same time; the processes' utilization and the device's samples as 192 readings of a
// program took that read one GPU only. They took half as long.
var recordedReads = map[string][2]time.Duration{
	"BASIC": {134 * time.Microsecond, 288 * time.Microsecond}, "PROCESSES": {1050 * time.Microsecond, 2480 * time.Microsecond},
	"PROCESS_UTIL": {2297 * time.Microsecond, 2297 * time.Microsecond}, "SAMPLES": {2058 * time.Microsecond, 2058 * time.Microsecond},
	"ENERGY": {6265 * time.Microsecond, 7555 * time.Microsecond},
}

// TestWhatItTakes runs the program with -real on a stand-in for NVML that takes as long as the real one did, and as
// much of a core: eight busy GPUs that 24 pods share. With -takes 2m it measures the program's CPU time, memory and
// scrapes every 15 s; without, it only checks the accounts.
func TestWhatItTakes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	dir := t.TempDir()
	lib, root := filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join(dir, "root")
	header, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/pkg/nvml", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	build := []string{"-shared", "-fPIC", "-O1", "-I", strings.TrimSpace(string(header)), "-o", lib, "testdata/nvml.c"}
	for _, name := range slices.Sorted(maps.Keys(recordedReads)) {
		build = append(build, fmt.Sprintf("-DCOST_%s=%d,%d", name, recordedReads[name][0], recordedReads[name][1]))
	}
	if out, err := exec.Command("cc", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write := func(name, text string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/sys/kernel/random/boot_id", "7d0c3e1a-0000-4000-8000-000000000000\n")
	for g := range 8 {
		for i := range 4 {
			pid := 1000 + 10*g + i
			write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0", pid, pid))
			write(fmt.Sprintf("proc/%d/cgroup", pid), fmt.Sprintf("0::/kubepods/podfecd2321-17b5-49b9-9f75-%012x/%s\n", pid, cid(pid)))
			write(fmt.Sprintf("var/log/containers/server-%d_team-%d_main-%s.log", pid, i, cid(pid)), "")
		}
	}
	period, span, every := 100*time.Millisecond, 3*time.Second, time.Second
	if *takes > 0 {
		period, span, every = time.Second, *takes, 15*time.Second
	}
	address := freePort(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asExporter+"=-real -node n1 -scrape-interval 0s -nvml "+lib+" -root "+root+" -state "+filepath.Join(dir, "state")+" -prices deploy/prices.yaml -listen "+address+" -period "+period.String())
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, log.String())
		}
	}()
	var first, last page
	eventually(t, "all GPUs are there", func() error {
		first, err = scrape("http://" + address)
		if err == nil && len(first.sums("cotenant_gpu_up")) != 8 {
			err = fmt.Errorf("%v", first.sums("cotenant_gpu_up"))
		}
		return err
	})
	begun := time.Now()
	var scrapes []time.Duration
	for time.Since(begun) < span {
		time.Sleep(every)
		at := time.Now()
		resp, err := http.Get("http://" + address + "/metrics") // compressed, as Prometheus asks for it
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		scrapes = append(scrapes, time.Since(at))
	}
	eventually(t, "all 24 tenants have a share", func() error {
		if last, err = scrape("http://" + address); err != nil {
			return err
		}
		tenants := map[string]bool{}
		for name, s := range last {
			if strings.HasPrefix(name, mSeconds+" ") && strings.Contains(name, `account="tenant"`) && s > 0 {
				_, pod, _ := strings.Cut(name, "pod=")
				pod, _, _ = strings.Cut(pod, " ")
				tenants[pod] = true
			}
		}
		if len(tenants) != 24 {
			return fmt.Errorf("%d tenants: %q", len(tenants), slices.Sorted(maps.Keys(tenants)))
		}
		return nil
	})
	if err := last.holds(first); err != nil {
		t.Error(err)
	}
	for g, s := range last.sums(mObserved) {
		if s < span.Seconds()/3 {
			t.Errorf("%s was observed for %v s", g, s)
		}
	}
	const mCPU, mRSS = `process_cpu_seconds_total node="n1"`, `process_resident_memory_bytes node="n1"`
	cpu, rss := (last[mCPU]-first[mCPU])/time.Since(begun).Seconds(), last[mRSS]
	if cpu <= 0 || rss <= 0 {
		t.Errorf("the program took %v of a core and %v bytes", cpu, rss)
	}
	if *takes == 0 {
		return
	}
	slices.Sort(scrapes)
	typical := scrapes[len(scrapes)/2] // the slowest is the machine's
	t.Logf("%v: %.2f%% of a core, %.0f MB, a scrape of %d series takes %v, the slowest %v", span, 100*cpu, rss/1e6, len(last), typical, scrapes[len(scrapes)-1])
	if cpu > 0.01 || rss > 100e6 || typical > 50*time.Millisecond {
		t.Error("that is more than 1% of a core, 100 MB or 50 ms")
	}
}

func cid(n int) string { return fmt.Sprintf("%064x", n+1) }
