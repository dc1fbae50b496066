// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// How many nodes a pool needs is counted in one order, which placing (place.go) follows: nodes that one mechanism has
// for itself; replicas on whole GPUs, the largest first, each where it leaves least; then single GPUs. Replicas
// that must not be interrupted come before those that may.

func newSites(p *score.CompiledPool) sites {
	s := sites{pool: p, each: p.Pool.GPUsPerNode.Or(1), delivery: p.Pool.Delivery, spot: p.Spot.Count > 0,
		gpu: layout.GPUOf(p.Target().GPU().Name)}
	s.stated = !p.Pool.GPUsPerNode.IsZero()
	if s.delivery == sharing.DeliveryBare && !p.Pool.Standalone {
		s.delivery = sharing.DeliveryDevicePlugin
	}
	s.most = (p.Pool.Count + s.each - 1) / s.each
	for _, m := range sharing.Mechanisms() {
		rules := layout.RulesOf(s.deliveryOf(m))
		switch {
		case m == sharing.MechanismExclusive:
		case s.deliveryOf(m) != s.deliveryOf(sharing.MechanismExclusive):
			s.class[m] = classOwn
		case rules.OneOperatingMode && m != sharing.MechanismHAMi:
			s.class[m] = classOwn
		case layout.Sliced(m) || !rules.WholeNodes:
		case rules.Limit(m, s.gpu, 2) > 0:
			s.class[m] = classLimited
		default:
			s.class[m] = classTimeSliced
		}
		s.apart[m] = traits.Of(m).Trusting && !layout.Sliced(m) && rules.AnyDevice
	}
	return s
}

// deliveryOf returns the delivery of GPUs that run a mechanism: the pool's, or one to install in addition.
func (s *sites) deliveryOf(m sharing.Mechanism) sharing.Delivery {
	for _, d := range []sharing.Delivery{s.delivery, sharing.DeliveryBare, sharing.DeliveryHAMi,
		sharing.DeliveryVGPUManager} {
		if f := sharing.Delivers(d, m); f.Answer == sharing.AnswerYes ||
			d == s.delivery && f.Answer == sharing.AnswerUnknown {
			return d
		}
	}
	return s.delivery
}

// slots is the most tenants like a workload that a GPU takes by the rules of its delivery: each must have the memory
// that it needs, where the delivery limits it.
func (s *sites) slots(m sharing.Mechanism, need sharing.Bytes) int {
	rules := layout.RulesOf(s.deliveryOf(m))
	most := int(rules.MaxSlots(m, s.gpu))
	if need > 0 {
		most = min(most, int(s.gpu.Memory/need))
	}
	for most > 1 && rules.Limit(m, s.gpu, int32(most)) < need {
		most--
	}
	return most
}

// load counts a pool's GPUs in use as far as its number of nodes depends on them. Loads of different mechanisms add up.
type load struct {
	gpus, spot         int32
	nodes, spotNodes   int32 // that one mechanism has for itself
	spare, spareSpot   int32 // GPUs of these that instances may have
	single, singleSpot int32 // GPUs of classOpen but whole replicas
	*wholes                  // of the one mechanism that has them; nil = none
}

// wholes counts replicas on whole GPUs by size, interruptible ones apart.
type wholes struct {
	sizes, spotSizes []int32
	gpus, nodes      int32 // without spot: GPUs, and the nodes that they need at least
}

// swapped returns the load with one mechanism's part in place of another.
func (l *load) swapped(old, part *load) load {
	return load{l.gpus - old.gpus + part.gpus, l.spot - old.spot + part.spot, l.nodes - old.nodes + part.nodes,
		l.spotNodes - old.spotNodes + part.spotNodes, l.spare - old.spare + part.spare,
		l.spareSpot - old.spareSpot + part.spareSpot, l.single - old.single + part.single,
		l.singleSpot - old.singleSpot + part.singleSpot, l.wholes}
}

// bestFit puts replicas, the largest first, each on the node with least room for it, and returns the nodes that come
// to those there are. free counts nodes by their free GPUs, of which the last is an empty node's.
func bestFit(free, sizes []int32) (nodes int) {
	each := len(free) - 1
	for size := min(each, len(sizes)-1); size > 0; size-- {
		for left := sizes[size]; left > 0; {
			at := size
			for at <= each && free[at] == 0 {
				at++
			}
			if at > each {
				at = each
				free[at]++
				nodes++
			}
			fit := int32(at / size)
			if left < fit {
				free[at]--
				free[at-int(left)*size]++
				break
			}
			n := min(free[at], left/fit)
			free[at] -= n
			free[at-int(fit)*size] += n
			left -= n * fit
		}
	}
	return nodes
}

// fillUp gives single GPUs to nodes with free ones, the fullest first, and returns those that are left.
func fillUp(free []int32, n int) int {
	for at := 1; at < len(free) && n > 0; at++ {
		m := min(int(free[at]), n/at)
		free[at] -= int32(m)
		free[0] += int32(m)
		if n -= m * at; free[at] > 0 && n > 0 {
			free[at]--
			free[at-n]++
			return 0
		}
	}
	return n
}

// count returns the nodes that a load needs, and those of them whose tenants may all be interrupted. A pool that does
// not say how many GPUs a node has counts GPUs.
func (s *sites) count(l *load) (nodes, spot int) {
	if s.each == 1 {
		return int(l.gpus), int(l.spot)
	}
	var w wholes
	if l.wholes != nil {
		w = *l.wholes
	}
	if !s.spot || l.spot == 0 {
		each, open := int32(s.each), w.nodes
		if left := l.single - l.spare - (open*each - w.gpus); left > 0 {
			open += (left + each - 1) / each
		}
		return int(l.nodes + open), 0
	}
	free := make([]int32, s.each+1)
	single := func(n int, spare *int) (nodes int) {
		n = fillUp(free, n)
		taken := min(n, *spare)
		n, *spare = n-taken, *spare-taken
		nodes = (n + s.each - 1) / s.each
		free[s.each] += int32(nodes)
		fillUp(free, n)
		return nodes
	}
	spare := int(l.spare)
	firm := bestFit(free, w.sizes)
	firm += single(int(l.single), &spare)
	spare += int(l.spareSpot)
	cheap := bestFit(free, w.spotSizes)
	cheap += single(int(l.singleSpot), &spare)
	return int(l.nodes) + firm + cheap, int(l.spotNodes) + cheap
}

// fits reports whether the pool has the nodes that a load needs.
func (s *sites) fits(l *load) bool {
	n, _ := s.count(l)
	return int(l.gpus) <= s.pool.Pool.Count && n <= s.most
}

// alike counts GPUs that any of their nodes may have together.
func (l *load) alike(s *sites, class siteClass, firm, spot int32) {
	l.gpus, l.spot = firm+spot, spot
	if class == classOpen {
		l.single, l.singleSpot = firm, spot
		return
	}
	each := int32(s.each)
	own := (firm + each - 1) / each
	l.nodes = max(own, (firm+spot+each-1)/each)
	l.spotNodes = l.nodes - own
	if class == classTimeSliced {
		l.spare = max(0, own*each-firm-spot)
		l.spareSpot = l.nodes*each - firm - spot - l.spare
	}
}

// span is a GPU of a mechanism that has nodes of its own: the numbers of slots that it could have (no fewer than its
// tenants, and so few that the memory limit is enough for each), and its tenants' trust domain.
type span struct {
	low, high int32
	spot      bool
	at        int32 // index of its GPU
	domain    int32 // of trust
}

// common returns the least and the largest number of slots that all GPUs could have; there is none where low > high.
func common(spans []span) (low, high int32) {
	high = math.MaxInt32
	for _, s := range spans {
		low, high = max(low, s.low), min(high, s.high)
	}
	return low, high
}

// byDomain divides GPUs by their trust domains, each of which has nodes of its own; spot ones come last.
func byDomain(spans []span) (out [][]span) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), spotLast(a, b))
	})
	for n := 0; n < len(spans); {
		first := n
		for n < len(spans) && spans[n].domain == spans[first].domain {
			n++
		}
		out = append(out, spans[first:n])
	}
	return out
}

func spotLast(a, b span) int {
	if a.spot == b.spot {
		return 0
	} else if b.spot {
		return -1
	}
	return 1
}

// own divides GPUs of a class that has nodes of its own among these. Those that may be together, and under limits have
// a number of slots in common, share a node.
func (s *sites) own(class siteClass, spans []span, visit func(node []span)) {
	for _, part := range byDomain(spans) {
		if low, high := common(part); class == classLimited && low > high {
			s.cover(part, visit)
			continue
		}
		for node := range slices.Chunk(part, s.each) {
			visit(node)
		}
	}
}

// onOwn counts GPUs on nodes of their own.
func (l *load) onOwn(s *sites, class siteClass, spans []span) {
	for i := range spans {
		if l.gpus++; spans[i].spot {
			l.spot++
		}
	}
	s.own(class, spans, func(node []span) {
		spare := int32(s.each - len(node))
		if class != classTimeSliced {
			spare = 0
		}
		l.nodes++
		if node[0].spot {
			l.spotNodes, l.spareSpot = l.spotNodes+1, l.spareSpot+spare
		} else {
			l.spare += spare
		}
	})
}

// cover divides GPUs among the fewest nodes: the one that takes fewest slots first, with those that can have as many.
// A node of spot GPUs has no others.
func (s *sites) cover(spans []span, visit func(node []span)) {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(spotLast(a, b), cmp.Compare(a.high, b.high), cmp.Compare(b.low, a.low), cmp.Compare(a.at, b.at))
	})
	for len(spans) > 0 {
		slots, n := spans[0].high, 1
		for k := 1; k < len(spans) && n < s.each && spans[k].spot == spans[0].spot; k++ {
			if spans[k].low <= slots {
				one := spans[k]
				copy(spans[n+1:k+1], spans[n:k])
				spans[n] = one
				n++
			}
		}
		visit(spans[:n])
		spans = spans[n:]
	}
}

// span returns a GPU's span: its upper end is the least of its tenants' limits.
func (g *GPU) span(at int) span {
	return span{int32(max(2, g.n)), int32(min(g.limit, mostTogether)), g.Spot, int32(at), int32(g.domain)}
}

func spans(gpus []GPU) []span {
	out := make([]span, len(gpus))
	for i := range gpus {
		out[i] = gpus[i].span(i)
	}
	return out
}
