// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync"
)

// maxProfiles bounds the profiles of one model, so that counts of profiles fit
// an array; newGrid answers nil for a model that breaks a bound.
const (
	maxProfiles = 16
	maxUnits    = 16
)

// A slot is one possible placement of one profile.
type slot struct {
	profile int // index in Model.Profiles
	Placement
	mask uint32 // the units it covers
}

// grid holds the data for placing, as bits: the rules of a valid layout are that masks are disjoint, engines add up
// to no more than the GPU's, and no profile occurs more often than it may.
type grid struct {
	units       int
	slots       []slot
	of          [][]int  // slots of each profile, ordered by start
	engines     []uint64 // of each profile, five counters of eight bits
	total       uint64   // of the GPU, with guard bits set
	maximum     []int    // instances of each profile
	flexibility func() []int32
	multisets   func() []multiset // of the empty GPU
}

const engineGuard = 0x8080808080

func newGrid(m *Model) *grid {
	if m.Units == 0 || m.Units > maxUnits || len(m.Profiles) == 0 || len(m.Profiles) > maxProfiles {
		return nil
	}
	g := &grid{units: m.Units, total: packEngines(m.Engines, 127) | engineGuard}
	for i, p := range m.Profiles {
		if p.Placements == nil {
			return nil
		}
		var of []int
		for _, pl := range p.Placements {
			of = append(of, len(g.slots))
			g.slots = append(g.slots, slot{profile: i, Placement: pl, mask: (1<<pl.Size - 1) << pl.Start})
		}
		slices.SortFunc(of, func(a, b int) int { return cmp.Compare(g.slots[a].Start, g.slots[b].Start) })
		g.of = append(g.of, of)
		g.engines = append(g.engines, packEngines(p.Engines, 0))
		limit := cmp.Or(p.MaxInstances, m.Units)
		g.maximum = append(g.maximum, limit)
	}
	g.flexibility = sync.OnceValue(g.countFree)
	return g
}

// packEngines puts five counts into eight bits each. A count that is not known
// can't block anything: it is 0 for a profile and the most for a GPU.
func packEngines(e Engines, unknown int) uint64 {
	var v uint64
	for i, c := range e.list() {
		n := unknown
		if c.Known {
			n = min(c.Value, 127)
		}
		v |= uint64(n) << (8 * i)
	}
	return v
}

// state holds the instances of one GPU as bits and counts.
type state struct {
	mask    uint32
	engines uint64
	count   [maxProfiles]uint8
}

// fits reports whether slot s can be added to st.
func (g *grid) fits(st *state, s int) bool {
	sl := &g.slots[s]
	return st.mask&sl.mask == 0 && int(st.count[sl.profile]) < g.maximum[sl.profile] &&
		(g.total-st.engines-g.engines[sl.profile])&engineGuard == engineGuard
}

func (g *grid) add(st *state, s int) {
	sl := &g.slots[s]
	st.mask |= sl.mask
	st.engines += g.engines[sl.profile]
	st.count[sl.profile]++
}

func (g *grid) remove(st *state, s int) {
	sl := &g.slots[s]
	st.mask &^= sl.mask
	st.engines -= g.engines[sl.profile]
	st.count[sl.profile]--
}

// slotAt returns the slot of a profile that starts at a unit, or -1; a nil grid has none.
func (g *grid) slotAt(profile, start int) int {
	if g == nil {
		return -1
	}
	for _, s := range g.of[profile] {
		if g.slots[s].Start == start {
			return s
		}
	}
	return -1
}

// slotOf returns the slot of a placement, or -1.
func (g *grid) slotOf(profile int, p Placement) int {
	if s := g.slotAt(profile, p.Start); s >= 0 && g.slots[s].Size == p.Size {
		return s
	}
	return -1
}

// countFree returns, for each mask of taken units, how many slots are still free: the measure by which placing
// keeps options open. There are 256 masks of eight units and 4,096 of twelve.
func (g *grid) countFree() []int32 {
	free := make([]int32, 1<<g.units)
	for mask := range free {
		for i := range g.slots {
			if g.slots[i].mask&uint32(mask) == 0 {
				free[mask]++
			}
		}
	}
	return free
}

// ranked is a short list of slots.
type ranked struct {
	slots [maxUnits]int
	n     int
}

// best returns the free slots of a profile in the order in which to try them when the units of mask are taken: the
// one that leaves most slots free first, then the lower start.
func (g *grid) best(profile int, mask uint32) ranked {
	flex := g.flexibility()
	var r ranked
	for _, s := range g.of[profile] {
		m := g.slots[s].mask
		if m&mask != 0 {
			continue
		}
		i := r.n
		for i > 0 && flex[mask|g.slots[r.slots[i-1]].mask] < flex[mask|m] {
			r.slots[i] = r.slots[i-1]
			i--
		}
		r.slots[i] = s
		r.n++
	}
	return r
}

func popcount(m uint32) int { return bits.OnesCount32(m) }

// Occupancy holds the occupied placements of one GPU: a small comparable value for planners that try many placements.
// The zero Occupancy is an empty GPU. Use it only with profiles of one Model; mixing models is not detected.
type Occupancy struct{ st state }

// With returns o with an instance of p at start added, and whether there is
// room for it by the four rules of a valid layout. It does not allocate.
func (o Occupancy) With(p *Profile, start int) (Occupancy, bool) {
	g := p.model.grid
	s := g.slotAt(p.index, start)
	if s < 0 || !g.fits(&o.st, s) {
		return o, false
	}
	g.add(&o.st, s)
	return o, true
}

// Mask returns the placement units that are taken, unit 0 lowest.
func (o Occupancy) Mask() uint32 { return o.st.mask }

func (m *Model) needGrid() error {
	if m.grid == nil {
		return fmt.Errorf("%w: the catalogue does not know where the profiles of %s may start; read them from the device",
			ErrPlacementsUnknown, m.Key)
	}
	return nil
}

// multiset counts instances of each profile.
type multiset = [maxProfiles]uint8
