// SPDX-License-Identifier: Apache-2.0

package mig

import "cmp"

// Bar and Fits are for the tests in package mig_test.

func (l Layout) Bar() string { return l.bar() }

func (l Layout) Fits(p *Profile) (int, error) { return l.room(p) }

// room returns how many more instances of p the layout has room for, by itself.
func (l Layout) room(p *Profile) (int, error) {
	m := cmp.Or(l.Model, p.model)
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
