// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// content holds the tenants of one GPU, or of the GPUs of one replica.
type content struct {
	key     GroupKey
	members []Member
	sliced  *sliced // MIG
	size    int     // GPUs
	spot    bool
}

// tenants counts the members that take a slot.
func (c *content) tenants() (n int) {
	for _, m := range c.members {
		n += m.Replicas
	}
	return n
}

// place is a node that is being filled.
type place struct {
	contents []*content
	own      sharing.Mechanism // None: it is open
	size     int               // GPUs
	free     int
	spot     bool
}

func (n *place) put(c *content) {
	n.contents = append(n.contents, c)
	n.free -= c.size
	n.spot = n.spot && c.spot
}

// filler puts the contents of a pool's GPUs on nodes, in the order in which [sites.count] counts them.
type filler struct {
	*sites
	nodes []*place
}

// add opens a node.
func (f *filler) add(own sharing.Mechanism, size int) *place {
	n := &place{own: own, size: size, free: size, spot: f.spot}
	f.nodes = append(f.nodes, n)
	return n
}

// contents lists the contents of a group's GPUs.
func (pl *Planner) contents(key GroupKey, g *Group) (out []*content) {
	st := &pl.sites[key.Pool]
	for _, m := range g.Wholes {
		for range m.Replicas {
			out = append(out, &content{key: key, members: []Member{{m.Workload, 1}},
				size: pl.Workloads[m.Workload].Workload().GPUCount()})
		}
	}
	for i := range g.Bins {
		out = append(out, &content{key: key, members: g.Bins[i].Members, size: 1})
	}
	for i := range g.Sliced {
		out = append(out, &content{key: key, members: g.Sliced[i].Members, sliced: &g.Sliced[i], size: 1})
	}
	for _, c := range out {
		c.spot = st.spot && pl.Interruptible(c.members)
	}
	return out
}

// fillOwn gives a mechanism nodes of its own.
func (f *filler) fillOwn(pl *Planner, key GroupKey, g *Group, all []*content) {
	spans := pl.spans(f.sites, g)
	if len(spans) == 0 { // slices
		spans = make([]span, len(all))
		for i := range spans {
			spans[i].at, spans[i].spot = int32(i), all[i].spot
		}
	}
	for _, part := range byDomain(spans) {
		if low, high := common(part); low > high && f.class[key.Mechanism] == classLimited {
			f.cover(part, func(node []span) {
				n := f.add(key.Mechanism, f.each)
				for _, s := range node {
					n.put(all[s.at])
				}
			})
			continue
		}
		var n *place
		for _, spot := range []bool{false, true} {
			for _, s := range part {
				if s.spot != spot {
					continue
				}
				if n == nil || n.free == 0 {
					n = f.add(key.Mechanism, f.each)
				}
				n.put(all[s.at])
			}
		}
	}
}

// fillOpen puts contents, the largest first, each on the open node with least room for it.
func (f *filler) fillOpen(all []*content, spot bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *content) bool { return c.spot != spot })
	slices.SortStableFunc(all, func(a, b *content) int { return b.size - a.size })
	for _, c := range all {
		var best *place
		for _, n := range f.nodes {
			if n.own == sharing.MechanismNone && n.free >= c.size && (best == nil || n.free < best.free) {
				best = n
			}
		}
		for _, n := range f.nodes {
			if best == nil && c.sliced != nil && n.free > 0 && n.own != sharing.MechanismNone &&
				f.class[n.own] == classTimeSliced && (spot || !n.spot) {
				best = n
			}
		}
		if best == nil {
			best = f.add(sharing.MechanismNone, f.each)
		}
		best.put(c)
	}
}

// onNodes puts everything of a pool on nodes.
func (pl *Planner) onNodes(p int) []*place {
	f := &filler{sites: &pl.sites[p]}
	var whole, single []*content
	for _, key := range pl.GroupKeys() {
		if key.Pool != p {
			continue
		}
		g := pl.Groups[key]
		all := pl.contents(key, g)
		switch {
		case f.each == 1: // a replica's GPUs make a node
			for _, c := range all {
				own := key.Mechanism
				if f.class[own] == classOpen {
					own = sharing.MechanismNone
				}
				f.add(own, c.size).put(c)
			}
		case key.Mechanism == sharing.MechanismExclusive:
			whole = append(whole, all...)
		case f.class[key.Mechanism] == classOpen:
			single = append(single, all...)
		default:
			f.fillOwn(pl, key, g, all)
		}
	}
	for _, spot := range []bool{false, true} {
		f.fillOpen(whole, spot)
		f.fillOpen(single, spot)
	}
	cheap := f.pool.Spot.Count / f.each
	for _, n := range f.nodes {
		if n.spot {
			cheap--
			n.spot = cheap >= 0
		}
	}
	return f.nodes
}

// Layout puts the arrangement's replicas on nodes. The problems are those of its delivery's rules, of which there
// are none.
func (pl *Planner) Layout() (*layout.Cluster, []layout.Problem) {
	var nodes []layout.Node
	number := make([]int, pl.Asked) // of replicas that have their place
	of := make([]*layout.Workload, pl.Asked)
	for w := range of {
		wl := pl.Workloads[w].Workload()
		of[w] = &layout.Workload{Name: wl.Name, Tenant: wl.Tenant, Trusts: wl.Trusts(pl.Among), Objective: layout.Objective{
			TTFTP99: time.Duration(wl.SLO.TTFTP99.Or(0)), TPOTP50: time.Duration(wl.SLO.TPOTP50.Or(0)),
			TPOTP99: time.Duration(wl.SLO.TPOTP99.Or(0)), E2EP99: time.Duration(wl.SLO.E2EP99.Or(0))}}
	}
	slots := map[GroupKey]int{}
	for key := range pl.Groups {
		slots[key] = pl.slotsOf(key)
	}
	for p, cp := range pl.Pools {
		st := &pl.sites[p]
		width := len(strconv.Itoa(st.most))
		first := len(nodes)
		add := func(n layout.Node, devices int) *layout.Node {
			n.Name = fmt.Sprintf("%s-%0*d", cp.Pool.Name, width, len(nodes)-first+1)
			n.Pool = cp.Pool.Name
			n.Devices = make([]layout.Device, devices)
			for i := range n.Devices {
				n.Devices[i].GPU = st.gpu
			}
			nodes = append(nodes, n)
			return &nodes[len(nodes)-1]
		}
		used := 0
		for _, n := range pl.onNodes(p) {
			d := st.deliveryOf(sharing.MechanismExclusive)
			if n.own != sharing.MechanismNone {
				d = st.deliveryOf(n.own)
			}
			used += n.size
			pl.configure(add(layout.Node{Delivery: d, Spot: n.spot}, n.size), st, n, slots, of, number)
		}
		if !cp.Pool.Owned.Or(true) {
			continue
		}
		for used < cp.Pool.Count {
			used += st.each
			add(layout.Node{Delivery: st.delivery}, st.each)
		}
	}
	return layout.Observe(nodes)
}

// slotsOf is the number of slots of a mechanism's GPUs in a pool that does not say how many a node has, so that any of
// them may be on one node: those of the fullest, where the memory limit is still enough for all; else 0, and each has
// its own.
func (pl *Planner) slotsOf(key GroupKey) int {
	s, g := &pl.sites[key.Pool], pl.Groups[key]
	if s.stated || g == nil || s.class[key.Mechanism] != classTimeSliced && s.class[key.Mechanism] != classLimited {
		return 0
	}
	low, high := common(pl.spans(s, g))
	if low > high && s.class[key.Mechanism] == classLimited {
		return 0
	}
	return int(low)
}

// configure sets the modes of a node's devices by their contents, and assigns the replicas.
func (pl *Planner) configure(n *layout.Node, st *sites, from *place, slots map[GroupKey]int, of []*layout.Workload,
	number []int) {
	rules := layout.RulesOf(n.Delivery)
	busiest := 0
	for _, c := range from.contents {
		if !layout.Sliced(c.key.Mechanism) {
			busiest = max(busiest, c.tenants(), slots[c.key])
		}
	}
	assign := func(m Member, a layout.Assignment, devices int) {
		cw, mech := pl.Workloads[m.Workload], n.Devices[a.Device].Mode
		a.Workload, a.Memory = of[pl.part[m.Workload]], pl.MemoryOf(m.Workload, mech)
		if mech == sharing.MechanismExclusive {
			a.Memory = cw.Demand().Memory.Within(sharing.Bytes(float64(st.gpu.Memory) * (1 - pl.Opt.Headroom.Driver)))
		}
		if !layout.Sliced(mech) {
			a.Cap = int16(rules.Cap(mech, int32(n.Devices[a.Device].Slots)))
		}
		if cw.Demand().BusyBasis == filter.BusyStated {
			a.Busy = int16(1000*cw.Workload().GPUBusy.Or(0) + 0.5)
		}
		for range m.Replicas {
			a.Key = cw.Workload().Name + "-" + strconv.Itoa(number[pl.part[m.Workload]])
			number[pl.part[m.Workload]]++
			for range devices {
				n.Assignments = append(n.Assignments, a)
				a.Device++
			}
			a.Device -= int16(devices)
		}
	}
	at := 0
	for _, c := range from.contents {
		for i := range c.size {
			pl.mode(&n.Devices[at+i], rules, st, c, busiest)
		}
		for k, m := range c.members {
			a := layout.Assignment{Device: int16(at)}
			if c.sliced != nil {
				in := &c.sliced.Layout.Instances[k]
				a.Profile, a.Start = in.Profile, int8(in.Start)
			}
			assign(m, a, c.size)
		}
		at += c.size
	}
	if rules.WholeNodes && from.own != sharing.MechanismNone { // the delivery shares the other GPUs likewise
		for ; at < len(n.Devices); at++ {
			rules.Configure(&n.Devices[at], from.own, int32(max(2, busiest)))
		}
	}
}

// mode sets a device as its content needs it.
func (pl *Planner) mode(d *layout.Device, rules layout.Rules, st *sites, c *content, busiest int) {
	m := c.key.Mechanism
	slots := 0
	switch {
	case c.sliced != nil:
		if n := traits.PerInstance(m); n > 1 {
			slots = n
		}
		if d.Dynamic = rules.MadeOnDemand; !d.Dynamic {
			for _, in := range c.sliced.Layout.Instances {
				d.Instances = append(d.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
			}
		}
	case m == sharing.MechanismExclusive:
	case rules.WholeNodes:
		slots = max(2, busiest)
	case rules.OneSplit:
		slots = max(traits.Of(sharing.MechanismHAMi).Split, pl.busiestIn(c.key.Pool))
	case int32(c.tenants()) > d.SlotsOf(m):
		slots = c.tenants()
	}
	rules.Configure(d, m, int32(slots))
}

// busiestIn is the largest number of tenants on one of a pool's GPUs without slices.
func (pl *Planner) busiestIn(p int) (n int) {
	for key, g := range pl.Groups {
		if key.Pool == p && !layout.Sliced(key.Mechanism) {
			n = max(n, g.busiest())
		}
	}
	return n
}
