package mig

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/simplex"
)

// wholeEps is the distance from a whole number that a use of a column may have and still stand for that number.
const wholeEps = 1e-6

// itemCounts counts what is asked for of each profile, or of each size of compute instances.
type itemCounts [maxProfiles]int32

// coverProblem is an integer covering program: the fewest columns, repeated as often as need be, that take at least
// the demand. A column is one way to use one GPU: what it takes of each item.
type coverProblem struct {
	items   int
	columns []itemCounts
	demand  itemCounts
	limit   int64         // of columns in all; negative: no limit
	bounded []columnBound // only the relaxation heeds these
	least   int64         // columns that are used at least, in all; likewise
	budget  int           // search nodes
}

// columnBound says how often a column may be used.
type columnBound struct {
	column int
	most   int64
}

// prices are a solution of the relaxation's dual: what an item is worth, and
// what the limit, the bound of a column and the least number of columns cost.
type prices struct {
	item, bound  []float64
	limit, least float64
}

type coverSolution struct {
	times     []int64 // of each column
	cost      int64   // columns in all
	bound     int64   // proven: no solution has fewer
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

// solve returns the best solution found; ok is false when the limit rules every solution out. Branch and bound rounds
// each linear relaxation down and completes it by an exact search of what is left. The first almost always reaches the
// rounded-up bound.
func (p *coverProblem) solve() (sol coverSolution, ok bool) {
	sol.cost = math.MaxInt64
	p.branchAndBound(&sol, max(1, p.budget/relaxationNodes))
	sol.undecided = sol.times == nil && !sol.optimal
	return sol, sol.times != nil
}

// uses calls do with each column of a solution, with what it takes and how often in a row. Columns may take more than
// is asked for; the last uses of one take what is left.
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

// roundDown rounds uses of columns down and returns what is left of the demand and the limit, and the uses.
func (p *coverProblem) roundDown(x []float64) (rest itemCounts, limit, cost int64, times []int64) {
	rest, limit, times = p.demand, p.limit, make([]int64, len(p.columns))
	for c, v := range x {
		k := int64(v + wholeEps)
		if limit >= 0 {
			k = min(k, limit)
			limit -= k
		}
		times[c] = k
		cost += k
		for i := range p.items {
			rest[i] = int32(max(0, int64(rest[i])-k*int64(p.columns[c][i])))
		}
	}
	return rest, limit, cost, times
}

// relax solves the linear relaxation through its dual. It returns the prices and how often each column is used.
func (p *coverProblem) relax() (pr prices, x []float64, ok bool) {
	atLimit, atBound := p.items, p.items+1
	atLeast := atBound + len(p.bounded)
	n := atLeast + 1
	rows := make([][]float64, len(p.columns))
	rhs := make([]float64, len(p.columns))
	cells := make([]float64, n*len(p.columns))
	for c, col := range p.columns {
		rows[c] = cells[c*n : (c+1)*n]
		for i := range p.items {
			rows[c][i] = float64(col[i])
		}
		if p.limit >= 0 {
			rows[c][atLimit] = -1
		}
		rows[c][atLeast] = 1
		rhs[c] = 1
	}
	obj := make([]float64, n)
	for i := range p.items {
		obj[i] = float64(p.demand[i])
	}
	if p.limit >= 0 {
		obj[atLimit] = -float64(p.limit)
	}
	for k, b := range p.bounded {
		rows[b.column][atBound+k] = -1
		obj[atBound+k] = -float64(b.most)
	}
	obj[atLeast] = float64(p.least)
	v, x, ok := simplex.Maximize(rows, rhs, obj)
	if !ok {
		return prices{}, nil, false
	}
	pr = prices{item: v[:atLimit], limit: v[atLimit], bound: v[atBound:atLeast], least: v[atLeast]}
	p.repair(pr)
	return pr, x, true
}

// repair scales prices that rounding made break a column's cost, so that the bound they give is proven.
func (p *coverProblem) repair(pr prices) {
	slack := slices.Repeat([]float64{-pr.least}, len(p.columns))
	for k, b := range p.bounded {
		slack[b.column] += pr.bound[k]
	}
	scale := 1.0
	for c, col := range p.columns {
		sum := 0.0
		for i := range pr.item {
			sum += pr.item[i] * float64(col[i])
		}
		if limit := 1 + pr.limit + slack[c]; sum > limit {
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
		reduced[c] = 1 + pr.limit
		for i, y := range pr.item {
			reduced[c] -= y * float64(col[i])
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
func (s *coverSearch) run(rest itemCounts, limit, cost, incumbent, bound int64) {
	s.bestCost, s.bound = incumbent, bound
	if s.p.limit < 0 {
		s.visited = map[itemCounts]int64{}
	}
	s.branch(&rest, limit, cost, -1, 0)
}

func (s *coverSearch) branch(rest *itemCounts, limit, cost int64, lastItem, from int) {
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
	if s.budget--; s.budget < 0 || cost+ceilCost(s.dualBound(rest, limit)) >= s.bestCost {
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
		if col[item] == 0 || limit == 0 {
			continue
		}
		left := *rest
		for i := range s.p.items {
			left[i] = max(0, left[i]-col[i])
		}
		s.path = append(s.path, c)
		s.branch(&left, limit-min(max(limit, 0), 1), cost+1, item, k)
		s.path = s.path[:len(s.path)-1]
	}
}

// dualBound returns a lower bound of the number of columns that cover rest.
func (s *coverSearch) dualBound(rest *itemCounts, limit int64) float64 {
	v := 0.0
	for i, y := range s.prices.item {
		v += y * float64(rest[i])
	}
	if s.p.limit >= 0 {
		v -= s.prices.limit * float64(limit)
	}
	return v
}

// ceilCost rounds a bound up to whole columns, allowing for rounding errors of the sum.
func ceilCost(v float64) int64 {
	return int64(math.Ceil(math.Max(0, v) - 1e-7*math.Max(1, math.Abs(v)*1e-3)))
}
