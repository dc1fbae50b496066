package migrate

import (
	"github.com/cotenant/cotenant/decision/layout"
)

// part is nodes and workloads that a change connects, and no others: it can be made whatever becomes of the rest.
type part struct {
	nodes     []string
	workloads []string
}

// parts divides the difference between today's layout and another.
func (c *cluster) parts(to *layout.Cluster) []*part {
	changes := layout.Diff(c.layout, to)
	moved := map[string]map[string]bool{} // nodes by workload
	root := map[string]string{}
	find := func(n string) string {
		if root[n] == "" {
			root[n] = n
		}
		for root[n] != n {
			root[n] = root[root[n]]
			n = root[n]
		}
		return n
	}
	for _, ch := range changes {
		find(ch.Node)
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
		first := ""
		for _, n := range sortedKeys(moved[w]) {
			if first == "" {
				first = n
			}
			root[find(n)] = find(first)
		}
	}
	by := map[string]*part{}
	var out []*part
	for _, n := range sortedKeys(root) {
		p := by[find(n)]
		if p == nil {
			p = &part{}
			by[find(n)], out = p, append(out, p)
		}
		p.nodes = append(p.nodes, n)
	}
	for _, w := range sortedKeys(moved) {
		for n := range moved[w] {
			p := by[find(n)]
			p.workloads = append(p.workloads, w)
			break
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
