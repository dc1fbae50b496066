// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
)

func TestMain(m *testing.M) {
	if code, ok := mpstest.ControlProgram(); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func runTest(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"verify": nil, "limit": {"limit", "-percent", "25", "-memory", "8GiB"}, "run": {"run", "-percent", "33.3334", "--", "serve", "-x"},
		"start": {"start"}, "stop": {"stop"}, "help": {"-h"},
	} {
		code, out, errs := runTest(t, args...)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
		golden.Check(t, "testdata/"+name+".txt", []byte(out))
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"dance"}, "unknown command", 2},
		{[]string{"-nonsense"}, "not defined", 2},
		{[]string{"limit"}, "needs -percent", 2},
		{[]string{"limit", "-percent", "100.1"}, "out of range", 2},
		{[]string{"limit", "-percent", "NaN"}, "no percentage", 2},
		{[]string{"run", "-percent", "NaN", "--", "true"}, "NaN", 2},
		{[]string{"run", "-percent", "-5", "--", "true"}, "-5", 2},
		{[]string{"limit", "-memory", "8"}, "add a unit", 2},
		{[]string{"limit", "-memory", "999GiB"}, "larger than the GPU", 2},
		{[]string{"limit", "-memory", "1GiB", "-device", "0\nquit"}, "is no device", 2},
		{[]string{"run"}, "needs a command", 2},
		{[]string{"verify", "x"}, "no process ID", 2},
		{[]string{"verify", "4999999"}, "not an MPS client", 1},
		{[]string{"start", "now"}, "takes no argument", 2},
		{[]string{"-pipe", "relative", "verify"}, "relative", 2},
		{[]string{"-real", "-control", "/no/such/program", "stop"}, "not found", 5},
	} {
		code, _, errs := runTest(t, c.args...)
		if runtime.GOOS != "linux" && slices.Contains(c.args, "-control") {
			continue
		}
		if code != c.code || !strings.Contains(errs, c.want) || !strings.HasPrefix(errs, "mps: ") {
			t.Errorf("%q: exit %d, %q; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

// realConfig makes -real use a fake daemon.
func realConfig(t *testing.T) (c *config, args []string, stdout, stderr *bytes.Buffer) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("MPS runs on Linux")
	}
	p := must.Get(mpstest.Program(mpstest.Options{}))(t)
	for _, kv := range p.Env {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	dir := must.Get(os.MkdirTemp("", "mps"))(t)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	args = []string{"-real", "-control", p.Path, "-pipe", filepath.Join(dir, "p"), "-log", filepath.Join(dir, "l"), "-timeout", "1m"}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &config{ctx: t.Context(), stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, daemon: mps.DaemonOptions{Runner: mpstest.Socket}}, args, stdout, stderr
}

func TestRealCommands(t *testing.T) {
	c, args, stdout, stderr := realConfig(t)
	daemon := *c
	var out lockedBuffer
	daemon.stdout, daemon.stderr = &out, &out
	ended := make(chan int)
	go func() { ended <- daemon.run(append(slices.Clone(args), "start")) }()
	for began := time.Now(); !strings.Contains(out.String(), "started"); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal(out.String())
		}
	}
	for _, step := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"verify"}, "answers at", 0},
		{[]string{"start"}, "already answers", 5},
		{[]string{"limit", "-percent", "50"}, "in force: 50%", 0},
		{[]string{"run", "-wait", "30s", "--", "env", mpstest.ClientRole, args[2]}, "is a client of server", 0},
		{[]string{"run", "-wait", "1ms", "--", "env", "-i", "false"}, "", 1},
		{[]string{"verify"}, "PID", 0},
		{[]string{"stop", "-grace", "1s"}, "stopped", 0},
	} {
		stdout.Reset()
		stderr.Reset()
		fresh := *c
		stdin, w := io.Pipe() // the client ends with its input
		time.AfterFunc(2*time.Second, func() { w.Close() })
		fresh.stdin = stdin
		code := fresh.run(append(slices.Clone(args), step.args...))
		if code != step.code || !strings.Contains(stdout.String()+stderr.String(), step.want) {
			t.Errorf("%q: exit %d: %q %q", step.args, code, stdout, stderr)
		}
	}
	if code := <-ended; code != 0 || !strings.Contains(out.String(), "stopped") {
		t.Errorf("start: exit %d: %s", code, out.String())
	}
}

// lockedBuffer is a buffer for two goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
