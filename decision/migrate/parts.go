// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
)

// part is nodes and workloads that a change connects, and no others: it can be made whatever becomes of the rest.
type part struct {
	nodes     []string
	workloads []string
}

// parts divides the difference between today's layout and another.
func (c *cluster) parts(to *layout.Cluster) (out []*part) {
	moved := map[string]map[string]bool{} // nodes by workload
	at := map[string]*part{}              // by node
	for _, ch := range layout.Diff(c.layout, to) {
		at[ch.Node] = &part{nodes: []string{ch.Node}}
		if len(ch.After) == 0 {
			continue
		}
		w := ch.After[0].Workload.Name
		if moved[w] == nil {
			moved[w] = map[string]bool{}
			for node := range c.runs[w] {
				moved[w][node] = true
			}
		}
		moved[w][ch.Node] = true
	}
	for _, w := range sortedKeys(moved) {
		joined := &part{workloads: []string{w}}
		for n := range moved[w] {
			switch p := at[n]; {
			case p == nil:
				joined.nodes = append(joined.nodes, n)
			case p != joined:
				joined.nodes, joined.workloads = append(joined.nodes, p.nodes...), append(joined.workloads, p.workloads...)
			}
			for _, n := range joined.nodes {
				at[n] = joined
			}
		}
	}
	for _, n := range sortedKeys(at) {
		if !slices.Contains(out, at[n]) {
			out = append(out, at[n])
			slices.Sort(at[n].nodes)
			slices.Sort(at[n].workloads)
		}
	}
	return out
}

// with is a layout with the nodes of a part as another has them.
func with(l *layout.Cluster, p *part, as *layout.Cluster) *layout.Cluster {
	for _, n := range p.nodes {
		l = l.WithoutNode(n)
	}
	for _, n := range p.nodes {
		l, _ = l.WithNode(*as.Node(n))
	}
	return l
}
