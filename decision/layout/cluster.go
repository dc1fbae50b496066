// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

const chunkSize = 32

// Cluster is a number of nodes with their assignments. It is immutable and safe for concurrent use: every change
// returns a new one that shares all nodes except the changed one. The zero Cluster has no nodes.
//
// Each node has a fixed position; that of a removed node is empty until another node takes it.
type Cluster struct {
	chunks      []*[chunkSize]*Node
	len, nodes  int // positions, and those that are not empty
	names, keys index
}

// Observe makes a cluster of observed nodes. It refuses none: contradictory state is kept and reported as a problem,
// and its device takes no more tenants; of two nodes with one name the first is used. The nodes are copied; their GPUs
// and workloads must not change afterwards.
//
// An assignment to UnknownDevice, or to a device that does not exist, goes to the emptiest device that takes it and is
// marked as assumed.
func Observe(nodes []Node) (*Cluster, []Problem) {
	c := &Cluster{names: index{}.own(), keys: index{}.own()}
	var l problems
	for i := range nodes {
		n := observe(&nodes[i], fmt.Sprintf("nodes[%d]", i), &l)
		if first := c.position(n.Name); first >= 0 {
			l.add(n, fmt.Sprintf("nodes[%d].name", i), "name each node once", "",
				"%q is the name of nodes[%d] as well: the later one is left out", n.Name, first)
			continue
		}
		for key := range n.keys() {
			c.checkKey(key, n, fmt.Sprintf("nodes[%d]", i), &l)
			c.keys.set(key, int32(c.len))
		}
		if c.len%chunkSize == 0 {
			c.chunks = append(c.chunks, new([chunkSize]*Node))
		}
		c.chunks[c.len/chunkSize][c.len%chunkSize] = n
		c.names.set(n.Name, int32(c.len))
		c.len++
		c.nodes++
	}
	return c, l
}

// checkKey reports a key that another node has too.
func (c *Cluster) checkKey(key string, n *Node, path string, l *problems) {
	if at := c.keyAt(key, n.Name); at >= 0 {
		l.add(n, path+".assignments", "a replica is on one node", "", "%s is assigned to node %s as well", key,
			c.At(int(at)).Name)
	}
}

// keyAt returns the position of a node that has an assignment of a key, but for one node; -1 where there is none.
func (c *Cluster) keyAt(key, but string) int32 {
	return c.keys.find(key, func(at int32) bool {
		n := c.At(int(at))
		return n != nil && n.Name != but && n.find(key) >= 0
	})
}

// Len returns the number of positions, including empty ones.
func (c *Cluster) Len() int { return c.len }

// Count returns the number of nodes.
func (c *Cluster) Count() int { return c.nodes }

// At returns the node at a position; nil if it is empty or out of range.
func (c *Cluster) At(position int) *Node {
	if position < 0 || position >= c.len {
		return nil
	}
	return c.chunks[position/chunkSize][position%chunkSize]
}

// Nodes visits the nodes in the order of their positions.
func (c *Cluster) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for i := range c.len {
			if n := c.At(i); n != nil && !yield(n) {
				return
			}
		}
	}
}

// Changed visits the positions with different nodes in c and from, and c's nodes there; this is cheap if one cluster
// was derived from the other.
func (c *Cluster) Changed(from *Cluster) iter.Seq2[int, *Node] {
	return func(yield func(int, *Node) bool) {
		for k, chunk := range c.chunks {
			if k < len(from.chunks) && from.chunks[k] == chunk {
				continue
			}
			for i := k * chunkSize; i < min(c.len, (k+1)*chunkSize); i++ {
				if n := c.At(i); (i >= from.len || from.At(i) != n) && !yield(i, n) {
					return
				}
			}
		}
	}
}

// position returns the position of a node by name, -1 where there is none.
func (c *Cluster) position(name string) int {
	return int(c.names.find(name, func(at int32) bool { n := c.At(int(at)); return n != nil && n.Name == name }))
}

// Node returns a node by name; nil if there is none.
func (c *Cluster) Node(name string) *Node { return c.At(c.position(name)) }

// Find returns the node of a replica; nil if it has none.
func (c *Cluster) Find(key string) *Node { return c.At(int(c.keyAt(key, ""))) }

// set returns a cluster with another node at a position, and other keys.
func (c *Cluster) set(at int, n *Node) *Cluster {
	out := *c
	out.chunks = slices.Clone(c.chunks)
	chunk := *c.chunks[at/chunkSize]
	chunk[at%chunkSize] = n
	out.chunks[at/chunkSize] = &chunk
	return &out
}

// WithNode returns the cluster with a node as observed now, which replaces the node with its name or is added.
func (c *Cluster) WithNode(node Node) (*Cluster, []Problem) {
	var l problems
	n := observe(&node, "node", &l)
	at := c.position(n.Name)
	out := c
	if at < 0 {
		copied := *c
		if out = &copied; c.nodes == len(c.chunks)*chunkSize {
			out.chunks = append(slices.Clone(c.chunks), new([chunkSize]*Node))
		}
		at = slices.IndexFunc(out.chunks, func(c *[chunkSize]*Node) bool { return slices.Contains(c[:], nil) })
		at = at*chunkSize + slices.Index(out.chunks[at][:], nil)
		out.len, out.nodes = max(out.len, at+1), out.nodes+1
		out.names = out.names.own()
		out.names.set(n.Name, int32(at))
	}
	before := c.At(at)
	out = out.set(at, n)
	out.keys = out.keys.own()
	if before != nil {
		for key := range before.keys() {
			out.keys.unset(key, int32(at))
		}
	}
	for key := range n.keys() {
		out.checkKey(key, n, "node", &l)
		out.keys.set(key, int32(at))
	}
	return out, l
}

// WithoutNode returns the cluster without a node and its assignments; c itself if there is no such node.
func (c *Cluster) WithoutNode(name string) *Cluster {
	at := c.position(name)
	if at < 0 {
		return c
	}
	n := c.At(at)
	out := c.set(at, nil)
	out.nodes--
	out.names, out.keys = out.names.own(), out.keys.own()
	out.names.unset(name, int32(at))
	for key := range n.keys() {
		out.keys.unset(key, int32(at))
	}
	return out
}

// observe copies a node and computes its free resources.
func observe(in *Node, path string, l *problems) *Node {
	n := *in
	n.Devices, n.Assignments = slices.Clone(in.Devices), slices.Clone(in.Assignments)
	for i := range n.Devices {
		d := &n.Devices[i]
		d.Instances = slices.Clone(d.Instances)
		slices.SortStableFunc(d.Instances, func(a, b Instance) int { return int(a.Start) - int(b.Start) })
		if d.Mode == sharing.MechanismNone && len(d.Instances) > 0 {
			d.Mode = sharing.MechanismMIG
		}
		d.Open = d.Open || d.Mode == sharing.MechanismNone
	}
	for i := range n.Assignments {
		n.Assignments[i].Workload = cmp.Or(n.Assignments[i].Workload, nobody)
	}
	n.locate(path, l)
	n.recount()
	n.check(path, l)
	return &n
}

// Equal reports whether two clusters have the same JSON. go-cmp uses it for values that contain a cluster.
func (c *Cluster) Equal(o *Cluster) bool {
	if c == nil || o == nil {
		return c == o
	}
	a, err := c.MarshalJSON()
	b, err2 := o.MarshalJSON()
	return err == nil && err2 == nil && bytes.Equal(a, b)
}
