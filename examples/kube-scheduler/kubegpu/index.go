package kubegpu

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// Index finds, among many nodes, those that may take a pod, without looking at
// each. It is not safe for concurrent use.
type Index struct {
	placer *placement.Placer
	nodes  *placement.Snapshot
	kinds  []*Node // one node of each offer
	number map[offer]int32
	kind   []int32 // by node
}

// offer has what of a node decides what a pod's claims come to there.
type offer struct {
	resource  v1.ResourceName
	mechanism sharing.Mechanism
	replicas  int
	memory    placement.Optional[sharing.Bytes]
	single    string
	onlyMIG   bool
}

// nothing is a node that takes no pod.
var nothing, _ = placement.NewSnapshot([]placement.Node{{Name: "nothing"}})

// NewIndex returns an index of n nodes that are yet to be set. policy says which are looked at first.
func NewIndex(policy placement.Policy, n int) *Index {
	return &Index{placer: placement.NewPlacer(policy, nil), nodes: placement.Join(slices.Repeat(
		[]*placement.Snapshot{nothing}, n)...), number: map[offer]int32{}, kind: make([]int32, n)}
}

// Set says what node i is and what runs there.
func (x *Index) Set(i int, s *State) {
	if s.base == nil {
		x.nodes = x.nodes.With(i, nothing)
		return
	}
	n := s.Node
	o := offer{n.Resource, n.Mechanism, n.Replicas, n.GPUMemory, n.Single, n.onlyMIG()}
	k, ok := x.number[o]
	if !ok {
		k = int32(len(x.kinds))
		x.number[o], x.kinds = k, append(x.kinds, n)
	}
	x.kind[i] = k
	x.nodes = x.nodes.With(i, s.base)
}

// Candidates returns the nodes to score for a pod, as [placement.Placer.Candidates]
// does, or all that may take it: no other node does.
func (x *Index) Candidates(p *Pod, all bool, allow func(node int) bool) (nodes []int32) {
	for k, n := range x.kinds {
		requests, v := p.Requests(n)
		if v.Ruling != gate.VerdictPass {
			continue
		}
		may := func(i int) bool { return x.kind[i] == int32(k) && allow(i) }
		some, every := x.placer.Candidates(x.nodes, requests[0], may)
		if all {
			some = slices.DeleteFunc(every, func(i int32) bool { return !may(int(i)) })
		}
		nodes = append(nodes, some...)
	}
	return nodes
}
