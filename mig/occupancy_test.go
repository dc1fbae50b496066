// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

func occupancy(m *Model, l Layout) (Occupancy, error) {
	st, err := m.stateOf(l)
	return Occupancy{st}, err
}

// TestOccupancy adds every placement to every valid layout of an
// A100 and compares with Validate on the same layout.
func TestOccupancy(t *testing.T) {
	m := gpu(t, "a100-80gb")
	layouts := must.Get(m.Layouts())(t)
	seen := 0
	for l := range layouts {
		if seen++; seen > 400 {
			break
		}
		o := must.Get(occupancy(m, l))(t)
		for _, p := range m.Profiles {
			for _, pl := range p.Placements {
				more, ok := o.With(p, pl.Start)
				with := NewLayout(m, append(append([]Instance(nil), l.Instances...), Instance{Profile: p, Placement: pl})...)
				if valid := with.Validate() == nil; ok != valid {
					t.Fatalf("%v with %v at %d: %v, Validate: %v", l, p, pl.Start, ok, valid)
				}
				if !ok {
					continue
				}
				if want, _ := occupancy(m, with); more != want {
					t.Fatalf("%v: With differs from the layout's occupancy", with)
				}
			}
		}
	}
}

func TestFragmentationTable(t *testing.T) {
	m := gpu(t, "a100-80gb")
	table := must.Get(m.FragmentationTable(counts(t, "1g.10gb=3,2g.20gb=1")))(t)
	for mask, want := range map[uint32]float64{
		0b0000_0000: 3.0/4*1 + 1.0/4*2, // 1g has 7 starts of 8 units, 2g 3 starts of 2
		0b1111_0001: 3.0/4*0 + 1.0/4*1,
		0b1111_1111: 0,
	} {
		if got := table[mask]; got != want {
			t.Errorf("units %08b taken: %v, want %v", mask, got, want)
		}
	}
	even := must.Get(m.FragmentationTable(nil))(t)
	if low, high := even[0b1111_0000], even[0b0000_1111]; low >= high {
		t.Errorf("fragmentation %.2f with 3g at 4, %.2f at 0", low, high)
	}
	if _, err := m.FragmentationTable([]Count{{Profile: "9g", N: 1}}); err == nil {
		t.Error("an unknown profile passed")
	}
}
