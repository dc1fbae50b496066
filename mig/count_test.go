// SPDX-License-Identifier: Apache-2.0

package mig

import "testing"

// TestPackComputeExact compares the cutting of GPU instances with all partitions.
func TestPackComputeExact(t *testing.T) {
	for _, rule := range []CIRule{CIRuleContiguous, CIRuleAligned} {
		for _, sizes := range []map[int]int{{3: 2, 2: 4}, {4: 1, 3: 1}, {1: 7}, {3: 2, 1: 1}, {2: 3, 1: 1}, {2: 4}, {7: 2, 1: 1}} {
			got := 0
			for _, c := range packCompute(rule, 7, sizes) {
				got += c.times
				if !fitCompute(rule, 7, c.compute) {
					t.Errorf("%v %v does not fit", rule, c.compute)
				}
			}
			var flat []int
			for c := 7; c >= 1; c-- {
				for range sizes[c] {
					flat = append(flat, c)
				}
			}
			if want := bruteBins(rule, flat, nil); got != want {
				t.Errorf("%v %v: %d GPU instances, want %d", rule, sizes, got, want)
			}
		}
	}
}

func bruteBins(rule CIRule, left []int, bins [][]int) int {
	if len(left) == 0 {
		return len(bins)
	}
	best := 1 << 20
	for i := range bins {
		with := append(append([]int{}, bins[i]...), left[0])
		if fitCompute(rule, 7, with) {
			old := bins[i]
			bins[i] = with
			best = min(best, bruteBins(rule, left[1:], bins))
			bins[i] = old
		}
	}
	return min(best, bruteBins(rule, left[1:], append(bins, []int{left[0]})))
}
