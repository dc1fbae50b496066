// SPDX-License-Identifier: Apache-2.0

package mps_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
)

// processesOf are the processes, this one apart, that were started with a pipe directory and have not ended.
func processesOf(t testing.TB, pipe string) (pids []int) {
	t.Helper()
	dirs := must.Get(filepath.Glob("/proc/[0-9]*"))(t)
	for _, dir := range dirs {
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), mps.EnvPipeDirectory+"="+pipe) {
			continue
		}
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			continue
		}
		pid := must.Get(strconv.Atoi(filepath.Base(dir)))(t)
		pids = append(pids, pid)
	}
	return pids
}

// TestStopLeavesNothing kills, stops or hangs the daemon or a server of it at a
// random time, 200 times, and finds no process after Stop.
func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	prog := optionsOf(t, mpstest.Options{ServerProcesses: true}).Program
	left := make(chan int, 200)
	for i := range 200 {
		left <- i
	}
	close(left)
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			for i := range left {
				if err := killAtRandom(t, prog, rand.New(rand.NewPCG(13, uint64(i)))); err != nil {
					t.Errorf("seed %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func killAtRandom(t testing.TB, prog *mps.Program, rng *rand.Rand) error {
	dir, err := os.MkdirTemp("", "mps")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // in the test's own directory nothing else is
	opt := mps.DaemonOptions{Program: prog, Runner: mpstest.Socket, Timeout: 5 * time.Second, StartTimeout: 30 * time.Second,
		PipeDirectory: filepath.Join(dir, "p"), LogDirectory: filepath.Join(dir, "l")}
	d, err := mps.Start(t.Context(), opt)
	if err != nil {
		return err
	}
	wait := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
	var work sync.WaitGroup
	servers := rng.IntN(4)
	work.Go(func() {
		for uid := range servers {
			in := mps.Invocation{Stdin: fmt.Sprintf("start_server -uid %d\n", uid)}
			_, _ = d.Client().Command(t.Context(), in) // the daemon may be dead by now
		}
	})
	if rng.IntN(2) == 0 {
		work.Wait()
	}
	wait(20 * time.Millisecond)
	victims := []int{d.PID()}
	if pids := processesOf(t, opt.PipeDirectory); len(pids) > 0 {
		victims = pids
	}
	sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP, 0}[rng.IntN(6)]
	victim := victims[rng.IntN(len(victims))]
	_ = syscall.Kill(victim, sig) // perhaps it has ended
	wait(10 * time.Millisecond)
	r, err := d.Stop(context.Background(), time.Duration(rng.IntN(2))*10*time.Millisecond)
	work.Wait()
	if err == nil && len(processesOf(t, opt.PipeDirectory)) > 0 {
		err = fmt.Errorf("%v of %v (the daemon is %d) leaves %v after %+v", sig, victim, d.PID(), processesOf(t, opt.PipeDirectory), r)
	}
	for _, pid := range processesOf(t, opt.PipeDirectory) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return err
}

// TestStopOfTheDead finds the servers of a daemon that was killed long before.
func TestStopOfTheDead(t *testing.T) {
	t.Parallel()
	d, opt := startDaemon(t, mpstest.Options{ServerProcesses: true})
	server := startServer(t, d.Client(), 0)
	must.Do(t, syscall.Kill(d.PID(), syscall.SIGKILL))
	<-d.Done()
	if left := processesOf(t, opt.PipeDirectory); !slices.Equal(left, []int{server}) {
		t.Fatalf("%v are there, want the server %d", left, server)
	}
	r, err := d.Stop(t.Context(), time.Second)
	if err != nil || r.Graceful || !slices.Equal(r.Servers, []int{server}) {
		t.Errorf("%+v, %v", r, err)
	}
	if left := processesOf(t, opt.PipeDirectory); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestStopOfTheHung ends a daemon that hangs, with its server, long before the grace is over.
func TestStopOfTheHung(t *testing.T) {
	t.Parallel()
	d, opt := startDaemon(t, mpstest.Options{ServerProcesses: true})
	startServer(t, d.Client(), 0)
	must.Do(t, syscall.Kill(d.PID(), syscall.SIGSTOP))
	start := time.Now()
	r, err := d.Stop(t.Context(), time.Hour)
	if took := time.Since(start); err != nil || r.Graceful || r.Forced != "killed" || len(r.Servers) != 1 || took > time.Minute {
		t.Errorf("%+v, %v after %v", r, err, took)
	}
	if left := processesOf(t, opt.PipeDirectory); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestRacingStarts starts daemons at once in one pipe directory: one is started, and it lives; the others are refused.
func TestRacingStarts(t *testing.T) {
	t.Parallel()
	for range 5 {
		opt := optionsOf(t, mpstest.Options{})
		var wg sync.WaitGroup
		daemons, errs := make([]*mps.Daemon, 3), make([]error, 3)
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
			select {
			case <-d.Done():
				t.Error("a daemon was started that has ended")
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := d.Stop(context.Background(), 0); err != nil {
				t.Error(err)
			}
		}
		if started != 1 {
			t.Errorf("%d were started: %v", started, errs)
		}
	}
}

// TestAdopt restarts the program that manages a daemon: it finds the same servers and clients, and its Stop ends all.
func TestAdopt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	opt := optionsOf(t, mpstest.Options{ServerProcesses: true})
	opt.Runner = nil
	if _, err := mps.Adopt(ctx, opt); !errors.Is(err, mps.ErrNoDaemon) {
		t.Errorf("nothing is there to adopt: %v", err)
	}
	started := must.Get(mps.Start(ctx, opt))(t)
	first := started.Client()
	for _, err := range []error{first.SetActiveThreadPercentage(ctx, 0, 40), first.SetPinnedMemLimit(ctx, 0, "0", 8*gib)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := startCUDA(t, mps.EnvPipeDirectory+"="+opt.PipeDirectory)
	before := must.Get(first.Snapshot(ctx))(t)

	opt.Runner = mpstest.Socket
	d := must.Get(mps.Adopt(ctx, opt))(t)
	after, err := d.Client().Snapshot(ctx)
	if diff := cmp.Diff(before, after); err != nil || diff != "" || !slices.Equal(after.Servers[0].Clients, []int{a.cmd.Process.Pid}) {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
	if pct, err := d.Client().ActiveThreadPercentage(ctx, a.view.Server); err != nil || pct != 40 {
		t.Errorf("%v%%, %v", pct, err)
	}
	if l, err := d.Client().PinnedMemLimit(ctx, a.view.Server, "0"); err != nil || l.Value != 8*gib {
		t.Errorf("%+v, %v", l, err)
	}
	must.Do(t, syscall.Kill(d.PID(), syscall.SIGKILL))
	select {
	case <-d.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the end of the daemon is not seen")
	}
	a.kill()
	if r, err := d.Stop(ctx, 0); err != nil || !slices.Equal(r.Servers, []int{a.view.Server}) {
		t.Errorf("%+v, %v", r, err)
	}
	if left := processesOf(t, opt.PipeDirectory); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestDirectories refuses directories that another user could have prepared.
func TestDirectories(t *testing.T) {
	opt := optionsOf(t, mpstest.Options{})
	for name, plant := range map[string]func(dir string) error{
		"a symbolic link to a directory for all": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"-real", 0o700), os.Chmod(dir+"-real", 0o777), os.Symlink(dir+"-real", dir))
		},
		"a symbolic link": func(dir string) error { return errors.Join(os.Mkdir(dir+"-real", 0o700), os.Symlink(dir+"-real", dir)) },
		"for all":         func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"sticky, for all": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky)) },
		"a file":          func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"another user's": func(dir string) error {
			if os.Geteuid() != 0 {
				return errors.ErrUnsupported
			}
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 12345))
		},
	} {
		for _, which := range []string{"p", "l"} {
			dir := shortDir(t)
			if err := plant(filepath.Join(dir, which)); errors.Is(err, errors.ErrUnsupported) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			opt.PipeDirectory, opt.LogDirectory = filepath.Join(dir, "p"), filepath.Join(dir, "l")
			d, err := mps.Start(t.Context(), opt)
			if !errors.Is(err, mps.ErrUnsafe) || d != nil {
				t.Errorf("%s as %s: %v", name, which, err)
			}
		}
	}
}

// TestUmask reaches the sockets of a daemon that was started under a strict umask.
// It is not parallel: the umask is the process's.
func TestUmask(t *testing.T) {
	opt := optionsOf(t, mpstest.Options{})
	opt.PipeDirectory = filepath.Join(filepath.Dir(opt.PipeDirectory), "new", "p")
	old := syscall.Umask(0o077)
	d, err := mps.Start(t.Context(), opt)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stop(context.Background(), 0); err != nil {
		t.Error(err)
	}
	for _, made := range []string{opt.PipeDirectory, filepath.Dir(opt.PipeDirectory), opt.LogDirectory} {
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", made, info.Mode(), err)
		}
	}
}

// TestDaemonInheritsNoLimits keeps the caller's own limits from the daemon, which would hand them on to everybody.
func TestDaemonInheritsNoLimits(t *testing.T) {
	t.Setenv(mps.EnvVisibleDevices, "1")
	t.Setenv(mps.EnvThreads, "10")
	t.Setenv(mps.EnvPinnedMemLimit, "0=1G")
	opt := optionsOf(t, mpstest.Options{})
	opt.Program.Env = append(opt.Program.Env, "CUDA_MPS_CLIENT_PRIORITY=1") // set on purpose
	d := must.Get(mps.Start(t.Context(), opt))(t)
	environ := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/environ", d.PID())))(t)
	var got []string
	for kv := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(kv, "CUDA_MPS_") || strings.HasPrefix(kv, mps.EnvVisibleDevices) {
			got = append(got, kv)
		}
	}
	slices.Sort(got)
	want := []string{"CUDA_MPS_CLIENT_PRIORITY=1", "CUDA_MPS_LOG_DIRECTORY=" + opt.LogDirectory, mps.EnvPipeDirectory + "=" + opt.PipeDirectory, "CUDA_MPS_PROTOCOL_VERSION=2"}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := d.Stop(context.Background(), 0); err != nil {
		t.Error(err)
	}
}

// TestStopSparesTheSuccessor stops a daemon that was killed, after another one has
// taken its directory over: the processes of that one stay.
func TestStopSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	d, opt := startDaemon(t, mpstest.Options{ServerProcesses: true})
	must.Do(t, syscall.Kill(d.PID(), syscall.SIGKILL))
	<-d.Done()
	next := must.Get(mps.Start(t.Context(), opt))(t)
	server := startServer(t, next.Client(), 0)
	if r, err := d.Stop(t.Context(), 0); err != nil || len(r.Servers) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := processesOf(t, opt.PipeDirectory); !slices.Contains(got, server) || !slices.Contains(got, next.PID()) {
		t.Errorf("of the daemon %d and its server %d only %v are there", next.PID(), server, got)
	}
	if r, err := next.Stop(context.Background(), 20*time.Second); err != nil || !r.Graceful {
		t.Errorf("%+v, %v", r, err)
	}
}
