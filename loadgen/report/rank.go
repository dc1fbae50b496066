package report

import (
	"cmp"
	"math"
	"slices"
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
// github.com/aclements/go-moremath, which benchstat uses, agrees to 1e-15 without
// ties. With ties its distribution is not symmetric, and it doubles one tail
// whichever is the smaller: {3} against {2, 2, 2} has p = 0.5, and 1.5 there.
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
