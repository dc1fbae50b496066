// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// read takes over the decision's nodes and workloads, with notes on those that are left out.
func (b *builder) read(l *problem.List) {
	pools, workloads := map[string]*decision.Pool{}, map[string]*decision.Workload{}
	for i := range b.fleet.Pools {
		pools[b.fleet.Pools[i].Name] = &b.fleet.Pools[i]
	}
	for i := range b.fleet.Workloads {
		workloads[b.fleet.Workloads[i].Name] = &b.fleet.Workloads[i]
	}
	var poolNames, names []string
	for n := range b.nodes() {
		if !slices.Contains(poolNames, n.Pool) {
			poolNames = append(poolNames, n.Pool)
		}
	}
	for i := range b.result.Decisions {
		switch d := &b.result.Decisions[i]; {
		case workloads[d.Workload] == nil:
			l.Addf(fmt.Sprintf("result.decisions[%d].workload", i), "give the fleet that was decided",
				"the fleet has no workload %q", d.Workload)
		case d.Mechanism == sharing.MechanismNone:
			b.notes = append(b.notes, d.Workload+" fits nowhere and has no documents.")
		default:
			for k := range d.Parts() {
				names = append(names, partName(workloads, d.Workload, k))
			}
		}
	}
	folded := b.fold("workload", names)
	on := b.readNodes(pools, b.fold("pool", poolNames), l)
	b.memberOf = map[run]*member{}
	for i := range b.result.Decisions {
		d, at := &b.result.Decisions[i], fmt.Sprintf("result.decisions[%d]", i)
		w := workloads[d.Workload]
		if w == nil || d.Mechanism == sharing.MechanismNone {
			continue
		}
		parts := d.Parts()
		for k := range parts {
			b.readPart(&parts[k], w, pools[parts[k].Pool], folded[partName(workloads, d.Workload, k)], at, on, l)
			if m := b.memberOf[runOf(&parts[k])]; m != nil {
				m.part, m.service, m.all = k, folded[d.Workload], cmp.Or(d.Placed, d.Replicas)
			}
		}
		if d.Unplaced > 0 {
			b.notes = append(b.notes, fmt.Sprintf("%s: %d of %d replicas have no place; its documents are for the others.",
				d.Workload, d.Unplaced, d.Placed+d.Unplaced))
		}
	}
}

// partName is the name of the documents of a workload's part, which no other workload has.
func partName(workloads map[string]*decision.Workload, name string, part int) string {
	out := name
	for n := part + 1; part > 0 && workloads[out] != nil; n += 100 {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	return out
}

// readPart takes over a workload's part.
func (b *builder) readPart(d *decision.Decision, w *decision.Workload, pool *decision.Pool, name, at string,
	on map[run][]*group, l *problem.List) {
	switch key := runOf(d); {
	case pool == nil:
		l.Addf(at+".pool", "give the fleet that was decided", "the fleet has no pool %q", d.Pool)
	case on[key] == nil && b.plan == nil:
		l.Addf(at, "give the result of Decide as it is", "no replica of %q is in its layout", d.Workload)
	default:
		m := newMember(d, w, pool, layout.GPUOf(pool.GPU), name)
		m.at, m.groups = at, on[key]
		for _, g := range m.groups {
			g.members = append(g.members, m)
		}
		b.members, b.memberOf[key] = append(b.members, m), m
		b.limits(m)
	}
}

// nodes visits the nodes of the result's layout that are to be set up.
func (b *builder) nodes() iter.Seq2[*layout.Node, string] {
	return func(visit func(*layout.Node, string) bool) {
		for i := 0; b.result.Layout != nil && i < b.result.Layout.Len(); i++ {
			if n := b.result.Layout.At(i); n != nil && len(nodeModes(n)) > 0 &&
				!visit(n, fmt.Sprintf("result.layout.nodes[%d]", i)) {
				return
			}
		}
	}
}

// readNodes puts nodes that are configured alike into groups, those of tenants that do not trust one another into
// different ones, and returns the groups of each workload's parts.
func (b *builder) readNodes(pools map[string]*decision.Pool, names map[string]string, l *problem.List) (
	on map[run][]*group) {
	on = map[run][]*group{}
	if b.result.Layout != nil {
		l.AddErr("result", layout.Err(b.result.Layout.Check()))
	}
	groups, gpus := map[string][]*group{}, map[string]*layout.GPU{}
	for n, at := range b.nodes() {
		pool := pools[n.Pool]
		if pool == nil {
			l.Addf(at+".pool", "give the fleet that was decided", "the fleet has no pool %q", n.Pool)
			continue
		}
		modes := nodeModes(n)
		id := alike(n)
		var g *group
		for _, other := range groups[id] {
			strangers := func(o *layout.Node) bool { a, _ := n.Strangers(o); return a != nil }
			if g == nil && !slices.ContainsFunc(other.nodes, strangers) {
				g = other
			}
		}
		if g == nil {
			if gpus[n.Pool] == nil {
				gpus[n.Pool] = layout.GPUOf(pool.GPU)
			}
			g = &group{pool: pool, gpu: gpus[n.Pool], modes: modes, entries: nodeEntries(n), at: at}
			key := names[n.Pool] + "-" + strings.NewReplacer("+", "-", ", ", "-").Replace(named(modes))
			for i := 1; g.key == "" || b.taken[g.key]; i++ {
				if g.key = key; i > 1 {
					g.key = fmt.Sprintf("%s-%d", key, i)
				}
			}
			b.taken[g.key] = true
			groups[id], b.groups = append(groups[id], g), append(b.groups, g)
		}
		g.nodes = append(g.nodes, n)
		for _, a := range n.Assignments {
			if w := (run{a.Workload.Name, n.Pool, n.Devices[a.Device].Mode}); !slices.Contains(on[w], g) {
				on[w] = append(on[w], g)
			}
		}
	}
	for _, g := range b.groups {
		g.delivery = deliveryOf(g)
	}
	return on
}

// limits takes the share of compute that the nodes leave to a workload.
func (b *builder) limits(m *member) {
	for _, g := range m.groups {
		for _, n := range g.nodes {
			for _, a := range n.Assignments {
				if a.Workload.Name == m.Workload && n.Devices[a.Device].Mode == m.Mechanism &&
					a.Cap > 0 && m.percent > 0 {
					m.percent = min(m.percent, float64(a.Cap)/10)
				}
			}
		}
	}
}

// fold makes DNS labels of names, each unlike the others of its namespace. Names that are labels already stay.
func (b *builder) fold(kind string, names []string) map[string]string {
	out, taken := map[string]string{}, map[string]bool{}
	for _, name := range names {
		if _, short := spaced(name); dnsLabel.MatchString(short) {
			out[name], taken[name] = short, true
		}
	}
	for _, full := range names {
		if out[full] != "" {
			continue
		}
		namespace, name := spaced(full)
		key := func(label string) string { return strings.TrimPrefix(namespace+"/"+label, "/") }
		base := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		base = strings.Trim(base[:min(len(base), 60)], "-")
		folded := base
		for i := 2; taken[key(folded)]; i++ {
			folded = fmt.Sprintf("%s-%d", base, i)
		}
		out[full], taken[key(folded)] = folded, true
		b.notes = append(b.notes, fmt.Sprintf("The %s %q is called %s in the documents.", kind, name, folded))
	}
	return out
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// check finds every reason for which no configuration can be written.
func (b *builder) check(l *problem.List) {
	for _, g := range b.groups {
		l.If(len(g.key) > 63, g.at, "shorten the pool's name",
			"pool %q with the mechanism makes a label of %d characters; 63 is the most", g.pool.Name, len(g.key))
	}
	for _, m := range b.members {
		l.If(len(m.name) > 63 || len(m.name) > 56 && shared(m.Mechanism), m.at+".workload",
			"shorten the workload's name to 56 characters",
			"%q, with the number of a shared device, makes a label of more than 63", m.Workload)
		l.If(m.space != "" && !dnsLabel.MatchString(m.space), m.at+".workload",
			"use up to 63 lower-case letters, digits and dashes, with a letter or digit at both ends",
			"%q is not a Kubernetes name", m.space)
		l.If(shared(m.Mechanism) && m.gpus() > 1, m.at+".gpus", "give the workload whole GPUs",
			"%d shared GPUs are no more than one: replicas may land on the same GPU", m.gpus())
	}
}

// deliveryOf is the delivery that a group's nodes are planned for, or the DRA driver where the pool's own can't share
// as planned and the driver can.
func deliveryOf(g *group) sharing.Delivery {
	d := g.nodes[0].Delivery
	if d == sharing.DeliveryBare && !g.pool.Standalone && !slices.ContainsFunc(g.modes, func(m sharing.Mechanism) bool {
		return sharing.Delivers(sharing.DeliveryDRA, m).Answer != sharing.AnswerYes
	}) {
		return sharing.DeliveryDRA
	}
	return d
}
