// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
)

// random takes a node and a GPU by chance, the same for the same seed and names of the request and the node. It is the
// yardstick that anything must beat.
type random struct{ seed uint64 }

// Name is "random".
func (random) Name() string { return "random" }

// Score draws for the GPUs of a node.
func (p random) Score(o *placement.Option) float64 {
	return float64(p.draw(o.Request.Name, o.Node, fmt.Sprint(o.GPUs, o.Start)) >> 40)
}

// best draws among the nodes until one takes the request.
func (p random) best(c *layout.Cluster, r *placement.Request) (placement.Offer, bool) {
	type drawn struct {
		node *layout.Node
		by   uint64
	}
	var all []drawn
	for n := range c.Nodes() {
		all = append(all, drawn{n, p.draw(r.Name, n.Name)})
	}
	slices.SortFunc(all, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.node.Name, b.node.Name))
	})
	scorer := placement.NewScorer(p, nil)
	for _, d := range all {
		if o, why := scorer.Score(d.node, r); why.Verdict == filter.VerdictPass {
			return o, true
		}
	}
	return placement.Offer{}, false
}

func (p random) draw(names ...string) uint64 {
	h := fnv.New64a()
	var seed [8]byte
	for i := range seed {
		seed[i] = byte(p.seed >> (8 * i))
	}
	h.Write(seed[:])
	for _, name := range names {
		h.Write([]byte(name))
		h.Write([]byte{0})
	}
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	return x ^ x>>33
}
