package mig

import (
	"cmp"
	"math"
	"slices"
)

// maxItems bounds the distinct profiles of one demand.
const maxItems = 32

type itemCounts [maxItems]int32

// A column is one way to use one GPU of a bin: what it takes of each item.
type column struct {
	take itemCounts
	cost int64
	bin  int
}

// coverProblem asks for the cheapest multiset of columns that takes at least
// the demand, with no more columns of a bin than its limit (negative: no limit).
type coverProblem struct {
	items   int
	columns []column
	demand  itemCounts
	limits  []int64
	budget  int // search nodes
}

type coverSolution struct {
	times   []int64 // of each column
	cost    int64
	bound   int64 // proven: no solution costs less
	optimal bool
}

// solve returns the best solution found; ok is false when the limits rule every
// solution out. It rounds the linear relaxation down and completes it by an
// exact search of what is left. The columns of a covering problem like this
// almost always admit the rounded-up bound; where they don't, more and more of
// the relaxation is given back to the search.
func (p *coverProblem) solve() (sol coverSolution, ok bool) {
	y, z, x, ok := p.relax()
	if !ok {
		return coverSolution{}, false
	}
	s := &coverSearch{p: p, y: y, z: z, order: p.columnOrder(y, z), budget: p.budget}
	sol.bound = s.ceil(s.dualBound(&p.demand, p.limits))
	sol.cost = math.MaxInt64
	for back := 0; ; back = max(1, 2*back) {
		base := make([]int64, len(p.columns))
		whole := true // nothing of the relaxation is kept
		var baseCost int64
		rest, limits := p.demand, slices.Clone(p.limits)
		for c, v := range x {
			k := max(0, int64(v+lpEps*10)-int64(back))
			if l := limits[p.columns[c].bin]; l >= 0 {
				k = min(k, l)
			}
			base[c] = k
			whole = whole && k == 0
			baseCost += k * p.columns[c].cost
			if b := p.columns[c].bin; limits[b] >= 0 {
				limits[b] -= k
			}
			for i := range p.items {
				rest[i] = int32(max(0, int64(rest[i])-k*int64(p.columns[c].take[i])))
			}
		}
		exact := s.run(rest, limits, baseCost, sol.cost, sol.bound)
		if s.found {
			sol.cost, sol.times = s.bestCost, base
			for _, c := range s.bestPath {
				sol.times[c]++
			}
		}
		switch {
		case sol.cost == sol.bound, whole && exact:
			sol.optimal = sol.times != nil
			if sol.optimal {
				sol.bound = sol.cost
			}
			return sol, sol.times != nil
		case whole, s.budget <= 0:
			if sol.times == nil {
				sol.times, sol.cost = p.greedy()
			}
			return sol, sol.times != nil
		}
	}
}

// relax solves the linear relaxation through its dual: a price y for each item
// and z for each limited bin, and how often x each column is used.
func (p *coverProblem) relax() (y, z, x []float64, ok bool) {
	n := p.items + len(p.limits)
	rows := make([][]float64, len(p.columns))
	rhs := make([]float64, len(p.columns))
	cells := make([]float64, n*len(p.columns))
	for c, col := range p.columns {
		rows[c] = cells[c*n : (c+1)*n]
		for i := range p.items {
			rows[c][i] = float64(col.take[i])
		}
		if p.limits[col.bin] >= 0 {
			rows[c][p.items+col.bin] = -1
		}
		rhs[c] = float64(col.cost)
	}
	obj := make([]float64, n)
	for i := range p.items {
		obj[i] = float64(p.demand[i])
	}
	for b, l := range p.limits {
		if l >= 0 {
			obj[p.items+b] = -float64(l)
		}
	}
	v, x, ok := maximize(rows, rhs, obj)
	if !ok {
		return nil, nil, nil, false
	}
	y, z = v[:p.items], v[p.items:]
	p.repair(y, z)
	return y, z, x, true
}

// repair scales prices that rounding made break a column's cost, so that the
// bound they give is proven.
func (p *coverProblem) repair(y, z []float64) {
	scale := 1.0
	for _, col := range p.columns {
		sum := 0.0
		for i := range y {
			sum += y[i] * float64(col.take[i])
		}
		limit := float64(col.cost) + z[col.bin]
		if sum > limit && sum > 0 {
			scale = math.Min(scale, limit/sum)
		}
	}
	if scale < 1 {
		for i := range y {
			y[i] *= scale
		}
	}
}

// columnOrder returns the columns in the order of their reduced cost.
func (p *coverProblem) columnOrder(y, z []float64) []int {
	reduced := make([]float64, len(p.columns))
	order := make([]int, len(p.columns))
	for c, col := range p.columns {
		order[c] = c
		reduced[c] = float64(col.cost) + z[col.bin]
		for i := range y {
			reduced[c] -= y[i] * float64(col.take[i])
		}
		reduced[c] = math.Round(reduced[c] * 1e9)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(reduced[a], reduced[b]) })
	return order
}

// greedy is the answer of last resort: the first column of the order that takes
// most, again and again.
func (p *coverProblem) greedy() (times []int64, cost int64) {
	times = make([]int64, len(p.columns))
	rest, limits := p.demand, slices.Clone(p.limits)
	for rest != (itemCounts{}) {
		best, most := -1, int32(0)
		for c, col := range p.columns {
			if limits[col.bin] == 0 {
				continue
			}
			taken := int32(0)
			for i := range p.items {
				taken += min(col.take[i], rest[i])
			}
			if taken > most {
				best, most = c, taken
			}
		}
		if best < 0 {
			return nil, math.MaxInt64
		}
		col := &p.columns[best]
		times[best]++
		cost += col.cost
		if limits[col.bin] > 0 {
			limits[col.bin]--
		}
		for i := range p.items {
			rest[i] = max(0, rest[i]-col.take[i])
		}
	}
	return times, cost
}

// coverSearch is an exact depth-first search with the relaxation's prices as
// bound.
type coverSearch struct {
	p        *coverProblem
	y, z     []float64
	order    []int
	budget   int
	bound    int64
	bestCost int64
	bestPath []int
	path     []int
	found    bool
	visited  map[itemCounts]int64
}

// run searches rest. It reports whether the search was complete: then nothing
// with this base costs less than bestCost. found says whether something cheaper
// than incumbent came up.
func (s *coverSearch) run(rest itemCounts, limits []int64, cost, incumbent, bound int64) bool {
	s.bestCost, s.bound, s.found, s.path = incumbent, bound, false, s.path[:0]
	s.visited = nil
	if !slices.ContainsFunc(s.p.limits, func(l int64) bool { return l >= 0 }) {
		s.visited = map[itemCounts]int64{}
	}
	return s.branch(&rest, limits, cost, -1, 0)
}

func (s *coverSearch) branch(rest *itemCounts, limits []int64, cost int64, lastItem, from int) bool {
	item := 0
	for item < s.p.items && rest[item] <= 0 {
		item++
	}
	if item == s.p.items {
		if cost < s.bestCost {
			s.bestCost, s.found = cost, true
			s.bestPath = append(s.bestPath[:0], s.path...)
		}
		return true
	}
	if cost+s.ceil(s.dualBound(rest, limits)) >= s.bestCost {
		return true
	}
	if s.budget--; s.budget < 0 {
		return false
	}
	if item != lastItem {
		from = 0
		if seen, ok := s.visited[*rest]; ok && seen <= cost {
			return true
		}
		if s.visited != nil {
			s.visited[*rest] = cost
		}
	}
	complete := true
	for k := from; k < len(s.order); k++ {
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
		ok := s.branch(&left, limits, cost+col.cost, item, k)
		s.path = s.path[:len(s.path)-1]
		if s.p.limits[col.bin] >= 0 {
			limits[col.bin]++
		}
		complete = complete && ok
		if s.bestCost == s.bound {
			return true
		}
		if s.budget < 0 {
			return false
		}
	}
	return complete
}

// dualBound is what covering rest costs at least.
func (s *coverSearch) dualBound(rest *itemCounts, limits []int64) float64 {
	v := 0.0
	for i, y := range s.y {
		v += y * float64(rest[i])
	}
	for b, l := range limits {
		if s.p.limits[b] >= 0 {
			v -= s.z[b] * float64(l)
		}
	}
	return v
}

// ceil rounds a bound up to whole cost units, allowing for rounding errors of
// the sum.
func (s *coverSearch) ceil(v float64) int64 {
	return int64(math.Ceil(math.Max(0, v) - 1e-7*math.Max(1, math.Abs(v)*1e-3)))
}
