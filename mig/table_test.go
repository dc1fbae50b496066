// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

// TestPossibleTable counts what is impossible in a table of A100-40GB configurations that is made by sums alone, as the
// tables that others ship are: all multisets of compute instances with at most seven compute slices in all, and at most
// seven slices in the distinct GPU instances. That 370 of them are possible was also found by cutting every layout in
// every way.
func TestPossibleTable(t *testing.T) {
	m := gpu(t, "a100-40gb")
	gb := map[int]int{1: 5, 2: 10, 3: 20, 4: 20, 7: 40}
	type device struct{ c, g int }
	var devices []device
	for _, g := range []int{1, 2, 3, 4, 7} {
		for _, c := range []int{1, 2, 3, 4, 7} {
			if c <= g && !(c == 3 && g == 4) {
				devices = append(devices, device{c, g})
			}
		}
	}
	total, impossible := 0, 0
	var n []int
	var grow func(i, left int, distinct []int)
	grow = func(i, left int, distinct []int) {
		if i == len(devices) {
			var counts []Count
			for j, k := range n {
				if k > 0 {
					counts = append(counts, Count{fmt.Sprintf("%dc.%dg.%dgb", devices[j].c, devices[j].g, gb[devices[j].g]), k})
				}
			}
			if counts == nil {
				return
			}
			total++
			if answer, _, _ := m.feasible(counts, Layout{}); answer != sharing.AnswerYes {
				impossible++
			}
			return
		}
		d := devices[i]
		n = append(n, 0)
		grow(i+1, left, distinct)
		if !slices.Contains(distinct, d.g) {
			distinct = append(slices.Clone(distinct), d.g)
		}
		sum := 0
		for _, g := range distinct {
			sum += g
		}
		for k := 1; k*d.c <= left && sum <= 7; k++ {
			n[i] = k
			grow(i+1, left-k*d.c, distinct)
		}
		n = n[:i]
	}
	grow(0, 7, nil)
	if total != 787 || total-impossible != 370 {
		t.Errorf("%d of %d configurations are impossible, want 417 of 787", impossible, total)
	}
}
