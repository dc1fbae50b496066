package mig

import "fmt"

// Occupancy is what stands on one GPU, without the names of who has it: a small
// comparable value for planners that try many placements. The zero Occupancy is
// an empty GPU. It belongs to the Model that made it; using it with another is
// a mistake that is not detected.
type Occupancy struct{ st state }

// Occupancy returns what a layout occupies. The zero Layout is an empty GPU. The
// error is that of Layout.Validate, or ErrPlacementsUnknown.
func (m *Model) Occupancy(l Layout) (Occupancy, error) {
	st, err := m.stateOf(l)
	return Occupancy{st}, err
}

// With returns o with an instance of p at start added, and whether there is
// room for it by the four rules of a valid layout. It does not allocate.
func (o Occupancy) With(p *Profile, start int) (Occupancy, bool) {
	g := p.model.grid
	if g == nil {
		return o, false
	}
	for _, s := range g.of[p.index] {
		if g.slots[s].Start == start {
			if !g.fits(&o.st, s) {
				return o, false
			}
			g.add(&o.st, s)
			return o, true
		}
	}
	return o, false
}

// Without returns o with an instance of p at start taken away, and false when
// there can be none. Which instance it is, is for the caller to know.
func (o Occupancy) Without(p *Profile, start int) (Occupancy, bool) {
	g := p.model.grid
	if g == nil {
		return o, false
	}
	for _, s := range g.of[p.index] {
		if sl := &g.slots[s]; sl.Start == start && o.st.mask&sl.mask == sl.mask && o.st.count[p.index] > 0 {
			g.remove(&o.st, s)
			return o, true
		}
	}
	return o, false
}

// Mask returns the placement units that are taken, unit 0 lowest.
func (o Occupancy) Mask() uint32 { return o.st.mask }

// FragmentationTable returns, for each mask of taken units, the free units that
// a request drawn from the mix can't use, in expectation: Layout.Fragmentation
// for planners. An empty mix means every profile without attributes alike. The
// slice is the caller's.
func (m *Model) FragmentationTable(mix []Count) ([]float64, error) {
	if err := m.needGrid(); err != nil {
		return nil, err
	}
	w, err := m.mix(mix)
	if err != nil {
		return nil, fmt.Errorf("mix: %w", err)
	}
	return m.fragmentation(w), nil
}
