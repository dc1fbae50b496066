// SPDX-License-Identifier: Apache-2.0

package mig

import "fmt"

// Balanced returns the mix that mig-parted calls all-balanced: two 1g, one 2g and, on seven-slice GPUs, one 3g,
// each in the plain variant of which most fit. The error is ErrNotSupported for GPUs of other sizes.
func (m *Model) Balanced() ([]Count, error) {
	var sizes []Count
	switch m.ComputeSlices {
	case 7:
		sizes = []Count{{"1g", 2}, {"2g", 1}, {"3g", 1}}
	case 4:
		sizes = []Count{{"1g", 2}, {"2g", 1}}
	default:
		return nil, fmt.Errorf("%w: a balanced mix is defined for seven and four compute slices, and %s has %d",
			ErrNotSupported, m.Key, m.ComputeSlices)
	}
	for i := range sizes {
		p := m.base(int(sizes[i].Profile[0] - '0'))
		if p == nil {
			return nil, fmt.Errorf("%w: %s has no plain %s profile", ErrNotSupported, m.Key, sizes[i].Profile)
		}
		sizes[i].Profile = p.Name
	}
	return sizes, nil
}

// base returns the plain profile of some slices of which most fit, or nil.
func (m *Model) base(slices int) *Profile {
	var best *Profile
	for _, p := range m.Profiles {
		if p.ComputeSlices == slices && len(p.parsed.Attributes) == 0 && len(p.parsed.Without) == 0 &&
			(best == nil || p.MaxInstances > best.MaxInstances) {
			best = p
		}
	}
	return best
}
