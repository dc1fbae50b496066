// SPDX-License-Identifier: Apache-2.0

package mig_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
	"github.com/cotenant/cotenant/sharing"
)

func lookup(t testing.TB, name string) *mig.Model {
	t.Helper()
	return must.Get(mig.Lookup(name))(t)
}

func parse(t testing.TB, m *mig.Model, s string) mig.Layout {
	t.Helper()
	return must.Get(m.ParseLayout(s))(t)
}

func want(t testing.TB, s string) []mig.Count {
	t.Helper()
	return must.Get(mig.ParseCounts(s))(t)
}

func simulated(t testing.TB, m *mig.Model, opts migtest.Options) *migtest.GPU {
	t.Helper()
	return must.Get(migtest.New(m, opts))(t)
}

// TestApplyFailures makes every single call of a change fail, before and after its effect. Each time the earlier layout
// and mode are restored, or the error names exactly the remaining state.
func TestApplyFailures(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		gpu, have, want string
		disabled        bool
	}{
		{"a100-80gb", "3g.40gb@0[1+1],1g.10gb@4,1g.10gb@5", "2g.20gb=2,3g.40gb", false},
		{"H200", "7g.141gb@0", "1g.35gb=4", false},
		{"H200", "", "3g.71gb,2g.35gb", true},
		{"rtx-pro-6000-blackwell-server", "2g.48gb@0,1g.24gb+me@6", "1g.24gb=3", false},
	} {
		m := lookup(t, c.gpu)
		have := parse(t, m, c.have)
		plan := must.Get(mig.Diff(m, have, want(t, c.want), mig.DiffOptions{}))(t)
		for _, after := range []bool{false, true} {
			for call := 1; ; call++ {
				g := simulated(t, m, migtest.Options{Layout: have, Disabled: c.disabled})
				g.Fail(migtest.Fault{Call: call, After: after})
				report, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{})
				if err == nil {
					if len(g.Calls()) >= call {
						t.Errorf("%s: call %d failed and Apply did not", c.gpu, call)
					}
					break
				}
				if !errors.Is(err, migtest.ErrInjected) {
					t.Errorf("call %d: %v", call, err)
				}
				account(t, g, have, plan, report, err, !c.disabled)
			}
		}
	}
}

// account checks that the device holds the state that the error reports.
func account(t *testing.T, g *migtest.GPU, have mig.Layout, plan mig.ChangePlan, report mig.Report, err error, enabled bool) {
	t.Helper()
	now := g.Layout().String()
	state, serr := g.State(context.Background())
	for serr != nil { // a fault that is left over
		state, serr = g.State(context.Background())
	}
	var ae *mig.ApplyError
	switch {
	case !errors.As(err, &ae): // nothing was touched
		if now != have.String() || len(report.Done) > 0 {
			t.Errorf("[%s] after %v", now, err)
		}
	case ae.RolledBack:
		if now != have.String() || state.Mode != enabled {
			t.Errorf("[%s] enabled %v after %v", now, state.Mode, err)
		}
	case ae.Left != nil:
		if now != ae.Left.Layout().String() {
			t.Errorf("[%s] after %v", now, err)
		}
	default:
		if len(ae.Done) != len(plan.Steps) || now != plan.Want.String() {
			t.Errorf("[%s] after %v", now, err)
		}
	}
}

// TestFailedCreate: a GPU instance that was not made has no id in the journal; 0 is one that the driver gives.
func TestFailedCreate(t *testing.T) {
	m := lookup(t, "a100-80gb")
	plan := must.Get(mig.Diff(m, mig.Layout{}, want(t, "7g.80gb"), mig.DiffOptions{}))(t)
	for call, id := range map[int]sharing.Optional[int]{3: {}, 4: optional.Of(0)} {
		g := simulated(t, m, migtest.Options{})
		g.Fail(migtest.Fault{Call: call})
		report, err := mig.Apply(context.Background(), g, plan, mig.ApplyOptions{})
		if err == nil || report.Journal[1].Status != "failed" || !report.Journal[1].ID.Equal(id) {
			t.Errorf("call %d: %+v, %v", call, report.Journal, err)
		}
	}
}

// TestApplyLocks: changes of one GPU wait for each other, and a reading does not.
func TestApplyLocks(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "a100-80gb")
	g := simulated(t, m, migtest.Options{})
	plan := must.Get(mig.Diff(m, mig.Layout{}, want(t, "3g.40gb"), mig.DiffOptions{}))(t)
	unlock := must.Get(g.Lock(ctx))(t)
	ended, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := mig.Apply(ended, g, plan, mig.ApplyOptions{}); !errors.Is(err, context.DeadlineExceeded) || len(g.Calls()) > 0 {
		t.Errorf("err = %v after %v", err, g.Calls())
	}
	if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{DryRun: true}); err != nil {
		t.Error(err)
	}
	unlock()
	var wg sync.WaitGroup
	for range 4 { // one makes the change, the others find it made
		wg.Go(func() {
			if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := g.Layout().String(); got != "3g.40gb@4" {
		t.Errorf("[%s]", got)
	}
}

// TestApplyTwoFailures fails a second call while the first failure is undone.
func TestApplyTwoFailures(t *testing.T) {
	m := lookup(t, "a100-80gb")
	have := parse(t, m, "3g.40gb@0,1g.10gb@4")
	plan := must.Get(mig.Diff(m, have, want(t, "2g.20gb=2,3g.40gb=1"), mig.DiffOptions{}))(t)
	for first := 2; first <= 12; first++ {
		for second := first + 1; second <= first+8; second++ {
			g := simulated(t, m, migtest.Options{Layout: have})
			g.Fail(migtest.Fault{Call: first})
			g.Fail(migtest.Fault{Call: second})
			report, err := mig.Apply(context.Background(), g, plan, mig.ApplyOptions{})
			if err != nil {
				var ae *mig.ApplyError
				if errors.As(err, &ae) && !ae.RolledBack && ae.Left == nil {
					continue // the read after undoing failed: the state is unknown
				}
				account(t, g, have, plan, report, err, true)
			}
		}
	}
}

func TestApplyConditions(t *testing.T) {
	ctx := context.Background()
	a100 := lookup(t, "a100-80gb")
	plan := must.Get(mig.Diff(a100, mig.Layout{}, want(t, "3g.40gb"), mig.DiffOptions{}))(t)
	t.Run("GPU held", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{})
		g.Hold()
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrInUse) || !strings.Contains(err.Error(), "profilers") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("done already", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{Layout: parse(t, a100, "3g.40gb@4")})
		if report, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); err != nil || len(g.Calls()) != 1 || report.After.String() != "3g.40gb@4" {
			t.Errorf("[%s], %v after %v", report.After, err, g.Calls())
		}
	})
	t.Run("stale", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{Layout: parse(t, a100, "1g.10gb@0")})
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrStale) || len(g.Calls()) != 1 {
			t.Errorf("err = %v after %v", err, g.Calls())
		}
	})
	t.Run("another kind of GPU", func(t *testing.T) {
		g := simulated(t, lookup(t, "a100-40gb"), migtest.Options{})
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrStale) || len(g.Calls()) != 1 {
			t.Errorf("err = %v after %v", err, g.Calls())
		}
	})
	t.Run("busy since", func(t *testing.T) {
		have := parse(t, a100, "1g.10gb@0")
		g := simulated(t, a100, migtest.Options{Layout: have})
		p := must.Get(mig.Diff(a100, have, want(t, "4g.40gb"), mig.DiffOptions{}))(t)
		must.Get(g.Use(0))(t)
		if _, err := mig.Apply(ctx, g, p, mig.ApplyOptions{}); !errors.Is(err, mig.ErrBusy) || len(g.Calls()) != 1 {
			t.Errorf("err = %v after %v", err, g.Calls())
		}
	})
	t.Run("busy between steps", func(t *testing.T) {
		have := parse(t, a100, "1g.10gb@0,1g.10gb@1")
		g := &contested{GPU: simulated(t, a100, migtest.Options{Layout: have})}
		n := 0
		g.act = func(call string) {
			if n++; call == "state" && n > 2 && n < 6 {
				for _, in := range g.Layout().Instances {
					must.Get(g.Use(in.Start))(t)
				}
			}
		}
		p := must.Get(mig.Diff(a100, have, want(t, "4g.40gb"), mig.DiffOptions{}))(t)
		var ae *mig.ApplyError
		if _, err := mig.Apply(ctx, g, p, mig.ApplyOptions{}); !errors.Is(err, mig.ErrBusy) || !errors.As(err, &ae) || !ae.RolledBack {
			t.Errorf("err = %v", err)
		}
		if leaks := g.Leaks(have); len(leaks) > 0 {
			t.Error(leaks)
		}
	})
	t.Run("cancelled between steps", func(t *testing.T) {
		have := parse(t, a100, "1g.10gb@0,1g.10gb@1")
		g := simulated(t, a100, migtest.Options{Layout: have})
		p := must.Get(mig.Diff(a100, have, want(t, "2g.20gb,3g.40gb"), mig.DiffOptions{}))(t)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := mig.Apply(ctx, g, p, mig.ApplyOptions{Journal: func(e mig.JournalEntry) error {
			if e.Seq == 2 {
				cancel()
			}
			return nil
		}})
		var ae *mig.ApplyError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &ae) || !ae.RolledBack || len(ae.Done) == 0 || len(ae.Undone) != len(ae.Done) {
			t.Errorf("err = %v", err)
		}
		if leaks := g.Leaks(have); len(leaks) > 0 {
			t.Error(leaks)
		}
	})
	t.Run("journal fails", func(t *testing.T) {
		for at := 1; at <= 4; at++ {
			g := simulated(t, a100, migtest.Options{Layout: parse(t, a100, "1g.10gb@0")})
			p := must.Get(mig.Diff(a100, g.Layout(), want(t, "2g.20gb,3g.40gb"), mig.DiffOptions{}))(t)
			boom := errors.New("disk full")
			_, err := mig.Apply(ctx, g, p, mig.ApplyOptions{Journal: func(e mig.JournalEntry) error {
				if e.Seq == at {
					return boom
				}
				return nil
			}})
			if !errors.Is(err, boom) || g.Layout().String() != "1g.10gb@0" {
				t.Errorf("at %d: [%s], %v", at, g.Layout(), err)
			}
		}
	})
	t.Run("dry run", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{Disabled: true})
		report, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{DryRun: true})
		if err != nil || len(report.Journal) != 2 || report.After.String() != "3g.40gb@4" || len(g.Calls()) != 1 {
			t.Errorf("%+v, %v, %v", report, err, g.Calls())
		}
		boom := errors.New("disk full")
		report, err = mig.Apply(ctx, g, plan, mig.ApplyOptions{DryRun: true, Journal: func(e mig.JournalEntry) error {
			if e.Seq == 2 {
				return boom
			}
			return nil
		}})
		if !errors.Is(err, boom) || len(report.Done) > 0 || report.After.String() != "" {
			t.Errorf("without a journal: %+v, %v", report, err)
		}
	})
	t.Run("most SMs", func(t *testing.T) {
		h200 := lookup(t, "H200")
		g := simulated(t, h200, migtest.Options{})
		p := must.Get(mig.Diff(h200, mig.Layout{}, want(t, "1g.35gb"), mig.DiffOptions{}))(t)
		must.Get(mig.Apply(ctx, g, p, mig.ApplyOptions{}))(t)
		state := must.Get(g.State(ctx))(t)
		if c := state.Instances[0].Compute; len(c) != 1 || c[0].Profile != 7 || state.Resetless != sharing.AnswerYes {
			t.Errorf("%+v", state)
		}
	})
}

// TestPlanChange: a plan for a device switches MIG mode on where it is off.
func TestPlanChange(t *testing.T) {
	m := lookup(t, "h100-80gb-sxm")
	for _, off := range []bool{true, false} {
		p := must.Get(mig.PlanChange(t.Context(), simulated(t, m, migtest.Options{Disabled: off}), want(t, "1g.10gb"), mig.DiffOptions{}))(t)
		var text strings.Builder
		if err := p.WriteText(&text); err != nil || strings.Contains(text.String(), "MIG mode is to be enabled") != off {
			t.Errorf("off %v: %s, %v", off, &text, err)
		}
	}
}
