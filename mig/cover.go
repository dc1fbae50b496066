package mig

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/simplex"
)

// wholeEps is the distance from a whole number that a use of a column may have and still stand for that number.
const wholeEps = 1e-6

const maxItems = 32 // bound of the distinct profiles of one demand

type itemCounts [maxItems]int32

// A column is one way to use one GPU of a bin: what it takes of each item.
type column struct {
	take itemCounts
	cost int64
	bin  int
}

// coverProblem is an integer covering program: the cheapest multiset of columns that
// takes at least the demand, with no more columns of a bin than its limit (negative: no limit).
type coverProblem struct {
	items   int
	columns []column
	demand  itemCounts
	limits  []int64
	bounded []columnBound // only the relaxation heeds these
	least   []int64       // columns of a bin that are used at least; likewise
	budget  int           // search nodes
}

// columnBound says how often a column may be used.
type columnBound struct {
	column int
	most   int64
}

// prices are a solution of the relaxation's dual: what an item is worth, and
// what the limit of a bin and the bound of a column cost.
type prices struct {
	item, bin, bound, least []float64
}

type coverSolution struct {
	times     []int64 // of each column
	cost      int64
	bound     int64 // proven: no solution costs less
	optimal   bool
	undecided bool // neither a solution nor a proof that there is none was found
}

// Shares of the search: how many of its nodes a relaxation counts for, and how many may complete the first
// relaxation and a later one.
const (
	relaxationNodes = 100
	firstNodes      = 20_000
	laterNodes      = 300
)

// solve returns the best solution found; ok is false when the limits rule every solution out. Branch and bound rounds
// each linear relaxation down and completes it by an exact search of what is left. With bins that cost the same the
// first almost always reaches the rounded-up bound.
func (p *coverProblem) solve() (sol coverSolution, ok bool) {
	sol.cost = math.MaxInt64
	p.branchAndBound(&sol, max(1, p.budget/relaxationNodes))
	sol.undecided = sol.times == nil && !sol.optimal
	return sol, sol.times != nil
}

// uses calls do with each column of a solution, with what it takes and how often in a row. Columns may take more than
// is asked for; the last uses of one take what is left.
func (p *coverProblem) uses(sol coverSolution, do func(c *column, take itemCounts, times int64) error) error {
	rest := p.demand
	for c, left := range sol.times {
		for left > 0 {
			take, most := p.columns[c].take, left
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
			if err := do(&p.columns[c], take, most); err != nil {
				return err
			}
			left -= most
		}
	}
	return nil
}

// roundDown rounds uses of columns down and returns what is left of the demand and the limits, the cost, and the uses.
func (p *coverProblem) roundDown(x []float64) (rest itemCounts, limits []int64, cost int64, times []int64) {
	rest, limits, times = p.demand, slices.Clone(p.limits), make([]int64, len(p.columns))
	for c, v := range x {
		col := &p.columns[c]
		k := int64(v + wholeEps)
		if limits[col.bin] >= 0 {
			k = min(k, limits[col.bin])
			limits[col.bin] -= k
		}
		times[c] = k
		cost += k * col.cost
		for i := range p.items {
			rest[i] = int32(max(0, int64(rest[i])-k*int64(col.take[i])))
		}
	}
	return rest, limits, cost, times
}

// relax solves the linear relaxation through its dual. It returns the prices and how often each column is used.
func (p *coverProblem) relax() (pr prices, x []float64, ok bool) {
	atBin, atBound := p.items, p.items+len(p.limits)
	atLeast := atBound + len(p.bounded)
	n := atLeast + len(p.least)
	rows := make([][]float64, len(p.columns))
	rhs := make([]float64, len(p.columns))
	cells := make([]float64, n*len(p.columns))
	for c, col := range p.columns {
		rows[c] = cells[c*n : (c+1)*n]
		for i := range p.items {
			rows[c][i] = float64(col.take[i])
		}
		if p.limits[col.bin] >= 0 {
			rows[c][atBin+col.bin] = -1
		}
		if p.least != nil {
			rows[c][atLeast+col.bin] = 1
		}
		rhs[c] = float64(col.cost)
	}
	obj := make([]float64, n)
	for i := range p.items {
		obj[i] = float64(p.demand[i])
	}
	for b, l := range p.limits {
		if l >= 0 {
			obj[atBin+b] = -float64(l)
		}
	}
	for k, b := range p.bounded {
		rows[b.column][atBound+k] = -1
		obj[atBound+k] = -float64(b.most)
	}
	for b, l := range p.least {
		obj[atLeast+b] = float64(l)
	}
	v, x, ok := simplex.Maximize(rows, rhs, obj)
	if !ok {
		return prices{}, nil, false
	}
	pr = prices{item: v[:atBin], bin: v[atBin:atBound], bound: v[atBound:atLeast], least: v[atLeast:]}
	p.repair(pr)
	return pr, x, true
}

// repair scales prices that rounding made break a column's cost, so that the bound they give is proven.
func (p *coverProblem) repair(pr prices) {
	slack := make([]float64, len(p.columns))
	for k, b := range p.bounded {
		slack[b.column] += pr.bound[k]
	}
	for c := range p.columns {
		if p.least != nil {
			slack[c] -= pr.least[p.columns[c].bin]
		}
	}
	scale := 1.0
	for c, col := range p.columns {
		sum := 0.0
		for i := range pr.item {
			sum += pr.item[i] * float64(col.take[i])
		}
		if limit := float64(col.cost) + pr.bin[col.bin] + slack[c]; sum > limit {
			scale = math.Min(scale, math.Max(0, limit)/sum)
		}
	}
	for i := range pr.item {
		pr.item[i] *= scale
	}
}

// columnOrder returns the columns in the order of their reduced cost.
func (p *coverProblem) columnOrder(pr prices) []int {
	reduced := make([]float64, len(p.columns))
	order := make([]int, len(p.columns))
	for c, col := range p.columns {
		order[c] = c
		reduced[c] = float64(col.cost) + pr.bin[col.bin]
		for i, y := range pr.item {
			reduced[c] -= y * float64(col.take[i])
		}
		reduced[c] = math.Round(reduced[c] * 1e9)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(reduced[a], reduced[b]) })
	return order
}

// coverSearch is an exact depth-first search with the relaxation's prices as bound.
type coverSearch struct {
	p        *coverProblem
	prices   prices
	order    []int
	budget   int
	bound    int64
	bestCost int64
	bestPath []int
	path     []int
	found    bool
	visited  map[itemCounts]int64
}

// run searches rest, within the budget; found says whether something cheaper than incumbent came up.
func (s *coverSearch) run(rest itemCounts, limits []int64, cost, incumbent, bound int64) {
	s.bestCost, s.bound = incumbent, bound
	if !slices.ContainsFunc(s.p.limits, func(l int64) bool { return l >= 0 }) {
		s.visited = map[itemCounts]int64{}
	}
	s.branch(&rest, limits, cost, -1, 0)
}

func (s *coverSearch) branch(rest *itemCounts, limits []int64, cost int64, lastItem, from int) {
	item := 0
	for item < s.p.items && rest[item] <= 0 {
		item++
	}
	if item == s.p.items {
		if cost < s.bestCost {
			s.bestCost, s.found = cost, true
			s.bestPath = append(s.bestPath[:0], s.path...)
		}
		return
	}
	if s.budget--; s.budget < 0 || cost+ceilCost(s.dualBound(rest, limits)) >= s.bestCost {
		return
	}
	if item != lastItem {
		from = 0
		if seen, ok := s.visited[*rest]; ok && seen <= cost {
			return
		}
		if s.visited != nil {
			s.visited[*rest] = cost
		}
	}
	for k := from; k < len(s.order) && s.budget >= 0 && s.bestCost > s.bound; k++ {
		c := s.order[k]
		col := &s.p.columns[c]
		if col.take[item] == 0 || limits[col.bin] == 0 {
			continue
		}
		left := *rest
		for i := range s.p.items {
			left[i] = max(0, left[i]-col.take[i])
		}
		if limits[col.bin] > 0 {
			limits[col.bin]--
		}
		s.path = append(s.path, c)
		s.branch(&left, limits, cost+col.cost, item, k)
		s.path = s.path[:len(s.path)-1]
		if s.p.limits[col.bin] >= 0 {
			limits[col.bin]++
		}
	}
}

// dualBound returns a lower bound of the cost of covering rest.
func (s *coverSearch) dualBound(rest *itemCounts, limits []int64) float64 {
	v := 0.0
	for i, y := range s.prices.item {
		v += y * float64(rest[i])
	}
	for b, l := range limits {
		if s.p.limits[b] >= 0 {
			v -= s.prices.bin[b] * float64(l)
		}
	}
	return v
}

// ceilCost rounds a bound up to whole cost units, allowing for rounding errors of the sum.
func ceilCost(v float64) int64 {
	return int64(math.Ceil(math.Max(0, v) - 1e-7*math.Max(1, math.Abs(v)*1e-3)))
}
