// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

type order struct {
	*search // its layout is as the steps so far leave it
	to      *search
	steps   []Step
}

// move holds the steps that a workload has still to take.
type move struct {
	want
	places  Step
	on      map[string][]string // all of its replicas in the end
	guarded int                 // 1 = has objectives
}

func (to *search) order(p *part, then map[string]map[string][]string) (steps []Step, stuck []string,
	reached *layout.Cluster) {
	o := &order{search: &search{cluster: to.cluster, layout: to.cluster.layout, fixed: to.fixed}, to: to}
	var nodes []string
	for _, name := range p.nodes {
		if configures(to.cluster.layout.Node(name), to.layout.Node(name)) {
			nodes = append(nodes, name)
		}
	}
	moves := o.moves(p, then)
	for len(moves)+len(nodes) > 0 {
		if i := slices.IndexFunc(moves, o.take); i >= 0 {
			moves = slices.Delete(moves, i, i+1)
			continue
		}
		i := slices.IndexFunc(nodes, func(n string) bool { return !o.search.layout.Node(n).Used() })
		if i < 0 {
			for _, m := range moves {
				stuck = append(stuck, m.w.Name)
			}
			return nil, stuck, o.search.layout
		}
		gets := *to.layout.Node(nodes[i])
		gets.Assignments = nil
		was := Shape(o.search.layout.Node(nodes[i]))
		o.search.layout, _ = o.search.layout.WithNode(gets)
		o.steps = append(o.steps, Step{Action: "configure", Node: nodes[i], Pool: gets.Pool, Was: was, Gets: &gets})
		nodes = slices.Delete(nodes, i, i+1)
	}
	for _, name := range p.nodes {
		n := to.cluster.layout.Node(name)
		if now := to.layout.Node(name); n.Used() && !now.Used() && to.objects[name].Keeps == "" {
			o.steps = append(o.steps, Step{Action: "free", Node: name, Pool: n.Pool, Was: Shape(n),
				Others: len(to.objects[name].Others)})
		}
	}
	return o.steps, nil, o.search.layout
}

// moves lists the moves of a part, of workloads without objectives first. All replicas of a workload move where its
// request changes. then has all replicas after the change.
func (o *order) moves(p *part, then map[string]map[string][]string) (out []move) {
	for _, name := range p.workloads {
		w := o.of[name]
		k := o.to.now(name)
		m := move{want: want{w: w, kind: k}, places: Step{Action: "move", Workload: name, Device: k.String(),
			Request: k != o.kind(name)}}
		if guarded(w) {
			m.guarded = 1
		}
		m.on = then[name]
		for _, node := range p.nodes {
			now, then := o.runs[name][node], m.on[node]
			if !m.places.Request && !configures(o.cluster.layout.Node(node), o.to.layout.Node(node)) {
				both := min(len(now), len(then))
				now, then = now[both:], then[both:]
			}
			if len(now) > 0 {
				m.places.From = append(m.places.From, Place{node, len(now)})
			}
			if len(then) > 0 {
				m.places.To = append(m.places.To, Place{node, len(then)})
				m.keys = append(m.keys, then...)
			}
		}
		if m.places.Replicas = len(m.keys); len(m.keys) > 0 {
			m.places.Pool = o.to.layout.Node(m.places.To[0].Node).Pool
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(x, y move) int {
		return cmp.Or(cmp.Compare(x.guarded, y.guarded), cmp.Compare(len(x.keys), len(y.keys)))
	})
	return out
}

// take takes a move if every device that it needs is there and nobody's.
func (o *order) take(m move) bool {
	spare, all, name := -len(m.keys), 0, m.w.Name
	for node, keys := range m.on {
		all += len(keys)
		if !configures(o.search.layout.Node(node), o.to.layout.Node(node)) {
			spare += o.free(o.search.layout.Node(node), m.w, m.kind)
		}
	}
	for _, to := range m.places.To {
		if configures(o.search.layout.Node(to.Node), o.to.layout.Node(to.Node)) ||
			o.free(o.search.layout.Node(to.Node), m.w, m.kind) < to.Replicas {
			return false
		}
	}
	// A new template replaces the replicas that stay as well, and those that leave may be the first to stop: then the
	// next one starts before one that stays.
	t := m.w.Today
	surges := !m.places.Request && len(m.places.From) > 0 && t.Object != "StatefulSet" && all > len(m.keys)
	if surges && spare <= 0 || !o.allowed(m) {
		return false
	}
	next := o.search.copy()
	var leave []string
	for _, from := range m.places.From {
		leave = append(leave, o.runs[name][from.Node][len(o.runs[name][from.Node])-from.Replicas:]...)
	}
	at := 0
	for _, to := range m.places.To { // each starts before another stops
		for range to.Replicas {
			if !next.put(to.Node, m.w, m.kind, []string{newKey(name+" moved", at)}) {
				return false
			}
			at++
		}
	}
	next.take(leave)
	back := -len(leave) // to its nodes of today, where the next one starts before another stops as well
	for node := range o.runs[name] {
		back += next.free(next.layout.Node(node), m.w, m.kind)
	}
	if surges && back <= 0 {
		return false
	}
	o.search = next
	s := m.places
	if t != nil {
		if s.Object = t.Object; t.Object == "StatefulSet" {
			s.Budget = o.budgets[name].Name
		}
	}
	o.steps = append(o.steps, s)
	return true
}

// allowed reports whether the namespace's quota leaves room for a replica more while the workload moves.
func (o *order) allowed(m move) bool {
	more := each(m.w) // one replica at a time, where the resource is the same
	if m.places.Request {
		more *= len(m.keys)
	}
	requests := map[string]int{m.kind.resource(): more}
	if m.kind.mode == sharing.MechanismHAMi {
		memory, compute := booked(m.w)
		requests["nvidia.com/gpumem"], requests["nvidia.com/gpucores"] = more*int(memory/sharing.MiB), more*int(compute/10)
	}
	return !slices.ContainsFunc(o.fleet.Today.Quotas, func(q fleet.Quota) bool {
		return strings.HasPrefix(m.w.Name, q.Namespace+"/") && q.Free < requests[q.Resource]
	})
}

// part is nodes and workloads that a change connects, and no others: it can be made whatever becomes of the rest.
type part struct {
	nodes     []string
	workloads []string
}

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

func with(l *layout.Cluster, p *part, as *layout.Cluster) *layout.Cluster {
	for _, n := range p.nodes {
		l = l.WithoutNode(n)
	}
	for _, n := range p.nodes {
		l, _ = l.WithNode(*as.Node(n))
	}
	return l
}

// worse names the workloads that would meet fewer objectives in a target than today, with the reason.
func (c *cluster) worse(s *search, all []*part) (map[string]string, error) {
	after, err := c.answers(s, all)
	again := map[string]string{}
	for w, answer := range after {
		switch _, runs := c.before[w]; {
		case runs && answer != c.before[w] && (answer == sharing.AnswerNo || c.before[w] == sharing.AnswerYes):
			again[w] = "with its new neighbours it may not meet its objectives"
		case !runs && answer == sharing.AnswerNo:
			again[w] = "it would miss its objectives on the devices that are free"
		}
	}
	if w, why := c.cramped(s, all); w != "" {
		again[w] = why
	}
	return again, err
}

// answers evaluates the workloads on nodes that change, with their replicas elsewhere.
func (c *cluster) answers(s *search, all []*part) (map[string]sharing.Answer, error) {
	evaluated := map[string]bool{}
	for _, p := range all {
		for _, node := range p.nodes {
			for w := range s.layout.Node(node).Replicas() {
				evaluated[w] = true
			}
		}
	}
	after, err := c.evaluator.Nodes(func(yield func(*layout.Node) bool) {
		for n := range s.layout.Nodes() {
			if slices.ContainsFunc(n.Assignments, func(a layout.Assignment) bool { return evaluated[a.Workload.Name] }) &&
				!yield(n) {
				return
			}
		}
	})
	maps.DeleteFunc(after, func(w string, _ sharing.Answer) bool { return !evaluated[w] })
	return after, err
}

// cramped names a workload with an autoscaler that may request more replicas than have devices after the change, where
// they have them today.
func (c *cluster) cramped(s *search, all []*part) (workload, why string) {
	most := func(l *layout.Cluster, w string, k kind) (n int) {
		for node := range l.Nodes() {
			if here := node.Replicas()[w]; here > 0 {
				n += here + c.free(node, c.of[w], k)
			}
		}
		return n
	}
	for _, a := range c.fleet.Today.Autoscalers {
		if c.stays[a.Workload] != "" || !slices.ContainsFunc(all, func(p *part) bool {
			return slices.ContainsFunc(p.nodes, func(n string) bool { return c.runs[a.Workload][n] != nil })
		}) {
			continue
		}
		today := min(a.Max, most(c.layout, a.Workload, c.kind(a.Workload)))
		if after := most(s.layout, a.Workload, s.now(a.Workload)); after < today {
			return a.Workload, fmt.Sprintf("its autoscaler may ask for %d replicas, and there would be devices for %d", today,
				after)
		}
	}
	return "", ""
}
