// SPDX-License-Identifier: Apache-2.0

package mps_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

// shortDir returns a directory with a path that is short enough for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "mps"))(t)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	return dir
}

// optionsOf are those of a stand-in daemon in a directory of its own.
func optionsOf(t testing.TB, o mpstest.Options) mps.DaemonOptions {
	t.Helper()
	dir := shortDir(t)
	return mps.DaemonOptions{Program: must.Get(mpstest.Program(o))(t), Runner: mpstest.Socket, Timeout: 20 * time.Second, StartTimeout: 30 * time.Second,
		PipeDirectory: filepath.Join(dir, "p"), LogDirectory: filepath.Join(dir, "l")}
}

func startDaemon(t testing.TB, o mpstest.Options) (*mps.Daemon, mps.DaemonOptions) {
	t.Helper()
	opt := optionsOf(t, o)
	d := must.Get(mps.Start(t.Context(), opt))(t)
	t.Cleanup(func() {
		if _, err := d.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		if err := syscall.Kill(d.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the daemon's process is still there: %v", err)
		}
	})
	return d, opt
}

// cuda is a process that plays a CUDA application.
type cuda struct {
	cmd  *exec.Cmd
	view mpstest.View
}

func startCUDA(t testing.TB, env ...string) *cuda {
	t.Helper()
	p := &cuda{cmd: exec.Command(must.Get(os.Executable())(t))}
	p.cmd.Env = append(append(os.Environ(), env...), mpstest.ClientRole)
	stdout := must.Get(p.cmd.StdoutPipe())(t)
	must.Get(p.cmd.StdinPipe())(t)
	must.Do(t, p.cmd.Start())
	t.Cleanup(func() { p.kill() })
	must.Do(t, json.NewDecoder(stdout).Decode(&p.view))
	return p
}

func (p *cuda) kill() {
	_ = p.cmd.Process.Kill() // perhaps it has ended
	_ = p.cmd.Wait()
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, opt := startDaemon(t, mpstest.Options{})
	byProgram := must.Get(mps.NewClient(mps.Options{Runner: opt.Program, PipeDirectory: opt.PipeDirectory, Timeout: time.Minute}))(t)
	if got, err := byProgram.ActiveThreadPercentage(ctx, 0); got != 100 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	c := d.Client()
	if _, err := mps.Start(ctx, opt); !errors.Is(err, mps.ErrDaemonRunning) {
		t.Errorf("second daemon: %v", err)
	}
	must.Do(t, c.SetActiveThreadPercentage(ctx, 0, 50))
	must.Do(t, c.SetPinnedMemLimit(ctx, 0, "0", 8*gib))
	pipe := mps.EnvPipeDirectory + "=" + opt.PipeDirectory
	a, b := startCUDA(t, pipe), startCUDA(t, pipe, mps.EnvThreads+"=25")
	stray := startCUDA(t, mps.EnvPipeDirectory+"="+opt.PipeDirectory+"-wrong")
	for _, w := range []struct {
		p      *cuda
		client sharing.Answer
		pct    float64
		sms    int
	}{{a, sharing.AnswerYes, 50, 66}, {b, sharing.AnswerYes, 25, 32}, {stray, sharing.AnswerNo, 0, 132}} {
		m, err := c.Verify(ctx, w.p.cmd.Process.Pid, mps.VerifyOptions{})
		if err != nil || m.Client != w.client || m.EffectivePercentage.Value != w.pct || w.p.view.SMs != w.sms {
			t.Errorf("%+v, %v; the process sees %+v", m, err, w.p.view)
		}
		if w.client == sharing.AnswerNo && !strings.Contains(m.Reason, "-wrong") {
			t.Errorf("reason %q", m.Reason)
		}
	}
	must.Do(t, c.TerminateClient(ctx, a.view.Server, b.cmd.Process.Pid))
	b.kill()
	// The daemon notices by itself that a client's process has gone.
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		s, err := c.Snapshot(ctx)
		if err != nil || time.Since(start) > 20*time.Second {
			t.Fatalf("%+v, %v", s, err)
		}
		if slices.Equal(s.Servers[0].Clients, []int{a.cmd.Process.Pid}) {
			break
		}
	}
	a.kill()
	res, err := d.Stop(ctx, time.Second)
	if err != nil || !res.Graceful || res.Forced != "" {
		t.Errorf("%+v, %v", res, err)
	}
	if again, err := d.Stop(ctx, time.Second); err != nil || again.Graceful != res.Graceful {
		t.Errorf("second stop: %+v, %v", again, err)
	}
}

func TestProgramFaults(t *testing.T) {
	t.Parallel()
	for script, c := range map[string]struct {
		timeout time.Duration
		want    error
	}{
		`printf '\000\001\377 MPS \033[31m'`: {time.Minute, mps.ErrGarbled},
		"yes no answer | head -c 2000000":    {time.Minute, mps.ErrOutputTooLarge},
		"echo 10; kill -9 $$":                {time.Minute, mps.ErrCrashed},
		"exec sleep 3600":                    {500 * time.Millisecond, mps.ErrTimeout},
	} {
		cl := must.Get(mps.NewClient(mps.Options{Runner: &mps.Program{Path: fake(t, t.TempDir(), script)}, Timeout: c.timeout}))(t)
		if _, err := cl.Servers(t.Context()); !errors.Is(err, c.want) || len(err.Error()) > 400 {
			t.Errorf("%s: %v, want %v", script, err, c.want)
		}
	}
}

// TestStopHung stops a daemon that accepts connections and answers none.
func TestStopHung(t *testing.T) {
	t.Parallel()
	opt := optionsOf(t, mpstest.Options{})
	opt.Timeout = 5 * time.Second
	d := must.Get(mps.Start(t.Context(), opt))(t)
	t.Cleanup(func() {
		if _, err := d.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	must.Do(t, syscall.Kill(d.PID(), syscall.SIGSTOP))
	for i := 0; ; i++ { // the signal takes effect soon, not at once
		s, err := d.Client().Snapshot(t.Context())
		if err != nil || i > 10 {
			t.Fatalf("%+v, %v", s, err)
		}
		if s.Daemon == sharing.AnswerUnknown {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // takes the grace away
	if r, err := d.Stop(ctx, time.Hour); err != nil || r.Graceful || r.Forced != "killed" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := syscall.Kill(d.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the daemon's process is still there: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	dir := shortDir(t)
	good := optionsOf(t, mpstest.Options{})
	good.Runner = nil
	for name, c := range map[string]struct {
		change func(*mps.DaemonOptions)
		want   error
	}{
		"no program":  {func(o *mps.DaemonOptions) { o.Program = &mps.Program{Path: filepath.Join(dir, "none")} }, mps.ErrNotInstalled},
		"not allowed": {func(o *mps.DaemonOptions) { o.Program = &mps.Program{Path: plainFile(t, dir)} }, mps.ErrPermission},
		"ends":        {func(o *mps.DaemonOptions) { o.Program = &mps.Program{Path: fake(t, dir, noDaemon)} }, mps.ErrCrashed},
		"ordinals":    {func(o *mps.DaemonOptions) { o.VisibleDevices = []string{"0"} }, mps.ErrInvalid},
		"relative":    {func(o *mps.DaemonOptions) { o.PipeDirectory = "x" }, mps.ErrInvalid},
	} {
		o := good
		c.change(&o)
		if d, err := mps.Start(t.Context(), o); !errors.Is(err, c.want) || d != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// plainFile writes a file that nobody may run.
func plainFile(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "plain")
	must.Do(t, os.WriteFile(path, []byte("x"), 0o600))
	return path
}

// noDaemon is the script of a program that finds no daemon and fails to be one.
const noDaemon = "[ \"$1\" = -f ] && exit 9\necho Cannot find MPS control daemon process\nexit 1"

// fake writes a program that is a shell script.
func fake(t testing.TB, dir, script string) string {
	t.Helper()
	path := filepath.Join(dir, "fake")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

// slowAtFirst leaves the first command to the daemon without an answer, as a busy node does.
type slowAtFirst struct {
	mps.Runner
	asked *atomic.Int32
}

func (s slowAtFirst) Run(ctx context.Context, in mps.Invocation) (mps.Output, error) {
	if s.asked.Add(1) == 2 { // the first finds that nothing is there
		<-ctx.Done()
		return mps.Output{}, context.Cause(ctx)
	}
	return s.Runner.Run(ctx, in)
}

// TestStartWaitsForAnAnswer as long as it may, though one command was not answered in its time; and no longer.
func TestStartWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{true, false} {
		runner := slowAtFirst{Runner: mpstest.Socket, asked: new(atomic.Int32)}
		o := optionsOf(t, mpstest.Options{})
		o.Runner, o.Timeout, o.StartTimeout = runner, time.Second, time.Minute
		if !long {
			o.StartTimeout = 500 * time.Millisecond
		}
		d, err := mps.Start(t.Context(), o)
		if !long {
			if !errors.Is(err, mps.ErrTimeout) {
				t.Errorf("err = %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if runner.asked.Load() < 3 {
			t.Error("nothing was asked again")
		}
		if _, err := d.Stop(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
	}
}
