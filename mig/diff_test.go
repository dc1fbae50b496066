// SPDX-License-Identifier: Apache-2.0

package mig_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
)

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
		{"a100-80gb", "3g.40gb@4[1+1]", "1c.3g.40gb=2", false, "", "divide it with nvidia-smi", false},
		{"a100-80gb", "3g.40gb@4[]", "3g.40gb", false, "complete 3g.40gb@4", "", false},
		{"a100-80gb", "3g.40gb@4[],3g.40gb@0[1+1]", "3g.40gb", false, "complete 3g.40gb@4; destroy 3g.40gb@0[1+1]", "", false},
		{"a100-80gb", "1g.10gb@0[],1g.10gb@1", "1g.10gb", false, "destroy 1g.10gb@0[]", "", false},
		{"a100-80gb", "1g.10gb@0[],3g.40gb@4", "1g.10gb=2", false, "complete 1g.10gb@0; destroy 3g.40gb@4; create 1g.10gb@1", "", false},
		{"a100-80gb", "1g.10gb@0[]", "", false, "destroy 1g.10gb@0[]", "", false},
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
		must.Do(t, p.Want.Validate())
	}
}

func TestDiffOfNoModel(t *testing.T) {
	if _, err := mig.Diff(nil, mig.Layout{}, nil, mig.DiffOptions{}); !errors.Is(err, mig.ErrInvalid) || !strings.Contains(err.Error(), "no model") {
		t.Error(err)
	}
}

// TestComplete: a GPU instance without compute instances keeps its id and gets
// them, and when another step fails they go and it stays.
func TestComplete(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "a100-80gb")
	have := parse(t, m, "3g.40gb@4[],1g.10gb@0[]")
	plan := must.Get(mig.Diff(m, have, want(t, "3g.40gb,1g.10gb=2"), mig.DiffOptions{}))(t)
	if len(plan.Complete) != 2 || len(plan.Destroy) > 0 || len(plan.Create) != 1 {
		t.Errorf("%+v", plan.Steps)
	}
	for call := 1; ; call++ {
		g := simulated(t, m, migtest.Options{Layout: have})
		before := must.Get(g.State(ctx))(t)
		g.Fail(migtest.Fault{Call: call})
		_, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{})
		after, serr := g.State(ctx)
		for serr != nil {
			after, serr = g.State(ctx)
		}
		for _, d := range before.Instances {
			if !slices.ContainsFunc(after.Instances, func(o mig.DeviceInstance) bool { return o.ID == d.ID && o.Placement == d.Placement }) {
				t.Errorf("call %d: %+v is gone", call, d)
			}
		}
		if err == nil {
			if g.Layout().String() != plan.Want.String() {
				t.Errorf("[%s]", g.Layout())
			}
			break
		}
		var ae *mig.ApplyError
		if errors.As(err, &ae) && ae.RolledBack && g.Layout().String() != have.String() {
			t.Errorf("call %d: [%s] after %v", call, g.Layout(), err)
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

// countsOf counts a layout's instances by profile.
func countsOf(l mig.Layout) (counts []mig.Count) {
	for _, p := range l.Model.Profiles {
		n := len(slices.DeleteFunc(slices.Clone(l.Instances), func(in mig.Instance) bool { return in.Profile != p }))
		if n > 0 {
			counts = append(counts, mig.Count{Profile: p.Name, N: n})
		}
	}
	return counts
}

// TestPlansValidate applies plans between random layouts on the strict
// simulated GPU and compares them with every other way to make the change.
func TestPlansValidate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	for _, name := range []string{"a30", "a100-80gb", "H200", "rtx-pro-6000-blackwell-server"} {
		m := lookup(t, name)
		for i := range nightly.Cases(30, 150) {
			have, target := randomLayout(rng, m), randomLayout(rng, m)
			plan, err := mig.Diff(m, have, countsOf(target), mig.DiffOptions{AllowBusy: true})
			if err != nil {
				t.Fatalf("%s: [%s] -> %v: %v", name, have, countsOf(target), err)
			}
			if diff := cmp.Diff(countsOf(target), countsOf(plan.Want)); diff != "" {
				t.Fatalf("%s", diff)
			}
			if !cmp.Equal(leastLost(t, m, have, target), [2]int{plan.BusyDestroyed, len(plan.Destroy)}) {
				t.Errorf("%s: [%s] -> %v destroys %d busy, %d in all; possible are %v", name, have, countsOf(target), plan.BusyDestroyed, len(plan.Destroy), leastLost(t, m, have, target))
			}
			if plan.BusyDestroyed > 0 {
				_, err := mig.Diff(m, have, countsOf(target), mig.DiffOptions{})
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
	for _, c := range countsOf(target) {
		names = append(names, c.Profile)
	}
	all := must.Get(m.Layouts(names...))(t)
	for l := range all {
		if cmp.Equal(countsOf(l), countsOf(target)) {
			try(l)
		}
	}
	return best
}

func BenchmarkDiffFull(b *testing.B) {
	m := lookup(b, "a100-80gb")
	have := parse(b, m, "1g.10gb@0,1g.10gb@1!busy,1g.10gb@2,1g.10gb@3,1g.10gb@4,1g.10gb@5,1g.10gb@6!busy")
	target := want(b, "1g.10gb=3,2g.20gb=2")
	b.ReportAllocs()
	for b.Loop() {
		must.Get(mig.Diff(m, have, target, mig.DiffOptions{}))(b)
	}
}
