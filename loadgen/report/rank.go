package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"

	"github.com/cotenant/cotenant/internal/optional"
)

// exactRanks is the number of values in all up to which the distribution of the rank sum is counted out.
const exactRanks = 60

// leastP is the smallest two-sided p-value that n and m untied values can give.
func leastP(n, m int) float64 { return min(2/arrangements(n, m), 1) }

// enoughSamples is the smallest n with leastP(n, n) at or below alpha.
func enoughSamples(alpha float64) int {
	n := 1
	for leastP(n, n) > alpha*(1+1e-9) {
		n++
	}
	return n
}

// mannWhitney returns the two-sided p-value of the U test: twice the smaller tail of the rank sum's distribution
// given the ties, at most 1. See Mann and Whitney, Ann. Math. Statist. 18 (1947).
//
// github.com/aclements/go-moremath, which benchstat uses, agrees to 1e-15 without ties. With ties its distribution is
// not symmetric, and it doubles one tail whichever is the smaller: {3} against {2, 2, 2} has p = 0.5, and 1.5 there.
func mannWhitney(a, b []float64) (p float64, exact bool) {
	n, m := len(a), len(b)
	ranks, ties := midRanks(slices.Concat(a, b))
	sum := 0
	for _, r := range ranks[:n] {
		sum += r
	}
	if n+m <= exactRanks {
		return pBySum(rankSums(ranks, n))[sum], true
	}
	nf, mf := float64(n), float64(m)
	total := nf + mf
	u := float64(sum)/2 - nf*(nf+1)/2
	variance := nf * mf / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 1, false
	}
	z := max(math.Abs(u-nf*mf/2)-0.5, 0) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2), false
}

// midRanks returns twice the mid-rank of each value.
func midRanks(values []float64) (ranks []int, ties float64) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks = make([]int, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t // the tie term: the sum of t³-t over groups of ties
		for _, at := range order[i:j] {
			ranks[at] = i + 1 + j // twice the mean of the ranks i+1 ... j
		}
		i = j
	}
	return ranks, ties
}

// pBySum gives the two-sided p-value of each rank sum.
func pBySum(chance []float64) []float64 {
	p := make([]float64, len(chance))
	below := 0.0
	for s, c := range chance {
		below += c
		p[s] = below
	}
	above := 0.0
	for s := len(chance) - 1; s >= 0; s-- {
		above += chance[s]
		p[s] = min(2*min(p[s], above), 1)
	}
	return p
}

// rankSums gives, for the sum S of n ranks drawn from ranks without replacement, P(S = s) for each s.
func rankSums(ranks []int, n int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	// ways[k][s] counts the choices of k ranks with sum s; float64 is exact up to 2^53 and good to 1e-13 beyond.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for i, r := range ranks {
		for k := min(i+1, n); k >= 1; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	var all float64
	for _, w := range ways[n] {
		all += w
	}
	for s := range ways[n] {
		ways[n][s] /= all
	}
	return ways[n]
}

// untiedU returns the distribution function of the U statistic without ties.
func untiedU(n, m int) func(u int) float64 {
	if n+m > exactRanks {
		nf, mf := float64(n), float64(m)
		sd := math.Sqrt(nf * mf * (nf + mf + 1) / 12)
		return func(u int) float64 { return math.Erfc((nf*mf/2-float64(u)-0.5)/sd/math.Sqrt2) / 2 }
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1
	}
	cumulative := rankSums(ranks, n)[n*(n+1)/2:] // the rank sum of U = 0 and beyond
	for u := range len(cumulative) - 1 {
		cumulative[u+1] += cumulative[u]
	}
	return func(u int) float64 { return cumulative[u] }
}

// maxArrangements is the number of ways to divide the runs into two groups up to
// which all of them are tried; 10 and 10 runs have 184,756.
const maxArrangements = 200_000

// The corrections for the number of figures that are tested.
const (
	correctionPermutation = "step-down minimum p over every arrangement of the runs (Westfall and Young)"
	correctionHolm        = "Holm"
)

// adjust corrects the p-values of figures that were measured on the same runs, so that the chance of any claim where
// nothing differs is at most the tests' level. base[i] and other[i] are figure i's values, in the order of the runs.
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
		if (c.Claim == ClaimLower || c.Claim == ClaimHigher) && p[i] > alpha*(1+1e-9) {
			c.Claim = ClaimNoDifference
			c.Reasons = append(c.Reasons, fmt.Sprintf("shown alone, not among %d figures (make more runs, or name the figures "+
				"that matter)", len(tested)))
		}
	}
}

// withhold takes back every claim that rests on the requests that succeeded, where the groups' shares of failed
// requests differ beyond chance. Two tests look for that: one over the runs, which allows for runs that vary, and
// one over all requests, because a few runs can show nothing however much they fail. Either is enough: what is at
// stake is a claim, not an accusation.
func (rc *RunComparison) withhold(sides []*side, alpha float64) {
	var failed, total [2]int64
	var shares [2][]float64
	for i, s := range sides {
		for _, m := range s.of {
			failed[i], total[i] = failed[i]+m.Counts.Failed, total[i]+m.Counts.Total
			if v, _, ok := figureOf(m, failedShare); ok {
				shares[i] = append(shares[i], v)
			}
		}
	}
	if total[0] == 0 || total[1] == 0 {
		return
	}
	perRequest := fisher(failed[0], total[0], failed[1], total[1])
	perRun, _ := mannWhitney(shares[0], shares[1])
	if perRequest > alpha && perRun > alpha*(1+1e-9) {
		return
	}
	rc.Withheld = fmt.Sprintf("%d of %d requests of the base failed and %d of %d of the other, which is beyond chance "+
		"(p = %.2g over the requests, %.2g over the runs): latencies and rates are of the requests that did not fail, and "+
		"cannot be compared",
		failed[0], total[0], failed[1], total[1], perRequest, perRun)
	for i := range rc.Figures {
		c := &rc.Figures[i]
		if c.Figure == failedShare || c.Figure == "goodput.fraction" { // failures count in these
			continue
		}
		c.Claim = ClaimUnsupported
		c.Reasons = append(c.Reasons, "withheld: the shares of failed requests differ")
	}
}
