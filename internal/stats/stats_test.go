// SPDX-License-Identifier: Apache-2.0

package stats

import "testing"

func TestNearestRank(t *testing.T) {
	for _, c := range []struct {
		n    int
		q    float64
		want int
	}{
		{1, 0, 1}, {1, 0.5, 1}, {1, 1, 1},
		{2, 0.5, 1}, {3, 0.5, 2}, {4, 0.5, 2},
		{100, 0.99, 99}, {101, 0.99, 100}, {1000, 0.999, 999},
		{100, 0.07, 7}, // 0.07*100 is a little more than 7 in binary
		{5, 0, 1}, {5, 1, 5}, {5, 1.5, 5},
	} {
		sorted := make([]int, c.n)
		for i := range sorted {
			sorted[i] = i + 1
		}
		if got := NearestRank(sorted, c.q); got != c.want {
			t.Errorf("the quantile %v of 1 to %d is %d, want %d", c.q, c.n, got, c.want)
		}
	}
}
