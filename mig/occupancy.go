package mig

import "fmt"

// Occupancy is what stands on one GPU, without the names of who has it: a small
// comparable value for planners that try many placements. The zero Occupancy is
// an empty GPU. It belongs to the Model that made it; using it with another is
// a mistake that is not detected.
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

// Without returns o with an instance of p at start taken away, and false when
// there can be none. Which instance it is, is for the caller to know.
func (o Occupancy) Without(p *Profile, start int) (Occupancy, bool) {
	g := p.model.grid
	s := g.slotAt(p.index, start)
	if s < 0 || o.st.mask&g.slots[s].mask != g.slots[s].mask || o.st.count[p.index] == 0 {
		return o, false
	}
	g.remove(&o.st, s)
	return o, true
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
