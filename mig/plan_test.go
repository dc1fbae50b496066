// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func gpu(t testing.TB, name string) *Model {
	t.Helper()
	return must.Get(Lookup(name))(t)
}

func counts(t testing.TB, s string) []Count {
	t.Helper()
	return must.Get(ParseCounts(s))(t)
}

func layout(t testing.TB, m *Model, s string) Layout {
	t.Helper()
	return must.Get(m.ParseLayout(s))(t)
}

func TestLayouts(t *testing.T) {
	base := func(names string) []string { return strings.Fields(names) }
	for _, c := range []struct {
		gpu       string
		profiles  []string
		all, full int // layouts, and those to which nothing can be added
	}{
		{"a100-40gb", base("1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"), 297, 19},
		{"a100-40gb", base("1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"), 722, 78},
		{"a100-40gb", nil, 2318, 239},
		{"H200", nil, 2318, 239},
		{"a30", base("1g.6gb 2g.12gb 4g.24gb"), 25, 5},
		{"a30", nil, 75, 17},
		{"rtx-pro-6000-blackwell-server", base("1g.24gb 2g.48gb 4g.96gb"), 25, 5},
		{"rtx-pro-6000-blackwell-server", base("1g.24gb 1g.24gb+me 1g.24gb+me.all 1g.24gb-me 2g.48gb 2g.48gb+me.all 2g.48gb-me 4g.96gb"), 303, 97},
		{"rtx-pro-6000-blackwell-server", nil, 716, 302},
	} {
		m := gpu(t, c.gpu)
		all, full := 0, 0
		for l := range must.Get(m.Layouts(c.profiles...))(t) {
			must.Do(t, l.Validate())
			grows := func(p *Profile) bool {
				return (c.profiles == nil || slices.Contains(c.profiles, p.Name)) && must.Get(l.room(p))(t) > 0
			}
			if all++; !slices.ContainsFunc(m.Profiles, grows) {
				full++
			}
		}
		if all != c.all || full != c.full {
			t.Errorf("%s %v: %d layouts, %d full, want %d and %d", c.gpu, c.profiles, all, full, c.all, c.full)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct{ gpu, have, want, layout, reason string }{
		{"a100-80gb", "", "3g.40gb,2g.20gb,1g.10gb=2", "2g.20gb@0,1g.10gb@2,1g.10gb@3,3g.40gb@4", ""},
		{"a100-80gb", "", "3g.40gb,1g.10gb=4", "1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,3g.40gb@4", ""},
		{"a100-80gb", "", "3g.40gb,2g.20gb=2", "2g.20gb@0,2g.20gb@2,3g.40gb@4", ""},
		{"a100-80gb", "", "4g.40gb,3g.40gb", "4g.40gb@0,3g.40gb@4", ""},
		{"a100-80gb", "", "3g.40gb", "3g.40gb@4", ""},
		{"a100-80gb", "1g.10gb@5", "3g.40gb", "3g.40gb@0,1g.10gb@5", ""},
		{"a100-80gb", "3g.40gb@0", "3g.40gb", "3g.40gb@0,3g.40gb@4", ""},
		{"a100-80gb", "", "", "", ""},
		{"a30", "", "2g.12gb+me,1g.6gb=2", "2g.12gb+me@0,1g.6gb@2,1g.6gb@3", ""},
		{"rtx-pro-6000-blackwell-server", "", "2g.48gb,1g.24gb+me.all,1g.24gb-me", "", "NVDEC"},
		{"rtx-pro-6000-blackwell-server", "", "1g.24gb+me.all,1g.24gb-me=3", "1g.24gb+me.all@0,1g.24gb-me@3,1g.24gb-me@6,1g.24gb-me@9", ""},
		{"a100-80gb", "", "3g.40gb=2,1g.10gb", "", "mig: 1g.10gb + 2 x 3g.40gb can't be placed on a100-80gb: together they take 9 placement units, and there are 8"},
		{"a100-80gb", "", "1g.10gb=8", "", "holds at most 7 of 1g.10gb"},
		{"a100-80gb", "", "1g.10gb+me=2", "", "holds at most 1"},
		{"a100-80gb", "1g.10gb@0,1g.10gb@6", "3g.40gb", "", "mig: 3g.40gb can't be placed on a100-80gb next to 1g.10gb@0,1g.10gb@6: 3g.40gb (4 units) starts only at 0, 4"},
		{"a100-80gb", "1g.10gb@0!busy,2g.20gb@4", "4g.40gb", "", "next to 1g.10gb@0!busy:"},
		{"a30", "", "2g.12gb+me,1g.6gb+me", "", "together they take 2 JPEG engines, and there are 1"},
		{"rtx-pro-5000-blackwell-48gb", "", "1g.24gb=3", "", "holds at most 2"},
		{"rtx-pro-5000-blackwell-48gb", "", "1g.24gb,2g.48gb", "", "compute slices"},
	} {
		m := gpu(t, c.gpu)
		have := layout(t, m, c.have)
		got, err := m.Place(counts(t, c.want), have)
		if c.reason != "" {
			if !errors.Is(err, ErrInfeasible) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s %q + %q: err = %v, want %q", c.gpu, c.have, c.want, err, c.reason)
			}
			continue
		}
		if err != nil || got.String() != c.layout {
			t.Errorf("%s %q + %q = %s, %v; want %s", c.gpu, c.have, c.want, got, err, c.layout)
		} else if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestFeasibleUnknown(t *testing.T) {
	m := gpu(t, "rtx-pro-5000-blackwell-48gb")
	answer, _, err := m.feasible(counts(t, "1g.24gb"), Layout{})
	if answer != sharing.AnswerUnknown || !errors.Is(err, ErrPlacementsUnknown) {
		t.Errorf("answer %v, err %v", answer, err)
	}
	answer, _, err = m.feasible(counts(t, "1g.24gb=3"), Layout{})
	if answer != sharing.AnswerNo || !errors.Is(err, ErrInfeasible) {
		t.Errorf("answer %v, err %v", answer, err)
	}
}

// TestPlaceAgainstEnumeration holds Place to the enumeration: a multiset can be
// placed on an empty GPU exactly when a layout with it exists.
func TestPlaceAgainstEnumeration(t *testing.T) {
	for _, name := range []string{"a30", "a100-40gb", "rtx-pro-6000-blackwell-server"} {
		m := gpu(t, name)
		multisets := map[multiset]bool{{}: true}
		for _, n := range m.grid.multisets() {
			multisets[n] = true
		}
		var n [maxProfiles]int
		checked := 0
		var grow func(i, left int)
		grow = func(i, left int) {
			if i == len(m.Profiles) {
				var key multiset
				for j, k := range n {
					key[j] = uint8(k)
				}
				if _, ok := m.search(state{}, n); ok != multisets[key] {
					t.Errorf("%s %v: placed %v", name, m.counts(n), ok)
				}
				checked++
				return
			}
			for k := 0; k <= min(left, m.Profiles[i].MaxInstances+1); k++ {
				n[i] = k
				grow(i+1, left-k)
				n[i] = 0
			}
		}
		grow(0, 6)
		if checked < 100 {
			t.Errorf("%s: only %d multisets checked", name, checked)
		}
	}
}

// TestPlaceNextToOthersAgainstEnumeration does the same next to the instances of layouts:
// a demand can be placed where a larger layout holds it.
func TestPlaceNextToOthersAgainstEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, name := range []string{"a30", "a100-40gb", "rtx-pro-6000-blackwell-server"} {
		m := gpu(t, name)
		var layouts []Layout
		all := must.Get(m.Layouts())(t)
		for l := range all {
			layouts = append(layouts, l)
		}
		yes := 0
		for range 300 {
			have := layouts[rng.IntN(len(layouts))]
			var n [maxProfiles]int
			for range 1 + rng.IntN(4) {
				n[rng.IntN(len(m.Profiles))]++
			}
			possible := slices.ContainsFunc(layouts, func(l Layout) bool { return extends(m, l, have, n) })
			answer, proof, err := m.feasible(m.counts(n), have)
			if (answer == sharing.AnswerYes) != possible || answer == sharing.AnswerUnknown {
				t.Errorf("%s [%s] + %v: %v %v, possible %v", name, have, m.counts(n), answer, err, possible)
			}
			if answer == sharing.AnswerYes {
				yes++
				if !extends(m, proof, have, n) || proof.Validate() != nil {
					t.Errorf("%s [%s] + %v: [%s] is no proof", name, have, m.counts(n), proof)
				}
				continue
			}
			checkReason(t, m, have, n, err)
		}
		if yes < 10 {
			t.Errorf("%s: only %d placements were possible", name, yes)
		}
	}
}

// extends reports whether l is have and n more instances.
func extends(m *Model, l, have Layout, n [maxProfiles]int) bool {
	for _, in := range have.Instances {
		if !slices.ContainsFunc(l.Instances, func(o Instance) bool { return sameInstance(in, o) }) {
			return false
		}
		n[in.Profile.index]++
	}
	for _, in := range l.Instances {
		n[in.Profile.index]--
	}
	return n == [maxProfiles]int{}
}

// checkReason checks that a reason is one, and that no smaller part is.
func checkReason(t *testing.T, m *Model, have Layout, n [maxProfiles]int, err error) {
	t.Helper()
	var why *infeasibleError
	if !errors.As(err, &why) {
		t.Errorf("no reason: %v", err)
		return
	}
	blockers := NewLayout(m, slices.Clone(why.Blockers)...)
	if answer, _, _ := m.feasible(why.Want, blockers); answer != sharing.AnswerNo {
		t.Errorf("[%s] + %v: %v is no reason next to [%s]", have, m.counts(n), why.Want, blockers)
	}
	for i := range why.Want {
		less := slices.Clone(why.Want)
		less[i].N--
		if answer, _, _ := m.feasible(less, have); answer != sharing.AnswerYes {
			t.Errorf("[%s] + %v: %v is not the smallest part", have, m.counts(n), why.Want)
		}
	}
	for i := range blockers.Instances {
		less := NewLayout(m, slices.Delete(slices.Clone(blockers.Instances), i, i+1)...)
		if answer, _, _ := m.feasible(why.Want, less); answer != sharing.AnswerYes {
			t.Errorf("[%s] + %v: [%s] are not the fewest blockers", have, m.counts(n), blockers)
		}
	}
}

// feasible is Place with its answer.
func (m *Model) feasible(want []Count, have Layout) (sharing.Answer, Layout, error) {
	l, err := m.Place(want, have)
	switch {
	case err == nil:
		return sharing.AnswerYes, l, nil
	case errors.Is(err, ErrInfeasible):
		return sharing.AnswerNo, Layout{}, err
	}
	return sharing.AnswerUnknown, Layout{}, err
}
