package mps_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

type fakeProcess struct {
	d        *mpstest.Daemon
	pid      int
	stubborn bool // does not end on SIGTERM
	signals  []os.Signal
}

func (p *fakeProcess) Signal(s os.Signal) error {
	p.signals = append(p.signals, s)
	switch {
	case s == syscall.SIGKILL:
		p.d.Kill(p.pid)
	case !p.stubborn:
		p.d.Exit(p.pid)
	}
	return nil
}

// TestKillNine plays kill -9 of one of three clients with each effect it can
// have.
func TestKillNine(t *testing.T) {
	for _, c := range []struct {
		effect    mpstest.KillEffect
		damage    mps.Damage
		mustExit  bool
		recovered sharing.Answer
	}{
		{mpstest.KillHarmless, mps.DamageNone, false, sharing.AnswerYes},
		{mpstest.KillFaults, mps.DamageFault, true, sharing.AnswerNo},
		{mpstest.KillHangs, mps.DamageUnknown, false, sharing.AnswerUnknown},
		{mpstest.KillServer, mps.DamageServer, false, sharing.AnswerYes},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			d := mpstest.New(mpstest.Options{KillEffect: c.effect})
			cl := newClient(t, d)
			x, y, z := connect(t, d), connect(t, d), connect(t, d)
			before, err := cl.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			d.Kill(y.PID)
			start := time.Now()
			g, err := cl.AwaitRecovery(ctx, before, 2*time.Second, y.PID)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("effect %d: took %v", c.effect, took)
			}
			others := []int{x.PID, z.PID}
			if err != nil || g.Damage != c.damage || g.Recovered != c.recovered || !slices.Equal(g.Affected, others) || !slices.Contains(g.Lost, y.PID) {
				t.Errorf("effect %d: %+v, %v", c.effect, g, err)
			}
			if c.mustExit != slices.Equal(g.MustExit, others) || len(g.Advice) == 0 {
				t.Errorf("effect %d: must exit %v, advice %q", c.effect, g.MustExit, g.Advice)
			}
			if c.effect != mpstest.KillFaults {
				return
			}
			d.Exit(x.PID)
			d.Exit(z.PID)
			if g, err := cl.AwaitRecovery(ctx, before, 2*time.Second, y.PID); err != nil || g.Recovered != sharing.AnswerYes || len(g.MustExit) > 0 {
				t.Errorf("after all have exited: %+v, %v", g, err)
			}
		})
	}
}

func TestDaemonGone(t *testing.T) {
	d := mpstest.New(mpstest.Options{})
	c := newClient(t, d)
	connect(t, d)
	before, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.Stop()
	after, err := c.Snapshot(t.Context())
	if g := mps.Diagnose(before, after); err != nil || g.Damage != mps.DamageDaemon || g.Recovered != sharing.AnswerNo {
		t.Errorf("%+v, %v", g, err)
	}
}

var errEnough = errors.New("enough")

func TestWatch(t *testing.T) {
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := mpstest.New(mpstest.Options{LogDirectory: logs, KillEffect: mpstest.KillFaults})
		c := newClient(t, d)
		var x, y mpstest.View
		steps := []func(){
			func() { x = connect(t, d) },
			func() { y = connect(t, d) },
			func() { d.Kill(y.PID) },
			func() { d.Inject(mpstest.Fault{Kind: mpstest.FaultHang, Times: 1}) },
			func() { d.Inject(mpstest.Fault{Kind: mpstest.FaultGarbage, Times: 1}) },
			func() { d.Exit(x.PID) },
			func() { d.Stop() },
		}
		go func() {
			for _, s := range steps {
				time.Sleep(7300 * time.Millisecond) // never at the moment of a look
				s()
			}
		}()
		var got []string
		err := c.Watch(t.Context(), mps.WatchOptions{Interval: time.Second, LogDirectory: logs}, func(e mps.Event) error {
			if e.Kind == mps.EventLog && e.Log.Kind != mps.LogGPUFault {
				return nil
			}
			got = append(got, e.Kind.String())
			if e.Kind == mps.EventDaemonGone {
				return errEnough
			}
			return nil
		})
		want := []string{"daemon-up", "server-up", "client-joined", "client-joined", "server-state", "client-left", "log",
			"daemon-silent", "daemon-up", "error", "server-state", "client-left", "daemon-gone"}
		if diff := cmp.Diff(want, got); !errors.Is(err, errEnough) || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d := mpstest.New(mpstest.Options{})
		d.Stop()
		var got []mps.EventKind
		err := newClient(t, d).Watch(ctx, mps.WatchOptions{}, func(e mps.Event) error {
			got = append(got, e.Kind)
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(got, []mps.EventKind{mps.EventDaemonGone}) {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestLogTail(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/server.log"
	write := func(text string, trunc bool) {
		flag := os.O_APPEND | os.O_CREATE | os.O_WRONLY
		if trunc {
			flag |= os.O_TRUNC
		}
		f, err := os.OpenFile(path, flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const head = "[2026-11-21 00:49:23.776 Server   673] "
	write(head+"Server has started\n", false)
	d := mpstest.New(mpstest.Options{})
	steps := []func(){
		func() { write(head+"New client 711 conn", false) },
		func() { write("ected\n\x00\x01\n", false) },
		func() { write(head+"Server has started\n", true) },
		func() { write(strings.Repeat("x", 70<<10), false) },
	}
	i := 0
	var got []string
	ctx, cancel := context.WithCancel(t.Context())
	err := newClient(t, d).Watch(ctx, mps.WatchOptions{Interval: time.Millisecond, LogDirectory: dir}, func(e mps.Event) error {
		switch e.Kind {
		case mps.EventLog:
			got = append(got, e.Log.Text)
		case mps.EventError:
			got = append(got, "error")
		}
		// Each step waits for what the one before has shown.
		if wantSoFar := []int{0, 0, 2, 3}; i < len(steps) && len(got) >= wantSoFar[i] {
			steps[i]()
			i++
			if i == 1 {
				steps[i]()
				i++
			}
		}
		if len(got) == 4 {
			cancel()
		}
		return nil
	})
	if diff := cmp.Diff([]string{"New client 711 connected", "error", "Server has started", "error"}, got); !errors.Is(err, context.Canceled) || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
