package mig

import "fmt"

// Occupancy holds the instances of one GPU, without the names of who has them: a small comparable value for
// planners that try many placements. The zero Occupancy is an empty GPU. It belongs to the Model that made it;
// using it with another is a mistake that is not detected.
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

// FragmentationTable returns, for each mask of taken placement units, the free units that a request drawn from the
// mix cannot use, in expectation. This is the fragmentation measure of Weng et al., "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023), on placement units. An
// empty mix means every profile without attributes alike. The slice is the caller's.
func (m *Model) FragmentationTable(mix []Count) ([]float64, error) {
	if err := m.needGrid(); err != nil {
		return nil, err
	}
	weights, err := m.mix(mix)
	if err != nil {
		return nil, fmt.Errorf("mix: %w", err)
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
	d, err := m.resolve(counts)
	if err != nil {
		return w, err
	}
	sum := 0.0
	for i, n := range d.instances() {
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
