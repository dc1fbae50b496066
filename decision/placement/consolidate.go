// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// Move is the move of a replica to another place.
type Move struct {
	Key, From string
	Before    []layout.Assignment
	To        Placement
}

// The search for moves is bounded: nodes, those with most left first, and sets of replicas on a node.
const roomyNodes, maxSets = 64, 2000

// Consolidate finds the fewest moves of replicas, at most `most`, that make room for a request, and of those the ones
// that the policy scores best. movable selects the replicas that may move, by one of their assignments; nil = all. It
// returns the layout after the moves with the request assigned; carry out the moves first, in their order. If the
// request already fits, nothing moves. Errors are those of Place.
func (p *Placer) Consolidate(c *layout.Cluster, r *Request, most int,
	movable func(n *layout.Node, a *layout.Assignment) bool) (*layout.Cluster, []Move, Placement, error) {
	next, placed, err := p.Place(c, r)
	if _, full := err.(*UnplacedError); !full { //nolint:errorlint // Place returns it as it is
		return next, nil, placed, err
	}
	type found struct {
		layout *layout.Cluster
		moves  []Move
		placed Placement
		score  float64
	}
	for moves := 1; moves <= most; moves++ {
		var best *found
		for _, n := range p.roomy(c, r, roomyNodes) {
			tried := 0
			eachSet(mayMove(n, r, movable), moves, func(keys []string) bool {
				tried++
				freed := without(c, keys)
				o, ok := p.scorer.score(freed.Node(n.Name), r, false)
				got := found{score: o.Score}
				var err error
				if got.layout, got.placed, err = p.scorer.Assign(freed, r, o); !ok || err != nil {
					return tried < maxSets
				}
				for _, key := range keys {
					q := moved(n, key)
					o, ok := p.Best(got.layout, q)
					if !ok {
						return tried < maxSets
					}
					m := Move{Key: key, From: n.Name, Before: n.Replica(key)}
					if got.layout, m.To, err = p.scorer.Assign(got.layout, q, o); err != nil {
						return tried < maxSets
					}
					got.moves = append(got.moves, m)
					got.score += o.Score - p.scorer.present(c, n, q, m.Before)
				}
				if best == nil || got.score > best.score+tie {
					best = &got
				}
				return tried < maxSets
			})
		}
		if best != nil {
			return best.layout, best.moves, best.placed, nil
		}
	}
	return nil, nil, Placement{}, err
}

// present is the policy's score of the place that a replica has on a node.
func (s *Scorer) present(c *layout.Cluster, n *layout.Node, r *Request, at []layout.Assignment) float64 {
	without, _ := c.Release(at[0].Key)
	before, after := ViewOf(without.Node(n.Name)), ViewOf(n)
	o := Option{Request: r, Node: n.Name, Before: &before, After: &after, Start: -1}
	for i := range at {
		if a := &at[i]; a.Device >= 0 && a.Device < MaxGPUs {
			o.GPUs = append(o.GPUs, uint8(a.Device))
			if a.Profile != nil {
				o.Start = int(a.Start)
			}
		}
	}
	return s.Policy.Score(&o)
}

// roomy lists the nodes that a request may fit once others leave, those with most left first.
func (p *Placer) roomy(c *layout.Cluster, r *Request, most int) []*layout.Node {
	type room struct {
		node *layout.Node
		free float64
	}
	var all []room
	for n := range c.Nodes() {
		scope := codes.Words[p.scorer.Filter(n, r).Code].Scope
		if len(n.Assignments) > 0 && scope != codes.Kind && n.Closed == "" {
			v := ViewOf(n)
			all = append(all, room{n, v.freeMilli()})
		}
	}
	slices.SortStableFunc(all, func(a, b room) int { return cmp.Compare(b.free, a.free) })
	var out []*layout.Node
	for _, n := range all[:min(most, len(all))] {
		out = append(out, n.node)
	}
	return out
}

// mayMove lists the replicas of a node whose place a request could use and that may move.
func mayMove(n *layout.Node, r *Request, movable func(n *layout.Node, a *layout.Assignment) bool) (keys []string) {
	for i := range n.Assignments {
		a := &n.Assignments[i]
		if a.Device == layout.UnknownDevice || slices.Contains(keys, a.Key) || a.Device < 0 && r.GPUs > 0 &&
			r.CPUMilli <= n.Free().CPUMilli && r.Memory <= n.Free().Memory {
			continue
		}
		if movable != nil && !movable(n, a) {
			continue
		}
		if q := moved(n, a.Key); q != nil && q.Validate() == nil {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// moved returns the request for a node's replica elsewhere: for its present share, on a GPU of the same model under the
// same mechanism. nil is one that holds unequal shares of several GPUs.
func moved(n *layout.Node, key string) *Request {
	as := n.Replica(key)
	q := &Request{Name: key, Workload: as[0].Workload}
	for i := range as {
		a := &as[i]
		q.CPUMilli, q.Memory = q.CPUMilli+int64(a.CPUMilli), q.Memory+a.HostMemory
		if a.Device < 0 {
			continue
		}
		d := &n.Devices[a.Device]
		if q.GPUs++; q.GPUs > 1 && (a.Profile != nil || int(a.Compute) != q.Milli || a.Memory != q.GPUMemory) {
			return nil
		}
		q.Milli, q.GPUMemory, q.Mechanisms = int(a.Compute), a.Memory, []sharing.Mechanism{d.Mode}
		if d.GPU != nil {
			q.Models = []string{d.GPU.Name}
		}
		if a.Profile != nil {
			q.Profile, q.Milli = a.Profile.Name, 0
		}
		if d.Mode == sharing.MechanismExclusive {
			q.Milli = 1000
		} else if a.Profile == nil {
			q.Busy = int(a.Busy)
		}
	}
	return q
}
