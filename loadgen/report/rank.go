package report

import (
	"math"
	"slices"
)

// exactRanks is the number of values in all up to which the distribution of the
// rank sum is counted out.
const exactRanks = 60

// leastP is the smallest two-sided p-value that n and m untied values can give.
func leastP(n, m int) float64 {
	ways := 1.0
	for k := 1; k <= min(n, m); k++ {
		ways *= float64(n+m-min(n, m)+k) / float64(k)
	}
	return min(2/ways, 1)
}

// enoughSamples is the smallest n with leastP(n, n) at or below alpha.
func enoughSamples(alpha float64) int {
	n := 1
	for leastP(n, n) > alpha*(1+1e-9) {
		n++
	}
	return n
}

// mannWhitney returns the two-sided p-value of the U test: twice the smaller
// tail of the rank sum's distribution given the ties, at most 1. See Mann and
// Whitney, Ann. Math. Statist. 18 (1947).
//
// github.com/aclements/go-moremath, which benchstat uses, agrees to 1e-15 without
// ties. With ties its distribution is not symmetric, and it doubles one tail
// whichever is the smaller: {3} against {2, 2, 2} has p = 0.5, and 1.5 there.
func mannWhitney(a, b []float64) (p float64, exact bool) {
	ranks, sum, ties := doubledRanks(a, b)
	n, m := len(a), len(b)
	if n+m <= exactRanks {
		var lower, upper float64
		for s, p := range rankSums(ranks, n) {
			if s <= sum {
				lower += p
			}
			if s >= sum {
				upper += p
			}
		}
		return min(2*min(lower, upper), 1), true
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

// doubledRanks returns twice the mid-ranks of all values, in increasing order,
// the sum over a of them, and the tie term: the sum of t³-t over groups of ties.
func doubledRanks(a, b []float64) (ranks []int, sumA int, ties float64) {
	type value struct {
		v     float64
		fromA bool
	}
	all := make([]value, 0, len(a)+len(b))
	for _, v := range a {
		all = append(all, value{v, true})
	}
	for _, v := range b {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(x, y value) int {
		switch {
		case x.v < y.v:
			return -1
		case x.v > y.v:
			return 1
		}
		return 0
	})
	ranks = make([]int, len(all))
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j // twice the mean of the ranks i+1 ... j
			if all[k].fromA {
				sumA += ranks[k]
			}
		}
		i = j
	}
	return ranks, sumA, ties
}

// rankSums gives, for the sum S of n ranks drawn from ranks without replacement,
// P(S = s) for each s.
func rankSums(ranks []int, n int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	// ways[k][s] counts the choices of k ranks with sum s; float64 is exact up to
	// 2^53 and good to 1e-13 beyond.
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
