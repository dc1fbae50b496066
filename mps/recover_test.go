package mps_test

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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
