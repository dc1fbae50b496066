// SPDX-License-Identifier: Apache-2.0

// Package stats holds the statistics that several packages report, so that a
// percentile is the same number everywhere.
package stats

import "math"

// Rank is the nearest rank, from 1 to n, of the quantile q among n values: the smallest rank with at least a share q
// of the values at or below it. A product q*n that rounding has put just above a whole number counts as that number.
func Rank(q float64, n int64) int64 {
	return min(max(int64(math.Ceil(q*float64(n)-1e-9)), 1), n)
}

// NearestRank is the q-quantile of sorted values, of which there is at least
// one: the value of Rank, which is always one that was seen.
func NearestRank[T any](sorted []T, q float64) T {
	return sorted[Rank(q, int64(len(sorted)))-1]
}

// NormalQuantile is the quantile p, between 0 and 1, of the standard normal distribution. It is here because
// gonum's packages for it take as long to compile as everything else that a decision imports.
func NormalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// Z90 is the number of standard deviations about the mean between which a normal distribution has 90%.
const Z90 = 1.6449
