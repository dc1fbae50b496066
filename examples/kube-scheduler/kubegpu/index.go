// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// scoreTie is the difference up to which scores are equal: the rounding error of
// adding the same numbers in another order.
const scoreTie = 1e-9

// Best returns which of some nodes a pod goes to: the index of the highest score,
// and among equal ones of the first name; -1 of none.
func Best(names []string, scores []float64) int {
	best := -1
	for i, s := range scores {
		if best < 0 || s > scores[best]+scoreTie || s >= scores[best]-scoreTie && names[i] < names[best] {
			best = i
		}
	}
	return best
}

// Index finds, among many nodes, those that may take a pod, without looking at each. It is not safe for concurrent use.
type Index struct {
	placer *placement.Placer
	nodes  *layout.Cluster
	names  []string // by the caller's number of a node; empty where it is not in nodes
	kinds  []*Node  // one node of each offer
	number map[offer]int32
	at     []place // by position in nodes
}

// place is a node of the caller and its offer.
type place struct{ node, kind int32 }

// offer holds the properties of a node that determine the requests of a pod's claims there.
type offer struct {
	resource  string
	mechanism sharing.Mechanism
	replicas  int
	memory    sharing.Bytes
	single    string
	onlyMIG   bool
}

// NewIndex returns an index of n nodes that are yet to be set. policy says which are looked at first.
func NewIndex(policy placement.Policy, n int) *Index {
	return &Index{placer: placement.NewPlacer(placement.NewScorer(policy, nil)), nodes: &layout.Cluster{},
		names: make([]string, n), number: map[offer]int32{}}
}

// Set sets node i and its pods.
func (x *Index) Set(i int, s *State) {
	if s.cluster == nil || s.Node.Name != x.names[i] {
		x.nodes = x.nodes.WithoutNode(x.names[i])
	}
	if x.names[i] = ""; s.cluster == nil {
		return
	}
	n := s.Node
	o := offer{n.Resource, n.Mechanism, n.Replicas, n.GPU.Memory, n.Single, n.onlyMIG()}
	k, ok := x.number[o]
	if !ok {
		k = int32(len(x.kinds))
		x.number[o], x.kinds = k, append(x.kinds, n)
	}
	x.names[i] = n.Name
	before := x.nodes
	x.nodes, _ = before.WithNode(*s.cluster.At(0))
	for at := range x.nodes.Changed(before) {
		for len(x.at) <= at {
			x.at = append(x.at, place{})
		}
		x.at[at] = place{int32(i), k}
	}
}

// Candidates returns the nodes to score for a pod, as [placement.Placer.Candidates]
// does, or all that may take it: no other node does.
func (x *Index) Candidates(p *Pod, all bool, allow func(node int) bool) (nodes []int32) {
	for k, n := range x.kinds {
		requests, _, v := p.requests(n)
		if v.Ruling != filter.VerdictPass {
			continue
		}
		may := func(at int) bool { return x.at[at].kind == int32(k) && allow(int(x.at[at].node)) }
		some, every := x.placer.Candidates(x.nodes, requests[0], may)
		if all {
			some = slices.DeleteFunc(every, func(i int32) bool { return !may(int(i)) })
		}
		for _, at := range some {
			nodes = append(nodes, x.at[at].node)
		}
	}
	return nodes
}
