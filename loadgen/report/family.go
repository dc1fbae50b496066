package report

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
)

// maxArrangements is the number of ways to divide the runs into two groups up to
// which all of them are tried; 10 and 10 runs have 184,756.
const maxArrangements = 200_000

// The corrections for the number of figures that are tested.
const (
	correctionPermutation = "step-down minimum p over every arrangement of the runs (Westfall and Young)"
	correctionHolm        = "Holm"
)

// adjust corrects the p-values of figures that were measured on the same runs, so
// that the chance of any claim where nothing differs is at most the tests' level.
// base[i] and other[i] are figure i's values, in the order of the runs.
//
// The figures of a run depend on one another, and the Mann-Whitney p-values of few runs come in few steps; both
// make Holm's correction claim less than it could. So the runs are relabelled in every possible way, and a figure's
// corrected p is the share of arrangements in which the least p of it and of the figures behind it is as small as
// its own (Westfall and Young, Resampling-Based Multiple Testing, 1993, algorithm 2.8). Runs too many for that are
// corrected by Holm, Scand. J. Statist. 6 (1979).
func adjust(base, other [][]float64) (adjusted []float64, correction string) {
	k := len(base)
	p := make([]float64, k)
	for i := range k {
		p[i], _ = mannWhitney(base[i], other[i])
	}
	order := make([]int, k) // the smallest p first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted = make([]float64, k)
	if k == 0 {
		return adjusted, correctionPermutation
	}
	n, m := len(base[0]), len(other[0])
	least := 0.0
	if arrangements(n, m) > maxArrangements || n+m > exactRanks {
		for at, i := range order {
			least = max(least, min(1, float64(k-at)*p[i]))
			adjusted[i] = least
		}
		return adjusted, correctionHolm
	}
	as, all := relabel(base, other, p, order)
	for at, i := range order {
		least = max(least, float64(as[at])/float64(all))
		adjusted[i] = least
	}
	return adjusted, correctionPermutation
}

// relabel counts, for each place of order, the arrangements in which the least p of
// the figures from there on is as small as that figure's own.
func relabel(base, other [][]float64, p []float64, order []int) (as []int, all int) {
	n, m := len(base[0]), len(other[0])
	ranks := make([][]int, len(order)) // by place, then by run
	pOf := make([][]float64, len(order))
	own := make([]float64, len(order))
	for at, i := range order {
		ranks[at], _ = midRanks(slices.Concat(base[i], other[i]))
		pOf[at] = pBySum(rankSums(ranks[at], n))
		own[at] = p[i] * (1 + 1e-9)
	}
	as = make([]int, len(order))
	sums := make([]int, len(order))
	var choose func(from, left int)
	choose = func(from, left int) {
		if left == 0 {
			all++
			smallest := math.Inf(1)
			for at := len(order) - 1; at >= 0; at-- {
				if smallest = min(smallest, pOf[at][sums[at]]); smallest <= own[at] {
					as[at]++
				}
			}
			return
		}
		for run := from; run <= n+m-left; run++ {
			for at := range sums {
				sums[at] += ranks[at][run]
			}
			choose(run+1, left-1)
			for at := range sums {
				sums[at] -= ranks[at][run]
			}
		}
	}
	choose(0, n)
	return as, all
}

// arrangements is the number of ways to choose n of n+m.
func arrangements(n, m int) float64 { return combin.GeneralizedBinomial(float64(n+m), float64(n)) }

// fisher is the two-sided p-value of Fisher's exact test that k of n and j of m are of one share: the probability
// of every table, the margins given, that is no more probable than this one.
func fisher(k, n, j, m int64) float64 {
	total, hits := n+m, k+j
	logChoose := func(n, k int64) float64 { return combin.LogGeneralizedBinomial(float64(n), float64(k)) }
	of := func(x int64) float64 { return logChoose(n, x) + logChoose(m, hits-x) - logChoose(total, hits) }
	seen := of(k)
	p := 0.0
	for x := max(0, hits-m); x <= min(n, hits); x++ {
		if v := of(x); v <= seen+1e-7 {
			p += math.Exp(v)
		}
	}
	return min(p, 1)
}
