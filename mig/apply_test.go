package mig_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
	"github.com/cotenant/cotenant/sharing"
)

func lookup(t testing.TB, name string) *mig.Model {
	t.Helper()
	m, err := mig.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func parse(t testing.TB, m *mig.Model, s string) mig.Layout {
	t.Helper()
	l, err := m.ParseLayout(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func want(t testing.TB, s string) []mig.Count {
	t.Helper()
	c, err := mig.ParseCounts(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func simulated(t testing.TB, m *mig.Model, opts migtest.Options) *migtest.GPU {
	t.Helper()
	g, err := migtest.New(m, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		gpu, have, want string
		allow           bool
		steps, err      string
		empties         bool
	}{
		{"a100-80gb", "", "2g.20gb=2,3g.40gb", false, "create 2g.20gb@0; create 2g.20gb@2; create 3g.40gb@4", "", false},
		{"a100-80gb", "3g.40gb@0,1g.10gb@4!busy", "2g.20gb=2,3g.40gb", false, "", "in use", false},
		{"a100-80gb", "3g.40gb@0,1g.10gb@4!busy", "2g.20gb,1g.10gb,3g.40gb", false, "", "in use", false},
		{"a100-80gb", "3g.40gb@4!busy,1g.10gb@0", "2g.20gb=2,3g.40gb", false, "destroy 1g.10gb@0; create 2g.20gb@0; create 2g.20gb@2", "", false},
		{"a100-80gb", "3g.40gb@4!busy", "3g.40gb", false, "", "", false},
		{"a100-80gb", "1g.10gb@0!busy,1g.10gb@1", "1g.10gb", false, "destroy 1g.10gb@1", "", false},
		{"a100-80gb", "7g.80gb@0", "1g.10gb", false, "destroy 7g.80gb@0; create 1g.10gb@6", "", true},
		{"a100-80gb", "3g.40gb@0", "4g.40gb", false, "destroy 3g.40gb@0; create 4g.40gb@0", "", true},
		{"a100-80gb", "1g.10gb@4", "2g.20gb", false, "create 2g.20gb@0; destroy 1g.10gb@4", "", false},
		{"a100-80gb", "1g.10gb@4,1g.10gb@5", "4g.40gb", false, "destroy 1g.10gb@5; create 4g.40gb@0; destroy 1g.10gb@4", "", false},
		{"a100-80gb", "3g.40gb@4[1+1]", "3g.40gb", false, "create 3g.40gb@0; destroy 3g.40gb@4[1+1]", "", false},
		{"a100-80gb", "3g.40gb@4[1+1]", "1c.3g.40gb=2", false, "", "", false},
		{"a100-80gb", "3g.40gb@4[]", "3g.40gb", false, "create 3g.40gb@0; destroy 3g.40gb@4[]", "", false},
		{"a100-80gb", "3g.40gb@4!busy", "", false, "", "in use", false},
		{"a100-80gb", "3g.40gb@4!busy", "", true, "destroy 3g.40gb@4!busy", "", false},
		{"a100-80gb", "1g.10gb@0", "3g.40gb=2,1g.10gb", false, "", "9 placement units", false},
		{"a100-80gb", "1g.10gb@0", "1g.5gb=2,9g.99gb", false, "", "want[1]", false},
	} {
		m := lookup(t, c.gpu)
		p, err := mig.Diff(m, parse(t, m, c.have), want(t, c.want), mig.DiffOptions{AllowBusy: c.allow})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s -> %s: %v, want %q", c.have, c.want, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s -> %s: %v", c.have, c.want, err)
			continue
		}
		var steps []string
		for _, s := range p.Steps {
			steps = append(steps, s.String())
		}
		if got := strings.Join(steps, "; "); got != c.steps || p.Empties != c.empties {
			t.Errorf("%s -> %s: %s (empties %v); want %s", c.have, c.want, got, p.Empties, c.steps)
		}
		if err := p.Want.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// randomLayout returns a layout of m reached by random placements and removals.
func randomLayout(rng *rand.Rand, m *mig.Model) mig.Layout {
	l := mig.Layout{Model: m}
	for range rng.IntN(12) {
		p := m.Profiles[rng.IntN(len(m.Profiles))]
		next := mig.NewLayout(m, append(slices.Clone(l.Instances), mig.Instance{Profile: p, Placement: p.Placements[rng.IntN(len(p.Placements))], Busy: rng.IntN(3) == 0})...)
		if next.Validate() == nil {
			l = next
		}
	}
	return l
}

// TestPlansValidate applies plans between random layouts on the strict
// simulated GPU and compares them with every other way to make the change.
func TestPlansValidate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	for _, name := range []string{"a30", "a100-80gb", "H200", "rtx-pro-6000-blackwell-server"} {
		m := lookup(t, name)
		for i := range 150 {
			have, target := randomLayout(rng, m), randomLayout(rng, m)
			plan, err := mig.Diff(m, have, target.Counts(), mig.DiffOptions{AllowBusy: true})
			if err != nil {
				t.Fatalf("%s: [%s] -> %v: %v", name, have, target.Counts(), err)
			}
			if diff := cmp.Diff(target.Counts(), plan.Want.Counts()); diff != "" {
				t.Fatalf("%s", diff)
			}
			if !cmp.Equal(leastLost(t, m, have, target), [2]int{plan.BusyDestroyed, len(plan.Destroy)}) {
				t.Errorf("%s: [%s] -> %v destroys %d busy, %d in all; possible are %v", name, have, target.Counts(), plan.BusyDestroyed, len(plan.Destroy), leastLost(t, m, have, target))
			}
			if plan.BusyDestroyed > 0 {
				_, err := mig.Diff(m, have, target.Counts(), mig.DiffOptions{})
				if !errors.Is(err, mig.ErrBusy) {
					t.Errorf("err = %v", err)
				}
				continue
			}
			g := simulated(t, m, migtest.Options{Layout: have, Seed: uint64(i)})
			if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); err != nil {
				t.Fatalf("%s: [%s] -> [%s]: %v", name, have, plan.Want, err)
			}
			if leaks := g.Leaks(plan.Want); len(leaks) > 0 {
				t.Errorf("%s: %v", name, leaks)
			}
		}
	}
}

// leastLost tries every layout with the target's counts and returns the fewest
// busy instances lost, and the fewest instances lost among those.
func leastLost(t *testing.T, m *mig.Model, have, target mig.Layout) [2]int {
	t.Helper()
	best := [2]int{1 << 20, 1 << 20}
	try := func(l mig.Layout) {
		var lost [2]int
		for _, in := range have.Instances {
			if !slices.ContainsFunc(l.Instances, func(o mig.Instance) bool { return o.Profile == in.Profile && o.Placement == in.Placement }) {
				lost[1]++
				if in.Busy {
					lost[0]++
				}
			}
		}
		if lost[0] < best[0] || lost[0] == best[0] && lost[1] < best[1] {
			best = lost
		}
	}
	if len(target.Instances) == 0 {
		try(mig.Layout{})
		return best
	}
	var names []string
	for _, c := range target.Counts() {
		names = append(names, c.Profile)
	}
	all, err := m.Layouts(names...)
	if err != nil {
		t.Fatal(err)
	}
	for l := range all {
		if cmp.Equal(l.Counts(), target.Counts()) {
			try(l)
		}
	}
	return best
}

// TestApplyFailures makes every single call of a change fail, before and after
// its effect. Each time the earlier layout and mode stand, or the error says
// exactly what is left.
func TestApplyFailures(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		gpu, have, want string
		disabled        bool
	}{
		{"a100-80gb", "3g.40gb@0,1g.10gb@4,1g.10gb@5", "2g.20gb=2,1c.3g.40gb=3", false},
		{"H200", "7g.141gb@0", "1g.35gb=4", false},
		{"H200", "", "3g.71gb,2g.35gb", true},
		{"rtx-pro-6000-blackwell-server", "2g.48gb@0,1g.24gb+me@6", "1g.24gb=3", false},
	} {
		m := lookup(t, c.gpu)
		have := parse(t, m, c.have)
		plan, err := mig.Diff(m, have, want(t, c.want), mig.DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
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
				account(t, g, have, plan, report, err, mig.Mode(!c.disabled))
			}
		}
	}
}

// account checks that the device holds what the error says.
func account(t *testing.T, g *migtest.GPU, have mig.Layout, plan mig.ChangePlan, report mig.Report, err error, enabled mig.Mode) {
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

// TestApplyTwoFailures fails a second call while the first failure is undone.
func TestApplyTwoFailures(t *testing.T) {
	m := lookup(t, "a100-80gb")
	have := parse(t, m, "3g.40gb@0,1g.10gb@4")
	plan, err := mig.Diff(m, have, want(t, "2g.20gb=2,3g.40gb=1"), mig.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for first := 2; first <= 12; first++ {
		for second := first + 1; second <= first+8; second++ {
			g := simulated(t, m, migtest.Options{Layout: have})
			g.Fail(migtest.Fault{Call: first})
			g.Fail(migtest.Fault{Call: second})
			report, err := mig.Apply(context.Background(), g, plan, mig.ApplyOptions{})
			if err != nil {
				var ae *mig.ApplyError
				if errors.As(err, &ae) && !ae.RolledBack && ae.Left == nil {
					continue // the read after undoing failed: it says that it does not know
				}
				account(t, g, have, plan, report, err, true)
			}
		}
	}
}

func TestApplyConditions(t *testing.T) {
	ctx := context.Background()
	a100 := lookup(t, "a100-80gb")
	plan, err := mig.Diff(a100, mig.Layout{}, want(t, "3g.40gb"), mig.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("pending reset", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{Disabled: true})
		_, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{})
		var ae *mig.ApplyError
		if !errors.Is(err, mig.ErrPendingReset) || !errors.As(err, &ae) || !ae.RolledBack || !strings.Contains(err.Error(), "only by a reset") {
			t.Errorf("err = %v", err)
		}
		if err := g.SetMode(ctx, mig.ModeEnabled); err != nil {
			t.Fatal(err)
		}
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrPendingReset) {
			t.Errorf("err = %v", err)
		}
		if err := g.Reset(); err != nil {
			t.Fatal(err)
		}
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("GPU held", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{})
		g.Hold()
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrInUse) || !strings.Contains(err.Error(), "profilers") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("stale", func(t *testing.T) {
		g := simulated(t, a100, migtest.Options{Layout: parse(t, a100, "1g.10gb@0")})
		if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrStale) || len(g.Calls()) != 1 {
			t.Errorf("err = %v after %v", err, g.Calls())
		}
	})
	t.Run("busy since", func(t *testing.T) {
		have := parse(t, a100, "1g.10gb@0")
		g := simulated(t, a100, migtest.Options{Layout: have})
		p, err := mig.Diff(a100, have, want(t, "4g.40gb"), mig.DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Use(0); err != nil {
			t.Fatal(err)
		}
		if _, err := mig.Apply(ctx, g, p, mig.ApplyOptions{}); !errors.Is(err, mig.ErrBusy) || len(g.Calls()) != 1 {
			t.Errorf("err = %v after %v", err, g.Calls())
		}
	})
	t.Run("cancelled between steps", func(t *testing.T) {
		have := parse(t, a100, "1g.10gb@0,1g.10gb@1")
		g := simulated(t, a100, migtest.Options{Layout: have})
		p, err := mig.Diff(a100, have, want(t, "2g.20gb,3g.40gb"), mig.DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err = mig.Apply(ctx, g, p, mig.ApplyOptions{Journal: func(e mig.JournalEntry) error {
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
			p, err := mig.Diff(a100, g.Layout(), want(t, "2g.20gb,3g.40gb"), mig.DiffOptions{})
			if err != nil {
				t.Fatal(err)
			}
			boom := errors.New("disk full")
			_, err = mig.Apply(ctx, g, p, mig.ApplyOptions{Journal: func(e mig.JournalEntry) error {
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
	})
	t.Run("most SMs", func(t *testing.T) {
		h200 := lookup(t, "H200")
		g := simulated(t, h200, migtest.Options{})
		p, err := mig.Diff(h200, mig.Layout{}, want(t, "1g.35gb"), mig.DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mig.Apply(ctx, g, p, mig.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		state, err := g.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c := state.Instances[0].Compute; len(c) != 1 || c[0].Profile != 7 || state.Resetless != sharing.AnswerYes {
			t.Errorf("%+v", state)
		}
	})
}

func ExampleDiff() {
	gpu, _ := mig.Lookup("A100 80GB")
	have, _ := gpu.ParseLayout("3g.40gb@4!busy,1g.10gb@0")
	plan, err := mig.Diff(gpu, have, []mig.Count{{Profile: "3g.40gb", N: 1}, {Profile: "2g.20gb", N: 2}}, mig.DiffOptions{})
	fmt.Println(plan.Steps, err)
	_, err = mig.Diff(gpu, have, []mig.Count{{Profile: "7g.80gb", N: 1}}, mig.DiffOptions{})
	fmt.Println(err)
	// Output:
	// [destroy 1g.10gb@0 create 2g.20gb@0 create 2g.20gb@2] <nil>
	// mig: in use: the change can't be made on a100-80gb without destroying 3g.40gb@4!busy; wait until it is idle, or allow it
}

func ExampleApply() {
	gpu, _ := mig.Lookup("H200")
	device, _ := migtest.New(gpu, migtest.Options{})
	plan, _ := mig.Diff(gpu, mig.Layout{}, []mig.Count{{Profile: "3g.71gb", N: 1}, {Profile: "1g.35gb", N: 2}}, mig.DiffOptions{})
	report, err := mig.Apply(context.Background(), device, plan, mig.ApplyOptions{})
	fmt.Println(report.After, err)

	// The third call from now fails: everything is undone.
	device.Fail(migtest.Fault{Call: 3})
	plan, _ = mig.Diff(gpu, report.After, []mig.Count{{Profile: "7g.141gb", N: 1}}, mig.DiffOptions{})
	_, err = mig.Apply(context.Background(), device, plan, mig.ApplyOptions{})
	fmt.Println(err)
	fmt.Println(device.Layout())
	// Output:
	// 1g.35gb@0,1g.35gb@2,3g.71gb@4 <nil>
	// mig: destroy 1g.35gb@0 failed on GPU-simulated-h200-141gb-sxm: mig: destroy GPU instance 3 on GPU-simulated-h200-141gb-sxm: migtest: injected failure; the earlier layout stands again
	// 1g.35gb@0,1g.35gb@2,3g.71gb@4
}

func ExamplePack() {
	gpu, _ := mig.Lookup("A100 80GB")
	packing, err := gpu.Pack([]mig.Count{{Profile: "1g.10gb", N: 40}, {Profile: "3g.40gb", N: 12}})
	fmt.Println(packing.GPUs, packing.LowerBound, packing.Optimal, err)
	for _, g := range packing.Groups {
		fmt.Println(g.GPUs, "x", g.Layout)
	}
	// Output:
	// 11 11 true <nil>
	// 10 x 1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,3g.40gb@4
	// 1 x 3g.40gb@0,3g.40gb@4
}

func BenchmarkDiffFull(b *testing.B) {
	m := lookup(b, "a100-80gb")
	have := parse(b, m, "1g.10gb@0,1g.10gb@1!busy,1g.10gb@2,1g.10gb@3,1g.10gb@4,1g.10gb@5,1g.10gb@6!busy")
	target := want(b, "1g.10gb=3,2g.20gb=2")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mig.Diff(m, have, target, mig.DiffOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
