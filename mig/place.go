// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/internal/problem"
)

// Place puts the wanted devices on a GPU that holds the instances of have, and returns the whole layout: have's
// instances and the new ones. It is exact: it fails only when no placement exists, with an ErrInfeasible that names the
// smallest part of want that can't be placed and the instances in its way. If several placements exist, it chooses the
// one that leaves most starts free, largest profiles first: a 3g goes to start 4 when both are free.
//
// have may be the zero Layout for an empty GPU. Other errors are ErrInvalid, for unknown profiles, bad counts and an
// invalid have, and ErrPlacementsUnknown.
func (m *Model) Place(want []Count, have Layout) (Layout, error) {
	n, err := m.resolve("want", want)
	if err != nil {
		return Layout{}, err
	}
	if m.grid == nil {
		if why := m.refuteBlind(n, have); why != nil {
			return Layout{}, why
		}
	}
	st, err := m.stateOf(have)
	if err != nil {
		return Layout{}, err
	}
	placed, ok := m.search(st, n)
	if !ok {
		return Layout{}, m.explain(n, have)
	}
	return NewLayout(m, slices.Concat(have.Instances, m.instances(placed))...), nil
}

// PlacementsKnown reports whether the catalogue knows where the model's profiles may be placed; otherwise planning is
// not possible offline.
func (m *Model) PlacementsKnown() bool { return m.grid != nil }

// stateOf checks have and returns its state. Every layout enters planning here.
func (m *Model) stateOf(have Layout) (state, error) {
	var st state
	if err := m.needGrid(); err != nil {
		return st, err
	}
	if have.Model != nil && have.Model != m {
		return st, invalid(fmt.Errorf("the layout is of %s, not of %s", have.Model.Key, m.Key))
	}
	for _, in := range have.Instances {
		s := -1
		if in.Profile != nil && in.Profile.model == m {
			s = m.grid.slotOf(in.Profile.index, in.Placement)
		}
		if s < 0 || !m.grid.fits(&st, s) {
			return st, Layout{m, have.Instances}.problems()
		}
		m.grid.add(&st, s)
	}
	return st, nil
}

// search finds slots for n instances of each profile in addition to st. It tries
// every combination that differs by more than the order of equal profiles.
func (m *Model) search(st state, n [maxProfiles]int) ([]int, bool) {
	g := m.grid
	units, total := 0, 0
	for i, k := range n {
		if k == 0 {
			continue
		}
		if k > g.maximum[i] {
			return nil, false
		}
		units += k * m.Profiles[i].PlacementUnits
		total += k
	}
	if units > g.units-popcount(st.mask) {
		return nil, false
	}
	sr := searcher{g: g, order: m.sizeOrder, n: n, placed: make([]int, 0, total)}
	if !sr.place(&st, 0, 0) {
		return nil, false
	}
	return sr.placed, true
}

type searcher struct {
	g      *grid
	order  []int // profiles in the order of placing
	n      [maxProfiles]int
	placed []int
}

// place places the rest of the profile order[at] and those after it. Slots of one profile that were tried and
// given up are barred, by mask of their index, since trying them later only gives the same set in another order.
func (s *searcher) place(st *state, at int, barred uint32) bool {
	for at < len(s.order) && s.n[s.order[at]] == 0 {
		at, barred = at+1, 0
	}
	if at == len(s.order) {
		return true
	}
	p := s.order[at]
	order := s.g.best(p, st.mask)
	for _, sl := range order.slots[:order.n] {
		bit := uint32(1) << s.g.slots[sl].Start
		if barred&bit != 0 || !s.g.fits(st, sl) {
			continue
		}
		s.g.add(st, sl)
		s.n[p]--
		s.placed = append(s.placed, sl)
		if s.place(st, at, barred) {
			return true
		}
		s.placed = s.placed[:len(s.placed)-1]
		s.n[p]++
		s.g.remove(st, sl)
		barred |= bit
	}
	return false
}

// prepare makes the tables for placing. sizeOrder has the profiles with most units first, then those with most compute
// slices, then fewest starts, then in the catalogue's order.
func (m *Model) prepare() {
	if m.grid = newGrid(m); m.grid != nil {
		m.grid.multisets = sync.OnceValue(m.multisets)
	}
	m.sizeOrder = make([]int, len(m.Profiles))
	for i := range m.sizeOrder {
		m.sizeOrder[i] = i
	}
	slices.SortStableFunc(m.sizeOrder, func(a, b int) int {
		p, q := m.Profiles[a], m.Profiles[b]
		return cmp.Or(cmp.Compare(q.PlacementUnits, p.PlacementUnits), cmp.Compare(q.ComputeSlices, p.ComputeSlices),
			cmp.Compare(len(p.Placements), len(q.Placements)))
	})
}

// Layouts returns every valid, non-empty layout of the named profiles on an empty GPU, or of all profiles when none
// is named, in a fixed order. Each layout is the caller's.
func (m *Model) Layouts(profiles ...string) (iter.Seq[Layout], error) {
	allowed, err := m.only(profiles)
	if err != nil {
		return nil, err
	}
	return func(yield func(Layout) bool) {
		m.walk(&state{}, 0, allowed, nil, func(_ *state, placed []int) bool {
			return len(placed) == 0 || yield(m.layoutOf(placed))
		})
	}, nil
}

// layoutOf returns the layout of some slots.
func (m *Model) layoutOf(slots []int) Layout {
	return NewLayout(m, m.instances(slots)...)
}

// instances returns the instances of some slots.
func (m *Model) instances(slots []int) []Instance {
	out := make([]Instance, 0, len(slots))
	for _, s := range slots {
		sl := &m.grid.slots[s]
		out = append(out, Instance{Profile: m.Profiles[sl.profile], Placement: sl.Placement})
	}
	return out
}

// everyProfile is the set of all profiles.
var everyProfile = [maxProfiles]bool(slices.Repeat([]bool{true}, maxProfiles))

// only returns which profiles are named, as a set of indexes.
func (m *Model) only(profiles []string) ([maxProfiles]bool, error) {
	var allowed [maxProfiles]bool
	if err := m.needGrid(); err != nil {
		return allowed, err
	}
	var list problem.List
	for _, name := range profiles {
		p, err := m.Profile(name)
		list.AddErr("", err)
		if err == nil {
			allowed[p.index] = true
		}
	}
	if len(profiles) == 0 {
		allowed = everyProfile
	}
	return allowed, invalid(list.Err())
}

// walk visits st and every state that adds slots from index at on to it. visit returns false to stop.
func (m *Model) walk(st *state, at int, allowed [maxProfiles]bool, placed []int,
	visit func(st *state, placed []int) bool) bool {
	if !visit(st, placed) {
		return false
	}
	for s := at; s < len(m.grid.slots); s++ {
		if !allowed[m.grid.slots[s].profile] || !m.grid.fits(st, s) {
			continue
		}
		m.grid.add(st, s)
		ok := m.walk(st, s+1, allowed, append(placed, s), visit)
		m.grid.remove(st, s)
		if !ok {
			return false
		}
	}
	return true
}

// FragmentationTable returns, for each mask of taken placement units, the expected number of free units that a random
// request of the mix cannot use. This is the fragmentation measure of Weng et al., "Beware of Fragmentation: Scheduling
// GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023), on placement units. An empty mix means
// all profiles without attributes, with equal weight. The slice is the caller's.
func (m *Model) FragmentationTable(mix []Count) ([]float64, error) {
	if err := m.needGrid(); err != nil {
		return nil, err
	}
	weights, err := m.mix(mix)
	if err != nil {
		return nil, err
	}
	g := m.grid
	frag := make([]float64, 1<<g.units)
	for mask := range frag {
		free := g.units - popcount(uint32(mask))
		for p, w := range weights {
			if w == 0 {
				continue
			}
			usable := 0
			for _, s := range g.of[p] {
				if g.slots[s].mask&uint32(mask) == 0 {
					usable += g.slots[s].Size
				}
			}
			frag[mask] += w * float64(free-min(usable, free))
		}
	}
	return frag, nil
}

// mix returns the weight of each profile, with sum 1.
func (m *Model) mix(counts []Count) ([maxProfiles]float64, error) {
	var w [maxProfiles]float64
	demand, err := m.resolve("mix", counts)
	if err != nil {
		return w, err
	}
	sum := 0.0
	for i, n := range demand {
		w[i] = float64(n)
		sum += w[i]
	}
	if sum == 0 {
		for i, p := range m.Profiles {
			if len(p.parsed.Attributes) == 0 && len(p.parsed.Without) == 0 {
				w[i] = 1
				sum++
			}
		}
	}
	for i := range w {
		w[i] /= sum
	}
	return w, nil
}
