// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"fmt"
	"slices"
)

// Match returns the layout to with the keys of from: replicas of a workload are interchangeable, so each takes the key
// of one in from, first on the same devices, then on the same node, then anywhere. Further replicas keep their own
// keys, or get a number if from uses the key.
func Match(from, to *Cluster) *Cluster {
	taken := map[string]bool{} // keys of from that have a replica in to
	next := map[string]string{}
	for pass := range 3 {
		at := func(n *Node, key string) string { // as closely as two replicas must agree to be taken for one
			as := n.Replica(key)
			text := fmt.Sprintf("%q %q ", as[0].Workload.Name, as[0].Workload.Tenant)
			if pass < 2 {
				text += n.Name
			}
			for k := 0; pass == 0 && k < len(as); k++ {
				text += fmt.Sprintf(" %d@%d", as[k].Device, as[k].Start)
			}
			return text
		}
		free := map[string][]string{}
		for n := range from.Nodes() {
			for key := range n.keys() {
				if !taken[key] {
					free[at(n, key)] = append(free[at(n, key)], key)
				}
			}
		}
		for _, keys := range free {
			slices.Sort(keys)
		}
		for _, n := range byName(to) {
			keys := slices.Sorted(n.keys())
			for _, key := range keys {
				if _, done := next[key]; done {
					continue
				}
				p := at(n, key)
				all := free[p]
				if len(all) == 0 {
					continue
				}
				i := max(0, slices.Index(all, key)) // its own, where that is among them
				next[key], taken[all[i]] = all[i], true
				free[p] = slices.Delete(slices.Clone(all), i, i+1)
			}
		}
	}
	used := map[string]bool{}
	for _, key := range next {
		used[key] = true
	}
	var nodes []Node
	for n := range to.Nodes() {
		copied := *n
		copied.Assignments = slices.Clone(n.Assignments)
		for i := range copied.Assignments {
			a := &copied.Assignments[i]
			key, ok := next[a.Key]
			if !ok {
				key = a.Key
				for k := 2; used[key] || from.Find(key) != nil; k++ {
					key = fmt.Sprintf("%s-%d", a.Key, k)
				}
				used[key], next[a.Key] = true, key
			}
			a.Key = key
		}
		nodes = append(nodes, copied)
	}
	out, _ := Observe(nodes)
	return out
}

// byName lists the nodes by their names.
func byName(c *Cluster) []*Node {
	nodes := slices.Collect(c.Nodes())
	slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}
