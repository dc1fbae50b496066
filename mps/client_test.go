// SPDX-License-Identifier: Apache-2.0

package mps_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

const gib = sharing.GiB

func newClient(t testing.TB, d *mpstest.Daemon) *mps.Client {
	t.Helper()
	return must.Get(mps.NewClient(mps.Options{Runner: d, GPUs: d.GPUs(), Timeout: 5 * time.Second}))(t)
}

func connect(t testing.TB, d *mpstest.Daemon, env ...string) mpstest.View {
	t.Helper()
	return must.Get(d.Connect(mpstest.Process{Env: env}))(t)
}

func TestSettersReadBack(t *testing.T) {
	ctx := t.Context()
	d := mpstest.New(mpstest.Options{})
	c := newClient(t, d)
	v := connect(t, d)
	set := map[string]func() error{
		"default percentage": func() error { return c.SetActiveThreadPercentage(ctx, 0, 33.3334) },
		"percentage":         func() error { return c.SetActiveThreadPercentage(ctx, v.Server, 12.5) },
		"default limit":      func() error { return c.SetPinnedMemLimit(ctx, 0, "0", 8*gib) },
		"limit":              func() error { return c.SetPinnedMemLimit(ctx, v.Server, "0", 1536*sharing.MiB) },
	}
	d.Inject(mpstest.Fault{Kind: "ignore"})
	for name, f := range set {
		if err := f(); !errors.Is(err, mps.ErrMismatch) || !strings.Contains(err.Error(), "is in force") {
			t.Errorf("%s, ignored by the daemon: %v", name, err)
		}
	}
	d.Clear()
	for name, f := range set {
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := c.ActiveThreadPercentage(ctx, 0); p != 33.3 || err != nil {
		t.Errorf("default percentage %v, %v", p, err)
	}
	if l, err := c.PinnedMemLimit(ctx, v.Server, "0"); l.Value != 1536*sharing.MiB || !l.Known || err != nil {
		t.Errorf("limit %+v, %v", l, err)
	}
	if v := connect(t, d); v.SMs != 16 || v.Allocatable != 768*sharing.MiB {
		t.Errorf("a new client sees %+v", v)
	}
}

func TestBadInputIsNotSent(t *testing.T) {
	ctx := t.Context()
	d := mpstest.New(mpstest.Options{})
	c := newClient(t, d)
	for name, err := range map[string]error{
		"0%":          c.SetActiveThreadPercentage(ctx, 0, 0),
		"100.1%":      c.SetActiveThreadPercentage(ctx, 0, 100.1),
		"NaN%":        c.SetActiveThreadPercentage(ctx, 1, math.NaN()),
		"tiny%":       c.SetActiveThreadPercentage(ctx, 1, 1e-7),
		"PID":         c.SetActiveThreadPercentage(ctx, -1, 50),
		"limit 0":     c.SetPinnedMemLimit(ctx, 0, "0", 0),
		"limit -1":    c.SetPinnedMemLimit(ctx, 0, "0", -1),
		"limit odd":   c.SetPinnedMemLimit(ctx, 0, "0", gib+1),
		"limit large": c.SetPinnedMemLimit(ctx, 0, "0", 1024*gib),
		"device 7":    c.SetPinnedMemLimit(ctx, 0, "7", gib),
		"device text": c.SetPinnedMemLimit(ctx, 1, "0 8G\nquit", gib),
		"terminate":   c.TerminateClient(ctx, 0, -3),
		"grace":       func() error { _, err := c.Quit(ctx, -time.Second); return err }(),
		"verify":      func() error { _, err := c.Verify(ctx, 0, mps.VerifyOptions{}); return err }(),
	} {
		if !errors.Is(err, mps.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := c.PinnedMemLimit(ctx, -1, "x")
	for _, err := range []error{err, c.SetPinnedMemLimit(ctx, -1, "x", gib), c.SetActiveThreadPercentage(ctx, -1, 0)} {
		if err == nil || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("not both problems are named: %v", err)
		}
	}
	if cmds := d.Commands(); len(cmds) != 0 {
		t.Errorf("the daemon received %q", cmds)
	}
}

func TestBadOptions(t *testing.T) {
	_, err := mps.NewClient(mps.Options{PipeDirectory: "rel\native", Timeout: -1, GPUs: []mps.GPU{{}, {UUID: "no"}}})
	if !errors.Is(err, mps.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"PipeDirectory", "Timeout", "GPUs[1].Ordinal", "GPUs[1].UUID"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// startServer asks the daemon for a user's server, which else starts with the first client.
func startServer(t *testing.T, c *mps.Client, uid int) int {
	t.Helper()
	must.Get(c.Command(t.Context(), mps.Invocation{Stdin: fmt.Sprintf("start_server -uid %d\n", uid)}))(t)
	servers, err := c.Servers(t.Context())
	if err != nil || len(servers) == 0 {
		t.Fatalf("servers %v, %v", servers, err)
	}
	return servers[len(servers)-1]
}

func TestServers(t *testing.T) {
	ctx := t.Context()
	d := mpstest.New(mpstest.Options{})
	c := newClient(t, d)
	s := startServer(t, c, 1000)
	if _, err := c.Command(ctx, mps.Invocation{Stdin: "start_server -uid 1000\n"}); !errors.Is(err, mps.ErrRejected) {
		t.Errorf("second server: %v", err)
	}
	v, err := d.Connect(mpstest.Process{UID: 1000})
	if err != nil || v.Server != s {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := d.Connect(mpstest.Process{UID: 1001}); err == nil || !strings.Contains(err.Error(), "waits for the clients") {
		t.Errorf("another user: %v", err)
	}
	if err := c.TerminateClient(ctx, s, v.PID+1); !errors.Is(err, mps.ErrClientNotFound) {
		t.Errorf("terminate another: %v", err)
	}
	if err := c.TerminateClient(ctx, s+1, v.PID); !errors.Is(err, mps.ErrServerNotFound) {
		t.Errorf("terminate elsewhere: %v", err)
	}
	devs, err := c.Devices(ctx)
	if err != nil || !slices.Equal(devs, []mps.GPU{{UUID: mpstest.H200(0).UUID}}) {
		t.Errorf("devices %+v, %v", devs, err)
	}
	if graceful, err := c.Quit(ctx, time.Second); !graceful || err != nil {
		t.Errorf("%v, %v", graceful, err)
	}
	if _, err := c.Servers(ctx); !errors.Is(err, mps.ErrNoDaemon) {
		t.Errorf("after quit: %v", err)
	}
}

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		fault mpstest.Fault
		want  error
	}{
		{mpstest.Fault{Kind: "garbage"}, mps.ErrGarbled},
		{mpstest.Fault{Kind: "flood"}, mps.ErrGarbled},
		{mpstest.Fault{Kind: "death"}, mps.ErrCrashed},
		{mpstest.Fault{Kind: "hang"}, mps.ErrTimeout},
		{mpstest.Fault{Kind: "slow", Delay: time.Second}, nil},
		{mpstest.Fault{Kind: "cut"}, mps.ErrGarbled},
		{mpstest.Fault{Kind: "slow", Delay: time.Minute}, mps.ErrTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := mpstest.New(mpstest.Options{})
			c := newClient(t, d)
			pid := connect(t, d).Server
			d.Inject(tc.fault)
			start := time.Now()
			_, err := c.ServerStatus(t.Context(), pid)
			if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Errorf("%v: %v, want %v", tc.fault.Kind, err, tc.want)
			}
			var op *sharing.OpError
			if err != nil && (!errors.As(err, &op) || op.Op != fmt.Sprint("get_server_status ", pid) || len(err.Error()) > 400) {
				t.Errorf("%v: %v", tc.fault.Kind, err)
			}
			if tc.want == mps.ErrTimeout && (time.Since(start) != 5*time.Second || !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("%v: took %v: %v", tc.fault.Kind, time.Since(start), err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mpstest.New(mpstest.Options{})
		d.Inject(mpstest.Fault{Kind: "hang"})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := newClient(t, d).Servers(ctx)
		if !errors.Is(err, context.Canceled) || errors.Is(err, mps.ErrTimeout) {
			t.Error(err)
		}
	})
}

func TestVerify(t *testing.T) {
	ctx := t.Context()
	d := mpstest.New(mpstest.Options{GPUs: []mpstest.GPU{mpstest.H200(0), mpstest.H200(1)}})
	c := newClient(t, d)
	envs := map[int][]string{}
	environ := func(pid int) ([]string, error) {
		if e, ok := envs[pid]; ok {
			return e, nil
		}
		return nil, mps.ErrClientNotFound
	}
	opt := mps.VerifyOptions{Environ: environ}
	if m, err := c.Verify(ctx, 77, opt); err != nil || m.Client != sharing.AnswerNo || m.Reason != "there is no such process" {
		t.Errorf("%+v, %v", m, err)
	}
	must.Do(t, c.SetPinnedMemLimit(ctx, 0, "1", 8*gib))
	must.Do(t, c.SetActiveThreadPercentage(ctx, 0, 50))
	v := connect(t, d)
	envs[v.PID] = []string{mps.EnvThreads + "=25"}
	m, err := c.Verify(ctx, v.PID, opt)
	if err != nil || m.Client != sharing.AnswerYes || m.Server != v.Server || m.EffectivePercentage.Value != 25 || m.ServerPercentage.Value != 50 {
		t.Errorf("%+v, %v", m, err)
	}
	if diff := cmp.Diff([]mps.DeviceLimit{{Device: "1", Limit: 8 * gib}}, m.ServerLimits); diff != "" || !slices.Equal(m.Devices, []int{0, 1}) {
		t.Errorf("devices %v (-want +got):\n%s", m.Devices, diff)
	}
	stray := connect(t, d, mps.EnvPipeDirectory+"=/tmp/wrong")
	envs[stray.PID] = []string{mps.EnvPipeDirectory + "=/tmp/wrong"}
	m, err = c.Verify(ctx, stray.PID, opt)
	if err != nil || m.Client != sharing.AnswerNo || !strings.Contains(m.Reason, "/tmp/wrong") {
		t.Errorf("%+v, %v", m, err)
	}
	if err := m.Require(); !errors.Is(err, mps.ErrNotClient) {
		t.Error(err)
	}
	if stray.SMs != 132 || stray.Client {
		t.Errorf("the stray sees %+v", stray)
	}
}

func TestVerifyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mpstest.New(mpstest.Options{})
		c := newClient(t, d)
		pid := 5_000_099
		time.AfterFunc(3*time.Second, func() {
			if _, err := d.Connect(mpstest.Process{PID: pid}); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		m, err := c.Verify(t.Context(), pid, mps.VerifyOptions{Wait: 10 * time.Second})
		if err != nil || m.Client != sharing.AnswerYes || time.Since(start) > 3200*time.Millisecond {
			t.Errorf("%+v, %v after %v", m, err, time.Since(start))
		}
	})
}
