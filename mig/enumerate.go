package mig

import (
	"fmt"
	"iter"
	"slices"
)

// Enumeration counts the ways to partition an otherwise empty GPU with some
// profiles. The empty layout does not count.
type Enumeration struct {
	Placed                 int `json:"placed"`                   // sets of placed instances
	MaximalPlaced          int `json:"maximal_placed"`           // those that nothing can be added to
	Multisets              int `json:"multisets"`                // distinct counts of profiles
	MaximalPlacedMultisets int `json:"maximal_placed_multisets"` // distinct counts of the maximal placed sets
	MaximalMultisets       int `json:"maximal_multisets"`        // counts that no feasible counts exceed
}

// String writes the counts, one a line.
func (e Enumeration) String() string {
	return fmt.Sprintf("%9d sets of placed instances\n%9d to which nothing can be added\n"+
		"%9d distinct counts of profiles\n%9d of the maximal placed sets\n%9d that no other counts exceed\n",
		e.Placed, e.MaximalPlaced, e.Multisets, e.MaximalPlacedMultisets, e.MaximalMultisets)
}

// Enumerate counts the layouts of the named profiles, or of all profiles when none is named.
func (m *Model) Enumerate(profiles ...string) (Enumeration, error) {
	var e Enumeration
	all := map[[maxProfiles]uint8]bool{}
	maximalPlaced := map[[maxProfiles]uint8]bool{}
	allowed, err := m.only(profiles)
	if err != nil {
		return e, err
	}
	m.walk(&state{}, 0, allowed, nil, func(st *state, _ []int, maximal bool) bool {
		if st.mask == 0 {
			return true
		}
		e.Placed++
		all[st.count] = true
		if maximal {
			e.MaximalPlaced++
			maximalPlaced[st.count] = true
		}
		return true
	})
	e.Multisets, e.MaximalPlacedMultisets = len(all), len(maximalPlaced)
	for n := range all {
		maximal := true
		for i := range m.Profiles {
			grown := n
			grown[i]++
			maximal = maximal && !all[grown]
		}
		if maximal {
			e.MaximalMultisets++
		}
	}
	return e, nil
}

// Layouts returns every valid, non-empty layout of the named profiles on an empty GPU, or of all profiles when none
// is named, in a fixed order. Each layout is the caller's.
func (m *Model) Layouts(profiles ...string) (iter.Seq[Layout], error) {
	allowed, err := m.only(profiles)
	if err != nil {
		return nil, err
	}
	return func(yield func(Layout) bool) {
		m.walk(&state{}, 0, allowed, nil, func(_ *state, placed []int, _ bool) bool {
			return len(placed) == 0 || yield(m.layoutOf(placed))
		})
	}, nil
}

// layoutOf returns the layout of some slots.
func (m *Model) layoutOf(slots []int) Layout {
	return NewLayout(m, m.cutInstances(slots, nil)...)
}

// everyProfile is the set of all profiles.
var everyProfile = [maxProfiles]bool(slices.Repeat([]bool{true}, maxProfiles))

// only returns which profiles are named, as a set of indexes.
func (m *Model) only(profiles []string) ([maxProfiles]bool, error) {
	var allowed [maxProfiles]bool
	if err := m.needGrid(); err != nil {
		return allowed, err
	}
	var list problems
	for _, name := range profiles {
		p, err := m.Profile(name)
		list.add("", err)
		if err == nil {
			allowed[p.index] = true
		}
	}
	if len(profiles) == 0 {
		allowed = everyProfile
	}
	return allowed, list.err()
}

// walk visits st and every state that adds slots from index at on to it. maximal says whether no allowed slot can
// be added. visit returns false to stop.
func (m *Model) walk(st *state, at int, allowed [maxProfiles]bool, placed []int,
	visit func(st *state, placed []int, maximal bool) bool) bool {
	var free []int
	for s := range m.grid.slots {
		if allowed[m.grid.slots[s].profile] && m.grid.fits(st, s) {
			free = append(free, s)
		}
	}
	if !visit(st, placed, len(free) == 0) {
		return false
	}
	for _, s := range free {
		if s < at {
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
