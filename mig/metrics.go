package mig

// FreeUnits returns the placement units that no instance covers, some of which
// no instance may be able to use.
func (l Layout) FreeUnits() int {
	if l.Model == nil {
		return 0
	}
	free := l.Model.Units
	for _, in := range l.Instances {
		free -= in.Size
	}
	return max(free, 0)
}

// FreeCompute returns the compute slices that no instance has.
func (l Layout) FreeCompute() int {
	if l.Model == nil {
		return 0
	}
	free := l.Model.ComputeSlices
	for _, in := range l.Instances {
		free -= in.Profile.ComputeSlices
	}
	return max(free, 0)
}

// StrandedCompute returns how many of the free compute slices no further
// instances could use, whatever their profiles: one for 3g+3g on a seven-slice
// GPU. The layout must be valid.
func (l Layout) StrandedCompute() (int, error) {
	if l.Model == nil {
		return 0, nil
	}
	st, err := l.Model.stateOf(l)
	if err != nil {
		return 0, err
	}
	return l.FreeCompute() - l.Model.mostCompute(&st, 0), nil
}

// mostCompute returns the most compute slices that can be added to st with
// slots from index at on.
func (m *Model) mostCompute(st *state, at int) int {
	best := 0
	for s := at; s < len(m.grid.slots); s++ {
		if !m.grid.fits(st, s) {
			continue
		}
		m.grid.add(st, s)
		best = max(best, m.Profiles[m.grid.slots[s].profile].ComputeSlices+m.mostCompute(st, s+1))
		m.grid.remove(st, s)
	}
	return best
}

// Fits returns how many more instances of p the layout has room for, by itself.
func (l Layout) Fits(p *Profile) (int, error) {
	m := l.Model
	if m == nil {
		m = p.model
	}
	st, err := m.stateOf(l)
	if err != nil || p.model != m {
		return 0, err
	}
	for n := m.grid.maximum[p.index]; n > 0; n-- {
		var want [maxProfiles]int
		want[p.index] = n
		if _, ok := m.search(st, want); ok {
			return n, nil
		}
	}
	return 0, nil
}

// Remaining returns, for each profile that still fits, how many more instances
// of it alone the layout has room for.
func (l Layout) Remaining() ([]Count, error) {
	if l.Model == nil {
		return nil, nil
	}
	var counts []Count
	for _, p := range l.Model.Profiles {
		n, err := l.Fits(p)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			counts = append(counts, Count{Profile: p.Name, N: n})
		}
	}
	return counts, nil
}
