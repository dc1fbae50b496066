// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"

	"github.com/cotenant/cotenant/internal/optional"
)

// maxArrangements is the number of ways to divide the runs into two groups up to which all of them are tried; 6 and 6
// runs have 924. From 7 and 7 on Holm's correction leaves p-values small enough to claim something.
const maxArrangements = 1000

// The corrections for the number of figures that are tested.
const (
	correctionPermutation = "step-down minimum p over every arrangement of the runs (Westfall and Young)"
	correctionHolm        = "Holm"
)

// adjust corrects the p-values of figures that were measured on the same runs, so that the chance of any claim where
// nothing differs is at most the tests' level. base[i] and other[i] are figure i's values, in the order of the runs.
//
// The figures of a run depend on one another, and the Mann-Whitney p-values of few runs come in few steps; both
// make Holm's correction claim less than it could. So few runs are relabelled in every possible way, and a figure's
// corrected p is the share of arrangements in which the least p of it and of the figures behind it is as small as
// its own (Westfall and Young, Resampling-Based Multiple Testing, 1993, algorithm 2.8). Runs too many for that are
// corrected by Holm, Scand. J. Statist. 6 (1979).
func adjust(base, other [][]float64) (adjusted []float64, correction string) {
	k := len(base)
	adjusted, correction = make([]float64, k), correctionHolm
	if k == 0 {
		return adjusted, correctionPermutation
	}
	p, order := make([]float64, k), make([]int, k) // order has the smallest p first
	for i := range k {
		p[i], order[i] = pValue(base[i], other[i]), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	of := func(at int) float64 { return min(1, float64(k-at)*p[order[at]]) }
	if n, m := len(base[0]), len(other[0]); arrangements(n, m) <= maxArrangements {
		shares := relabel(base, other, p, order)
		of, correction = func(at int) float64 { return shares[at] }, correctionPermutation
	}
	least := 0.0
	for at, i := range order {
		least = max(least, of(at))
		adjusted[i] = least
	}
	return adjusted, correction
}

// relabel returns, for each place of order, the share of arrangements in which the least p of the figures from there
// on is as small as that figure's own.
func relabel(base, other [][]float64, p []float64, order []int) []float64 {
	n, m := len(base[0]), len(other[0])
	sets := combin.Combinations(n+m, n)
	shares := make([]float64, len(order))
	for _, set := range sets {
		smallest := math.Inf(1)
		for at := len(order) - 1; at >= 0; at-- {
			i := order[at]
			var in, out []float64
			for run, v := range slices.Concat(base[i], other[i]) {
				if _, chosen := slices.BinarySearch(set, run); chosen {
					in = append(in, v)
				} else {
					out = append(out, v)
				}
			}
			if smallest = min(smallest, pValue(in, out)); smallest <= p[i]*(1+1e-9) {
				shares[at] += 1 / float64(len(sets))
			}
		}
	}
	return shares
}

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

// testedFigure is a figure that every run has: its place among the compared ones,
// and its values in the order of the runs.
type testedFigure struct {
	at          int
	base, other []float64
}

// correct takes back the claims that the number of figures does not allow.
func (rc *RunComparison) correct(tested []testedFigure, alpha float64) {
	if len(tested) == 0 {
		return
	}
	var base, other [][]float64
	for _, f := range tested {
		base, other = append(base, f.base), append(other, f.other)
	}
	p, correction := adjust(base, other)
	rc.Correction = correction
	for i, f := range tested {
		c := &rc.Figures[f.at]
		c.PCorrected = optional.Of(p[i])
		if (c.Claim == claimLower || c.Claim == claimHigher) && p[i] > alpha*(1+1e-9) {
			c.Claim = claimNoDifference
			c.Reasons = append(c.Reasons, fmt.Sprintf("shown by itself, not among %d figures (make more runs, or name "+
				"the figures that matter)", len(tested)))
		}
	}
}

// withhold takes back every claim that rests on the requests that succeeded, where the groups' shares of failed
// requests differ beyond chance: by all their requests, since a few runs can show nothing however much they fail.
func (rc *RunComparison) withhold(sides []*side, alpha float64) {
	var failed, total [2]int64
	for i, s := range sides {
		for _, m := range s.of {
			failed[i], total[i] = failed[i]+m.Counts.Failed, total[i]+m.Counts.Total
		}
	}
	if total[0] == 0 || total[1] == 0 {
		return
	}
	p := fisher(failed[0], total[0], failed[1], total[1])
	if p > alpha {
		return
	}
	rc.Withheld = fmt.Sprintf("%d of %d requests of the base failed and %d of %d of the other, which is beyond chance "+
		"(p = %.2g): latencies and rates are of the requests that did not fail, and cannot be compared",
		failed[0], total[0], failed[1], total[1], p)
	for i := range rc.Figures {
		c := &rc.Figures[i]
		if c.Figure == failedShare || c.Figure == "goodput.fraction" { // failures count in these
			continue
		}
		c.Claim = claimUnsupported
		c.Reasons = append(c.Reasons, "withheld: the shares of failed requests differ")
	}
}
