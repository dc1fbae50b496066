// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/simplex"
)

// wholeEps is the distance from a whole number within which a use of a column counts as that number.
const wholeEps = 1e-6

// itemCounts counts the demand for each profile.
type itemCounts [maxProfiles]int32

// coverProblem is an integer covering program: the fewest columns, repeated as often as need be, that take at least
// the demand. A column is one way to use one GPU: its number of each item.
type coverProblem struct {
	items   int
	columns []itemCounts
	demand  itemCounts
}

// coverSolution is the best solution that was found. It is optimal where its cost is its bound.
type coverSolution struct {
	times []int64 // of each column; nil where there is none
	cost  int64   // columns in all
	bound int64   // proven: no solution has fewer
}

// coverNode is a node of the branch-and-bound tree: bounds of how often columns are used.
type coverNode struct {
	bound     int64
	seq       int
	low, high []int32 // of each column; high < 0: no bound
	least     int64   // of all columns together
}

// after orders nodes: the one to take next, that of the lowest bound and then the youngest, comes last.
func (n *coverNode) after(m *coverNode) int {
	return cmp.Or(cmp.Compare(m.bound, n.bound), cmp.Compare(n.seq, m.seq))
}

// solve branches and bounds until the solution is proven optimal or so many relaxations are solved. Nodes are taken in
// the order of their bounds, so that the lowest bound that is left is a bound of them all.
func (p *coverProblem) solve(relaxations int) coverSolution {
	sol := coverSolution{cost: math.MaxInt64}
	var open []*coverNode
	add := func(n *coverNode) {
		at, _ := slices.BinarySearchFunc(open, n, (*coverNode).after)
		open = slices.Insert(open, at, n)
	}
	add(&coverNode{low: make([]int32, len(p.columns)), high: slices.Repeat([]int32{-1}, len(p.columns))})
	for seq := 1; len(open) > 0; relaxations-- {
		n := open[len(open)-1]
		if sol.bound = min(n.bound, sol.cost); sol.bound == sol.cost || relaxations <= 0 {
			return sol
		}
		open = open[:len(open)-1]
		x, ok := p.relax(n, &sol)
		if !ok || n.bound >= sol.cost {
			continue
		}
		total := 0.0
		for c, v := range x {
			total += v + float64(n.low[c])
		}
		if math.Abs(total-math.Round(total)) > wholeEps { // as many as the next whole number, whichever these are
			n.least = int64(math.Ceil(total))
			add(n)
			continue
		}
		c := mostFractional(x)
		if c < 0 {
			continue // relax has taken it
		}
		below := &coverNode{n.bound, seq, slices.Clone(n.low), slices.Clone(n.high), n.least}
		n.seq, n.low[c] = seq+1, n.low[c]+int32(math.Floor(x[c]))+1
		below.high[c] = n.low[c] - 1
		seq += 2
		add(below)
		add(n)
	}
	sol.bound = sol.cost
	return sol
}

// relax solves the linear relaxation of a node through its dual, raises the node's bound, and rounds the relaxation to
// a better solution where it can. x comes on top of the node's least uses.
func (p *coverProblem) relax(n *coverNode, sol *coverSolution) (x []float64, ok bool) {
	var bounded []int // columns
	for c, h := range n.high {
		if h >= 0 {
			bounded = append(bounded, c)
		}
	}
	atLeast := p.items + len(bounded)
	rows, rhs, obj := make([][]float64, len(p.columns)), make([]float64, len(p.columns)), make([]float64, atLeast+1)
	cells := make([]float64, (atLeast+1)*len(p.columns))
	rest, base := p.demand, int64(0)
	for c, col := range p.columns {
		rows[c], cells = cells[:atLeast+1], cells[atLeast+1:]
		for i := range p.items {
			rows[c][i] = float64(col[i])
			rest[i] = max(0, rest[i]-n.low[c]*col[i])
		}
		rows[c][atLeast], rhs[c] = 1, 1
		base += int64(n.low[c])
	}
	for i := range p.items {
		obj[i] = float64(rest[i])
	}
	for k, c := range bounded {
		rows[c][p.items+k], obj[p.items+k] = -1, -float64(n.high[c]-n.low[c])
	}
	obj[atLeast] = float64(max(0, n.least-base))
	weights := slices.Clone(obj)
	prices, x, ok := simplex.Maximize(rows, rhs, obj)
	if !ok {
		return nil, false
	}
	p.repair(prices, bounded)
	value := 0.0
	for i, w := range weights {
		value += w * prices[i]
	}
	// Rounding errors of the sum are allowed for.
	n.bound = max(n.bound, base+int64(math.Ceil(math.Max(0, value)-1e-7*math.Max(1, value*1e-3))))
	if n.bound < sol.cost {
		p.round(n, x, prices, sol)
	}
	return x, true
}

// repair scales the items' prices, which rounding may have made break a column's cost, so that their bound is proven.
func (p *coverProblem) repair(prices []float64, bounded []int) {
	limit := slices.Repeat([]float64{1 - prices[len(prices)-1]}, len(p.columns))
	for k, c := range bounded {
		limit[c] += prices[p.items+k]
	}
	scale := 1.0
	for c, col := range p.columns {
		sum := 0.0
		for i := range p.items {
			sum += prices[i] * float64(col[i])
		}
		if sum > limit[c] {
			scale = math.Min(scale, math.Max(0, limit[c])/sum)
		}
	}
	for i := range p.items {
		prices[i] *= scale
	}
}

// round rounds a relaxation down, and completes it by the columns that take most of the rest, by the items' prices.
// The columns' bounds don't matter: any solution counts.
func (p *coverProblem) round(n *coverNode, x, prices []float64, sol *coverSolution) {
	times, rest, cost := make([]int64, len(p.columns)), p.demand, int64(0)
	use := func(c int, k int64) {
		times[c] += k
		cost += k
		for i := range p.items {
			rest[i] = int32(max(0, int64(rest[i])-k*int64(p.columns[c][i])))
		}
	}
	for c, v := range x {
		use(c, int64(n.low[c])+int64(v+wholeEps))
	}
	for rest != (itemCounts{}) {
		best, most := 0, -1.0
		for c, col := range p.columns {
			worth := 0.0
			for i := range p.items {
				worth += (prices[i] + 1e-3) * float64(min(col[i], rest[i]))
			}
			if worth > most+wholeEps {
				best, most = c, worth
			}
		}
		use(best, 1)
	}
	if cost < sol.cost {
		sol.cost, sol.times = cost, times
	}
}

// mostFractional returns the column with the use farthest from whole, or -1.
func mostFractional(x []float64) int {
	best, distance := -1, wholeEps
	for c, v := range x {
		if d := math.Abs(v - math.Round(v)); d > distance {
			best, distance = c, d
		}
	}
	return best
}

// uses calls do with each column of a solution, with its items and how often in a row. Columns may take more than
// the demand; the last uses of one take the rest.
func (p *coverProblem) uses(sol coverSolution, do func(take itemCounts, times int64) error) error {
	rest := p.demand
	for c, left := range sol.times {
		for left > 0 {
			take, most := p.columns[c], left
			for i := range p.items {
				if take[i] = min(take[i], rest[i]); take[i] > 0 {
					most = min(most, int64(rest[i]/take[i]))
				}
			}
			if take == (itemCounts{}) {
				break
			}
			for i := range p.items {
				rest[i] -= take[i] * int32(most)
			}
			if err := do(take, most); err != nil {
				return err
			}
			left -= most
		}
	}
	return nil
}
