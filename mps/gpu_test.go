// SPDX-License-Identifier: Apache-2.0

//go:build gpu && linux

package mps_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// attribute is a CUDA program: it makes a context on device 0, prints the device attribute MULTIPROCESSOR_COUNT (16)
// and waits for the end of its input, so that it can be looked at meanwhile.
const attribute = `
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(status, call):
    if status != 0: sys.exit(f"{call}: CUDA status {status}")
check(cuda.cuInit(0), "cuInit")
dev, ctx, n = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
check(cuda.cuDeviceGet(ctypes.byref(dev), 0), "cuDeviceGet")
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), dev), "cuDevicePrimaryCtxRetain")
check(cuda.cuDeviceGetAttribute(ctypes.byref(n), 16, dev), "cuDeviceGetAttribute")
print(n.value, flush=True)
sys.stdin.read()
check(cuda.cuDevicePrimaryCtxRelease_v2(dev), "cuDevicePrimaryCtxRelease")
`

// TestGPUPercentageToSMs starts a control daemon of its own and reads back how
// many SMs a client sees at each percentage. It changes nothing on the GPU.
func TestGPUPercentageToSMs(t *testing.T) {
	dir := shortDir(t)
	d := must.Get(mps.Start(t.Context(), mps.DaemonOptions{PipeDirectory: filepath.Join(dir, "p"), LogDirectory: filepath.Join(dir, "l")}))(t)
	t.Cleanup(func() {
		if r, err := d.Stop(context.Background(), 5*time.Second); err != nil || !r.Graceful {
			t.Errorf("stop: %+v, %v", r, err)
		}
	})
	total := seenSMs(t, d, 0)
	t.Logf("the GPU has %d SMs", total)
	points := []float64{1, 5, 10, 12.5, 14.2857, 20, 25, 33, 33.3334, 40, 50, 60, 66.6667, 75, 80, 90, 99, 100}
	for _, pct := range points {
		want := must.Get(mps.SMs(total, pct))(t)
		if got := seenSMs(t, d, pct); got != want {
			t.Errorf("%v%%: the client sees %d SMs, the rule gives %d", pct, got, want)
		}
	}
}

// seenSMs runs a client under a percentage (0 = none), makes sure that the
// daemon lists it under that limit, and returns the SMs that it sees.
func seenSMs(t *testing.T, d *mps.Daemon, pct float64) int {
	t.Helper()
	env := must.Get(mps.ClientEnvironment{PipeDirectory: d.Client().PipeDirectory(), ActiveThreadPercentage: pct}.Build())(t)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", attribute)
	cmd.Env = append(cmd.Environ(), env...)
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must.Do(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var sms int
	if _, serr := fmt.Sscan(line, &sms); err != nil || serr != nil {
		_ = cmd.Process.Kill() // its output has the cause
		_ = cmd.Wait()
		t.Fatalf("%q, %v, %v: %s", line, err, serr, &stderr)
	}
	m, err := d.Client().Verify(t.Context(), cmd.Process.Pid, mps.VerifyOptions{Wait: 5 * time.Second})
	if err != nil || m.Client != sharing.AnswerYes || pct > 0 && m.EffectivePercentage.Value != pct {
		t.Errorf("%v%%: %+v, %v", pct, m, err)
	}
	if _, err := io.WriteString(stdin, "\n"); err != nil {
		t.Error(err)
	}
	must.Do(t, stdin.Close())
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &stderr)
	}
	return sms
}

// TestGPUAdoptAndStop takes over a daemon that runs a client, kills it, and finds
// nothing of it after Stop. Of racing starts one succeeds.
func TestGPUAdoptAndStop(t *testing.T) {
	t.Setenv(mps.EnvThreads, "10") // the caller's own
	dir := shortDir(t)
	opt := mps.DaemonOptions{PipeDirectory: filepath.Join(dir, "p"), LogDirectory: filepath.Join(dir, "l")}
	old := syscall.Umask(0o077)
	first, err := mps.Start(t.Context(), opt)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	c := first.Client()
	for _, made := range []string{opt.PipeDirectory, opt.LogDirectory} {
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", made, info.Mode(), err)
		}
	}
	if _, err := mps.Start(t.Context(), opt); !errors.Is(err, mps.ErrDaemonRunning) {
		t.Errorf("a second daemon: %v", err)
	}
	must.Do(t, c.SetActiveThreadPercentage(t.Context(), 0, 40))
	cmd := exec.CommandContext(t.Context(), "python3", "-c", attribute)
	cmd.Env = append(cmd.Environ(), mps.EnvPipeDirectory+"="+opt.PipeDirectory, mps.EnvThreads+"=100")
	must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has lost its daemon
		_ = cmd.Wait()
	})
	if m, err := c.Verify(t.Context(), cmd.Process.Pid, mps.VerifyOptions{Wait: 30 * time.Second}); err != nil || m.Client != sharing.AnswerYes {
		t.Fatalf("%+v, %v", m, err)
	}
	d := must.Get(mps.Adopt(t.Context(), opt))(t)
	s, err := d.Client().Snapshot(t.Context())
	if err != nil || len(s.Servers) != 1 || !slices.Equal(s.Servers[0].Clients, []int{cmd.Process.Pid}) {
		t.Errorf("%+v, %v", s, err)
	}
	if pct, err := d.Client().ActiveThreadPercentage(t.Context(), s.Servers[0].Server); err != nil || pct != 40 {
		t.Errorf("%v%%, %v", pct, err)
	}
	must.Do(t, syscall.Kill(d.PID(), syscall.SIGKILL))
	<-d.Done()
	began := time.Now()
	r, err := d.Stop(t.Context(), 0)
	t.Logf("%+v after %v", r, time.Since(began))
	if left := slices.DeleteFunc(processesOf(t, opt.PipeDirectory), func(pid int) bool { return pid == cmd.Process.Pid }); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	var wg sync.WaitGroup
	daemons := make([]*mps.Daemon, 3)
	errs := make([]error, 3)
	for i := range daemons {
		wg.Go(func() { daemons[i], errs[i] = mps.Start(t.Context(), opt) })
	}
	wg.Wait()
	started := 0
	for i, d := range daemons {
		if errs[i] != nil {
			if !errors.Is(errs[i], mps.ErrDaemonRunning) {
				t.Errorf("refused with %v", errs[i])
			}
			continue
		}
		started++
		if r, err := d.Stop(context.Background(), 0); err != nil || !r.Graceful {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if started != 1 {
		t.Errorf("%d daemons started: %v", started, errs)
	}
}
