// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/objective"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// node is a node that is being filled.
type node struct {
	gpus  []*GPU
	own   sharing.Mechanism // None: it is open
	size  int               // GPUs
	free  int
	spot  bool
	slots int // the least of its GPUs
}

func (n *node) put(g *GPU) {
	n.gpus = append(n.gpus, g)
	n.free -= g.Size
	n.spot = n.spot && g.Spot
}

// filler puts a pool's GPUs on nodes, in the order in which [sites.count] counts them.
type filler struct {
	*sites
	nodes []*node
}

// add opens a node.
func (f *filler) add(own sharing.Mechanism, size int) *node {
	n := &node{own: own, size: size, free: size, spot: f.spot}
	f.nodes = append(f.nodes, n)
	return n
}

// fillOpen puts GPUs, those of the largest replicas first, each on the open node with least room for it.
func (f *filler) fillOpen(all []*GPU, spot bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(g *GPU) bool { return g.Spot != spot })
	slices.SortStableFunc(all, func(a, b *GPU) int { return b.Size - a.Size })
	for _, g := range all {
		var best *node
		for _, n := range f.nodes {
			if n.own == sharing.MechanismNone && n.free >= g.Size && (best == nil || n.free < best.free) {
				best = n
			}
		}
		for _, n := range f.nodes {
			if best == nil && layout.Sliced(g.Mechanism) && n.free > 0 && n.own != sharing.MechanismNone &&
				f.class[n.own] == classTimeSliced && (spot || !n.spot) {
				best = n
			}
		}
		if best == nil {
			best = f.add(sharing.MechanismNone, f.each)
		}
		best.put(g)
	}
}

// common is the number of slots of a mechanism's GPUs in a pool that does not say how many a node has, so that any of
// them may be on one node: those of the fullest, where the memory limit is still enough for all; else 0, and each has
// its own.
func (s *sites) common(m sharing.Mechanism, gpus []GPU) int {
	low, high := common(spans(gpus))
	if s.stated || s.class[m] != classTimeSliced && (s.class[m] != classLimited || low > high) {
		return 0
	}
	return int(low)
}

// onNodes puts everything of a pool on nodes.
func (pl *Planner) onNodes(p int) []*node {
	f := &filler{sites: &pl.sites[p]}
	var whole, single []*GPU
	for _, key := range pl.GroupKeys() {
		if key.Pool != p {
			continue
		}
		gpus, class := pl.Groups[key], f.class[key.Mechanism]
		if f.each > 1 && class != classOpen {
			f.own(class, spans(gpus), func(of []span) {
				n := f.add(key.Mechanism, f.each)
				for _, s := range of {
					n.put(&gpus[s.at])
				}
			})
			continue
		}
		slots := 0
		if f.each == 1 {
			slots = f.common(key.Mechanism, gpus)
		}
		for i := range gpus {
			switch g := &gpus[i]; {
			case f.each == 1 && class == classOpen: // a replica's GPUs make a node
				f.add(sharing.MechanismNone, g.Size).put(g)
			case f.each == 1:
				n := f.add(key.Mechanism, g.Size)
				n.put(g)
				n.slots = slots
			case key.Mechanism == sharing.MechanismExclusive:
				whole = append(whole, g)
			default:
				single = append(single, g)
			}
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
	number := make([]int, len(pl.Workloads)) // of replicas that have their place
	of := make([]*layout.Workload, len(pl.Workloads))
	for w := range of {
		wl := pl.Workloads[w].Workload()
		of[w] = &layout.Workload{Name: wl.Name, Tenant: wl.Tenant, Trusts: wl.Trusts(pl.Among),
			Objective: objective.Of(&wl.SLO)}
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
			pl.configure(add(layout.Node{Delivery: d, Spot: n.spot}, n.size), st, n, of, number)
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

// configure sets the modes of a node's devices by their contents, and assigns the replicas.
func (pl *Planner) configure(n *layout.Node, st *sites, from *node, of []*layout.Workload,
	number []int) {
	rules := layout.RulesOf(n.Delivery)
	busiest := from.slots
	for _, g := range from.gpus {
		if !layout.Sliced(g.Mechanism) {
			busiest = max(busiest, g.n)
		}
	}
	assign := func(m Member, a layout.Assignment, devices int) {
		cw, mech := pl.Workloads[m.Workload], n.Devices[a.Device].Mode
		a.Workload, a.Memory = of[m.Workload], pl.MemoryOf(m.Workload, mech)
		if mech == sharing.MechanismExclusive {
			a.Memory = cw.Demand().Memory.Within(sharing.Bytes(float64(st.gpu.Memory) * (1 - pl.Opt.Driver)))
		}
		if !layout.Sliced(mech) {
			a.Cap = int16(rules.Cap(mech, int32(n.Devices[a.Device].Slots)))
		}
		if cw.Demand().BusyBasis == filter.BusyStated {
			a.Busy = int16(1000*cw.Workload().GPUBusy.Or(0) + 0.5)
		}
		for range m.Replicas {
			a.Key = cw.Workload().Name + "-" + strconv.Itoa(number[m.Workload])
			number[m.Workload]++
			for range devices {
				n.Assignments = append(n.Assignments, a)
				a.Device++
			}
			a.Device -= int16(devices)
		}
	}
	at := 0
	for _, g := range from.gpus {
		for i := range g.Size {
			pl.mode(&n.Devices[at+i], rules, g, busiest)
		}
		for k, m := range g.Members {
			a := layout.Assignment{Device: int16(at)}
			if layout.Sliced(g.Mechanism) {
				in := &g.Layout.Instances[k]
				a.Profile, a.Start = in.Profile, int8(in.Start)
			}
			assign(m, a, g.Size)
		}
		at += g.Size
	}
	if rules.WholeNodes && from.own != sharing.MechanismNone { // the delivery shares the other GPUs likewise
		for ; at < len(n.Devices); at++ {
			rules.Configure(&n.Devices[at], from.own, int32(max(2, busiest)))
		}
	}
}

// mode sets a device as its tenants need it.
func (pl *Planner) mode(d *layout.Device, rules layout.Rules, g *GPU, busiest int) {
	m := g.Mechanism
	slots := 0
	switch {
	case layout.Sliced(m):
		if n := traits.PerInstance(m); n > 1 {
			slots = n
		}
		if d.Dynamic = rules.MadeOnDemand; !d.Dynamic {
			for _, in := range g.Layout.Instances {
				d.Instances = append(d.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
			}
		}
	case m == sharing.MechanismExclusive:
	case rules.WholeNodes:
		slots = max(2, busiest)
	case rules.OneSplit:
		slots = max(traits.Of(sharing.MechanismHAMi).Split, pl.busiestIn(g.Pool))
	case int32(g.n) > d.SlotsOf(m):
		slots = g.n
	}
	rules.Configure(d, m, int32(slots))
}

// busiestIn is the largest number of tenants on one of a pool's GPUs without slices.
func (pl *Planner) busiestIn(p int) (n int) {
	for key, gpus := range pl.Groups {
		if key.Pool == p && !layout.Sliced(key.Mechanism) && key.Mechanism != sharing.MechanismExclusive {
			n = max(n, busiest(gpus))
		}
	}
	return n
}
