package mig

import (
	"cmp"
	"math"
	"slices"
)

// boundNode is a node of the branch-and-bound tree: bounds of how often each column is used.
type boundNode struct {
	bound     int64
	seq       int
	low, high []int32 // of columns; high < 0: no bound
	least     int64   // of all columns together
	most      int64   // likewise; negative: no bound
}

func (n *boundNode) child(bound int64, seq int) *boundNode {
	return &boundNode{bound, seq, slices.Clone(n.low), slices.Clone(n.high), n.least, n.most}
}

// after orders nodes: the one to take next, that of the lowest bound and then the youngest, comes last.
func (n *boundNode) after(m *boundNode) int {
	return cmp.Or(cmp.Compare(m.bound, n.bound), cmp.Compare(n.seq, m.seq))
}

// branchAndBound improves sol until it is proven optimal or so many relaxations are solved. Parts of the solutions
// are taken in the order of their bounds, so that the lowest bound that is left is a bound of them all.
func (p *coverProblem) branchAndBound(sol *coverSolution, relaxations int) {
	open := []*boundNode{{bound: sol.bound, low: make([]int32, len(p.columns)),
		high: slices.Repeat([]int32{-1}, len(p.columns)), most: p.limit}}
	for seq := 1; len(open) > 0; {
		last := len(open) - 1
		n := open[last]
		if sol.bound = min(n.bound, sol.cost); sol.bound == sol.cost || relaxations <= 0 {
			break
		}
		open = open[:last]
		relaxations--
		x, ok := p.relaxNode(n, sol)
		if !ok || n.bound >= sol.cost {
			continue
		}
		gpus := 0.0
		for c, v := range x {
			gpus += v + float64(n.low[c])
		}
		// How many GPUs are used decides the cost, so that is settled first.
		whole, c := math.Abs(gpus-math.Round(gpus)) <= wholeEps, mostFractional(x)
		if whole && c < 0 {
			continue // relaxNode has taken it
		}
		below, above := n.child(n.bound, seq), n.child(n.bound, seq+1)
		seq += 2
		if !whole {
			below.most = int64(math.Floor(gpus))
			above.least = below.most + 1
		} else {
			below.high[c] = n.low[c] + int32(math.Floor(x[c]))
			above.low[c] = below.high[c] + 1
		}
		for _, child := range []*boundNode{below, above} {
			at, _ := slices.BinarySearchFunc(open, child, (*boundNode).after)
			open = slices.Insert(open, at, child)
		}
	}
	if len(open) == 0 {
		sol.bound = sol.cost
	}
	sol.optimal = sol.bound == sol.cost
}

// relaxNode solves the relaxation of a node, raises the node's bound, and tries to complete the relaxation to a
// better solution. x is what comes on top of the node's least uses.
func (p *coverProblem) relaxNode(n *boundNode, sol *coverSolution) (x []float64, ok bool) {
	sub := coverProblem{items: p.items, columns: p.columns, demand: p.demand, limit: n.most, least: n.least}
	var base int64
	for c, k := range n.low {
		base += int64(k)
		if sub.limit >= 0 {
			if sub.limit -= int64(k); sub.limit < 0 {
				return nil, false
			}
		}
		sub.least = max(0, sub.least-int64(k))
		for i := range p.items {
			sub.demand[i] = int32(max(0, int64(sub.demand[i])-int64(k)*int64(p.columns[c][i])))
		}
	}
	for c, h := range n.high {
		if h >= 0 {
			sub.bounded = append(sub.bounded, columnBound{c, int64(h - n.low[c])})
		}
	}
	prices, x, ok := sub.relax()
	if !ok {
		return nil, false
	}
	s := &coverSearch{p: &sub, prices: prices, budget: laterNodes}
	if n.seq == 0 {
		s.budget = firstNodes
	}
	value := s.dualBound(&sub.demand, sub.limit)
	for k, b := range sub.bounded {
		value -= prices.bound[k] * float64(b.most)
	}
	value += prices.least * float64(sub.least)
	n.bound = max(n.bound, base+ceilCost(value))
	if n.bound >= sol.cost {
		return x, true
	}
	// Completing ignores the bounds above: any solution counts.
	s.order = sub.columnOrder(prices)
	rest, limit, cost, times := sub.roundDown(x)
	if s.run(rest, limit, base+cost, sol.cost, n.bound); s.found {
		sol.cost = s.bestCost
		sol.times = times
		for c, k := range n.low {
			sol.times[c] += int64(k)
		}
		for _, c := range s.bestPath {
			sol.times[c]++
		}
	}
	return x, true
}

// mostFractional returns the column whose use is farthest from whole, or -1.
func mostFractional(x []float64) int {
	best, distance := -1, wholeEps
	for c, v := range x {
		if d := math.Abs(v - math.Round(v)); d > distance {
			best, distance = c, d
		}
	}
	return best
}
