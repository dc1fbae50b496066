// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// Explanation holds a node's reason to refuse a request, and the changes that would make it fit.
type Explanation struct {
	Node   string
	Reason filter.Reason
	// Blockers are replicas to remove so that it fits: the smallest set of one or two, empty if there is none.
	Blockers []string
	// Change is the smallest change of the request, or of its neighbours, that makes it fit; empty if no single one does.
	Change string
}

// String writes the explanation on one line.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v: %v", e.Node, e.Reason.Verdict, e.Reason)
	if e.Change != "" {
		fmt.Fprintf(&b, "; to fit, %s", e.Change)
	}
	if len(e.Blockers) > 0 {
		fmt.Fprintf(&b, "; or without %s", strings.Join(e.Blockers, " and "))
	}
	return b.String()
}

// Explain returns every node's answer to a request, in the order of the layout: the reason, the replicas in the way,
// and the smallest change that helps. It is far slower than Filter: use it for refused requests.
func (s *Scorer) Explain(c *layout.Cluster, r *Request) []Explanation {
	out := make([]Explanation, 0, c.Count())
	for n := range c.Nodes() {
		e := Explanation{Node: n.Name, Reason: s.Filter(n, r)}
		if e.Reason.Verdict != filter.VerdictPass {
			e.Change = s.change(n, r, e.Reason)
			if codes.Words[e.Reason.Code].Scope == codes.Left || codes.Words[e.Reason.Code].Scope == codes.Neighbours {
				e.Blockers = s.blockers(c, n, r)
			}
		}
		out = append(out, e)
	}
	return out
}

// passes reports whether a node takes a changed request.
func (s *Scorer) passes(n *layout.Node, r *Request, change func(*Request)) bool {
	next := *r
	change(&next)
	return next.Validate() == nil && s.Filter(n, &next).Verdict == filter.VerdictPass
}

// change is the least single change that lets a request onto a node.
func (s *Scorer) change(n *layout.Node, r *Request, why filter.Reason) string {
	if why.Code == codes.SlowdownUnknown {
		return "measure it and its neighbours in isolation, so that their objectives can be evaluated"
	}
	if n.Closed != "" {
		return "open the node: " + n.Closed
	}
	var free layout.Free // the most of each, of one GPU
	for i := range n.Devices {
		if f := n.Devices[i].Free(); f.Slots > 0 {
			free.Compute, free.Memory = max(free.Compute, f.Compute), max(free.Memory, f.Memory)
		}
	}
	for _, try := range []struct {
		text   string
		worth  bool
		change func(*Request)
	}{
		{fmt.Sprintf("ask for at most %dm CPU", n.Free().CPUMilli), r.CPUMilli > n.Free().CPUMilli,
			func(q *Request) { q.CPUMilli = max(0, n.Free().CPUMilli) }},
		{fmt.Sprintf("ask for at most %v of the host's memory", n.Free().Memory), r.Memory > n.Free().Memory,
			func(q *Request) { q.Memory = max(0, n.Free().Memory) }},
		{fmt.Sprintf("ask for at most %v of GPU memory", free.Memory), r.GPUMemory > free.Memory && free.Memory > 0,
			func(q *Request) { q.GPUMemory = free.Memory }},
		{fmt.Sprintf("ask for at most %d thousandths of a GPU", free.Compute),
			int32(r.Milli) > free.Compute && free.Compute > 0, func(q *Request) { q.Milli = int(free.Compute) }},
		{"do without NVLink", r.Linked, func(q *Request) { q.Linked = false }},
		{"accept its GPU model", len(r.Models) > 0, func(q *Request) { q.Models = nil }},
	} {
		if try.worth && s.passes(n, r, try.change) {
			return try.text
		}
	}
	for g := r.GPUs - 1; g > 0; g-- {
		if s.passes(n, r, func(q *Request) { q.GPUs = g }) {
			return fmt.Sprintf("ask for %d GPUs", g)
		}
	}
	for i := range n.Devices {
		m := n.Devices[i].Mode
		if m != sharing.MechanismNone && !layout.Sliced(m) && !slices.Contains(r.Mechanisms, m) && s.passes(n, r,
			func(q *Request) { q.Mechanisms = append(slices.Clone(r.Mechanisms), m) }) {
			return "accept " + m.String()
		}
		if d := &n.Devices[i]; partition(d) != nil {
			for _, p := range partition(d).Profiles {
				if p.Name != r.Profile && d.Room(p) != 0 && s.passes(n, r, func(q *Request) {
					q.Profile, q.Milli, q.GPUs, q.Mechanisms = p.Name, 0, 1, nil
				}) {
					return "ask for a MIG instance " + p.Name
				}
			}
		}
	}
	if names := s.untrusted(n, r); len(names) > 0 {
		return fmt.Sprintf("have it and %s trust each other", strings.Join(names, ", "))
	}
	return ""
}

// untrusted returns the tenants of a node that keep a request out only because trust is missing.
func (s *Scorer) untrusted(n *layout.Node, r *Request) (names []string) {
	if s.filter(n, r, true).Verdict != filter.VerdictPass {
		return nil
	}
	for i := range n.Assignments {
		if a := &n.Assignments[i]; a.Device >= 0 && !a.Workload.Trust(r.workload()) {
			name := cmp.Or(a.Workload.Tenant, a.Workload.Name)
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// blockers returns one or two replicas to remove so that a request fits on a node.
func (s *Scorer) blockers(c *layout.Cluster, n *layout.Node, r *Request) (out []string) {
	var keys []string
	for i := range n.Assignments {
		if key := n.Assignments[i].Key; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for size := 1; size <= 2 && out == nil; size++ {
		eachSet(keys, size, func(set []string) bool {
			if on := without(c, set).Node(n.Name); on != nil && s.Filter(on, r).Verdict == filter.VerdictPass {
				out = slices.Clone(set)
			}
			return out == nil
		})
	}
	return out
}

// without is a layout without some replicas.
func without(c *layout.Cluster, keys []string) *layout.Cluster {
	for _, key := range keys {
		c, _ = c.Release(key)
	}
	return c
}

// eachSet visits the sets of so many of some keys, until visit returns false. A set must not be kept.
func eachSet(keys []string, size int, visit func(set []string) bool) {
	set := make([]string, 0, size)
	var choose func(from int) bool
	choose = func(from int) bool {
		if len(set) == size {
			return visit(set)
		}
		for i := from; i < len(keys); i++ {
			set = append(set, keys[i])
			more := choose(i + 1)
			if set = set[:len(set)-1]; !more {
				return false
			}
		}
		return true
	}
	choose(0)
}
