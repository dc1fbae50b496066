// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// search is a layout on the way from today's to a better one. A copy of it can be tried and dropped.
type search struct {
	*cluster
	layout *layout.Cluster
	kinds  map[string]kind // of workloads that get other devices than today
	fixed  map[string]bool // nodes that stay as they are
	open   map[opening][]string
	slots  map[string]map[sharing.Mechanism]int32 // of shared devices that are configured anew, by pool
}

// opening is a kind of device in a pool; its nodes are those that have such devices, in the order in which they are to
// be filled.
type opening struct {
	pool string
	kind kind
}

// want is replicas of a workload, by their keys, that need devices of a kind.
type want struct {
	w    *decision.Workload
	kind kind
	keys []string
}

func (c *cluster) newSearch(r *decision.Result) *search {
	s := &search{c, c.layout, map[string]kind{}, c.fixedNodes(), map[opening][]string{},
		map[string]map[sharing.Mechanism]int32{}}
	if r.Layout == nil {
		return s
	}
	for n := range r.Layout.Nodes() {
		if s.slots[n.Pool] == nil {
			s.slots[n.Pool] = map[sharing.Mechanism]int32{}
		}
		for i := range n.Devices {
			d := &n.Devices[i]
			s.slots[n.Pool][d.Mode] = max(s.slots[n.Pool][d.Mode], int32(d.Slots))
		}
	}
	return s
}

func (s *search) copy() *search {
	out := *s
	out.kinds, out.open = maps.Clone(s.kinds), maps.Clone(s.open)
	return &out
}

func (s *search) now(w string) kind {
	if k, ok := s.kinds[w]; ok {
		return k
	}
	return s.kind(w)
}

// free is the number of replicas of a workload for which a node has devices of a kind.
func (c *cluster) free(n *layout.Node, w *decision.Workload, k kind) (most int) {
	if n.Closed != "" {
		return 0
	}
	devices, checked := 0, k.mode == sharing.MechanismExclusive || k.mode == sharing.MechanismMIG
	for i := range n.Devices {
		slots := freeSlots(&n.Devices[i], w, k)
		if slots > 0 && !checked { // all tenants that it may meet, on any of the node's shared GPUs
			if !c.trusted(n, w) {
				return 0
			}
			checked = true
		}
		if l := n.Devices[i].Limit; slots > 0 && l > 0 && w.MemoryNeed().Total > l {
			return 0
		}
		if each(w) > 1 && k.mode != sharing.MechanismMIG {
			slots = min(slots, 1)
		}
		devices += slots
	}
	most = devices / each(w)
	fit := func(left, each int64) {
		if each > 0 {
			most = min(most, int(left/each))
		}
	}
	if s := w.Scheduling; s != nil {
		if n.CPUMilli > 0 { // else the capacity of its host is not known
			fit(n.Free().CPUMilli, int64(s.CPUMilli))
			fit(int64(n.Free().Memory), int64(s.Memory))
		}
		for key, amount := range s.Resources {
			left := c.objects[n.Name].Resources[key]
			for _, a := range firsts(n) {
				if other := c.of[a.Workload.Name].Scheduling; other != nil {
					left -= other.Resources[key]
				}
			}
			fit(left, amount)
		}
	}
	if most > 0 && !w.Scheduling.Allows(c.objects[n.Name]) {
		return 0
	}
	return max(0, most)
}

// freeSlots counts the replicas of a workload that a device takes as a kind.
func freeSlots(d *layout.Device, w *decision.Workload, k kind) int {
	switch {
	case d.Mode != k.mode || d.Free().Faulty:
		return 0
	case k.mode == sharing.MechanismHAMi:
		return cardRoom(d, w)
	case k.mode != sharing.MechanismMIG:
		return int(d.Free().Slots)
	}
	return len(freeInstances(d, k.profile))
}

func freeInstances(d *layout.Device, profile string) (free []layout.Instance) {
	for i, in := range d.Instances {
		if in.Profile.Name == profile && d.Free().Full>>i&1 == 0 {
			free = append(free, in)
		}
	}
	return free
}

// trusted reports whether a workload and all tenants of a node's shared GPUs trust each other.
func (c *cluster) trusted(n *layout.Node, w *decision.Workload) bool {
	for i := range n.Assignments {
		a := &n.Assignments[i]
		if a.Device < 0 || a.Workload.Name == w.Name {
			continue
		}
		if m := n.Devices[a.Device].Mode; m != sharing.MechanismExclusive && m != sharing.MechanismMIG &&
			!a.Workload.Trust(c.tenants[w.Name]) {
			return false
		}
	}
	return true
}

// put gives replicas of a workload devices of a node, and reports whether it has them for all.
func (s *search) put(node string, w *decision.Workload, k kind, keys []string) bool {
	for _, key := range keys {
		n := s.layout.Node(node)
		all, had := []layout.Assignment{}, make([]int, len(n.Devices)) // by device
		for range each(w) {
			a, most := layout.Assignment{Key: key, Workload: s.tenants[w.Name], Device: layout.NoDevice}, 0
			for i := range n.Devices {
				slots := freeSlots(&n.Devices[i], w, k) - had[i]
				if k.mode != sharing.MechanismMIG && had[i] > 0 {
					slots = 0
				}
				if slots > most {
					a.Device, most = int16(i), slots
				}
			}
			if a.Device < 0 {
				return false
			}
			if k.mode == sharing.MechanismHAMi {
				a.Memory, a.Compute = booked(w)
			}
			if k.mode == sharing.MechanismMIG {
				in := freeInstances(&n.Devices[a.Device], k.profile)[had[a.Device]]
				a.Profile, a.Start = in.Profile, in.Start
			}
			all = append(all, a)
			had[a.Device]++
		}
		if r := w.Scheduling; r != nil && n.CPUMilli > 0 {
			all[0].CPUMilli, all[0].HostMemory = int32(r.CPUMilli), r.Memory
		}
		next, err := s.layout.Assign(node, all...)
		if err != nil {
			return false
		}
		s.layout = next
	}
	return true
}

func (s *search) take(keys []string) {
	for _, key := range keys {
		s.layout, _ = s.layout.Release(key)
	}
}

func (c *cluster) keysOf(w string) (keys []string) {
	for _, node := range sortedKeys(c.runs[w]) {
		keys = append(keys, c.runs[w][node]...)
	}
	return keys
}

// nodes lists the nodes of an opening: those that are in use in any case, then the fullest, and the unused last.
func (s *search) nodes(o opening) []string {
	if all, ok := s.open[o]; ok {
		return all
	}
	var all []*layout.Node
	for n := range s.layout.Nodes() {
		if n.Pool == o.pool && n.Closed == "" && slices.ContainsFunc(n.Devices, func(d layout.Device) bool {
			return d.Mode == o.kind.mode && (o.kind.profile == "" || slices.ContainsFunc(d.Instances,
				func(in layout.Instance) bool { return in.Profile.Name == o.kind.profile }))
		}) {
			all = append(all, n)
		}
	}
	rank := func(n *layout.Node) int {
		switch {
		case !n.Used():
			return 2
		case s.fixed[n.Name]:
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *layout.Node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.Assignments), len(a.Assignments)),
			cmp.Compare(a.Name, b.Name))
	})
	s.open[o] = []string{}
	for _, n := range all {
		s.open[o] = append(s.open[o], n.Name)
	}
	return s.open[o]
}

// fill gives replicas devices of their kind that are free, on one node if there is one, but for a node that is to be
// emptied, and returns those for which there are none. Unused nodes count only where unused is set.
func (s *search) fill(want want, pool, but string, unused bool) (left []string) {
	names := s.nodes(opening{pool, want.kind})
	left = want.keys
	for _, whole := range []bool{true, false} {
		for i := 0; i < len(names) && len(left) > 0; i++ {
			n := s.layout.Node(names[i])
			if n.Name == but || !unused && !n.Used() {
				continue
			}
			k := min(s.free(n, want.w, want.kind), len(left))
			if k == 0 || whole && k < len(left) {
				continue
			}
			if !s.put(n.Name, want.w, want.kind, left[:k]) {
				return left
			}
			left = left[k:]
		}
	}
	return left
}

// rolls reports whether a Deployment of which replicas stay and others move can do so: its controller replaces all of
// them, each after another has started, so that a device has to be free beyond those that it has in the end.
func (s *search) rolls(w string) bool {
	t := s.of[w].Today
	if t == nil || t.Object == "StatefulSet" || s.now(w) != s.kind(w) {
		return true
	}
	stays, moves, spare, on := false, false, 0, map[string]bool{}
	for node, keys := range s.runs[w] {
		for _, key := range keys {
			if n := s.layout.Find(key); n != nil {
				stays, moves, on[n.Name] = stays || n.Name == node, moves || n.Name != node, true
			}
		}
	}
	for node := range on {
		spare += s.free(s.layout.Node(node), s.of[w], s.now(w))
	}
	return !stays || !moves || spare > 0
}

// empty moves everybody off nodes for which others have room, one node after another, those with the fewest replicas
// first, where that saves something.
func (s *search) empty(r *decision.Result) {
	var nodes []*layout.Node
	used := map[string]int{} // GPUs by pool
	for n := range s.layout.Nodes() {
		if n.Used() {
			used[n.Pool] += len(n.Devices)
			if !s.fixed[n.Name] {
				nodes = append(nodes, n)
			}
		}
	}
	slices.SortStableFunc(nodes, func(a, b *layout.Node) int {
		return cmp.Or(cmp.Compare(len(a.Assignments), len(b.Assignments)), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range nodes {
		if p := s.prices[n.Pool]; used[n.Pool] <= p.Reserved || p.PerGPU.Sign() == 0 && p.PerNode.Sign() == 0 {
			continue // it is paid for in any case
		}
		if t := s.copy(); t.emptyNode(n.Name, r) {
			*s = *t
			used[n.Pool] -= len(n.Devices)
		}
	}
}

func (s *search) emptyNode(node string, r *decision.Result) bool {
	here := map[string][]string{}
	n := s.layout.Node(node)
	for key, a := range firsts(n) {
		here[a.Workload.Name] = append(here[a.Workload.Name], key)
	}
	names := sortedKeys(here)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(here[b]), len(here[a])) })
	for _, name := range names {
		if s.stays[name] != "" || !s.leave(want{s.of[name], s.now(name), here[name]}, n.Pool, node, r) {
			return false
		}
	}
	return true
}

// leave moves replicas off a node to devices of the same kind, or the whole workload to those that are decided or to
// MIG instances, wherever such are free on nodes in use.
func (s *search) leave(want want, pool, node string, r *decision.Result) bool {
	name, before := want.w.Name, s.copy()
	s.take(want.keys)
	if len(s.fill(want, pool, node, false)) == 0 && s.rolls(name) {
		return true
	}
	d := r.Decision(name)
	if d == nil || d.Pool != pool || s.now(name) != s.kind(name) || s.before[name] == sharing.AnswerNo {
		return false
	}
	others := []kind{{d.Mechanism, d.Profile}}
	if profile := s.instanceFor(want.w, pool); profile != "" {
		others = append(others, kind{sharing.MechanismMIG, profile})
	}
	for _, k := range others {
		if k == want.kind {
			continue
		}
		*s = *before.copy()
		want.kind, want.keys = k, s.keysOf(name)
		s.take(want.keys)
		s.kinds[name] = k
		if len(s.fill(want, pool, node, false)) == 0 {
			return true
		}
	}
	return false
}

// instanceFor is the smallest MIG profile that nodes of a pool have and that holds the workload, empty where there is
// none or it may not go there.
func (s *search) instanceFor(w *decision.Workload, pool string) (profile string) {
	if t := w.Today; each(w) > 1 || t != nil && t.Mechanism == sharing.MechanismExclusive && !t.MayWeaken {
		return ""
	}
	var least sharing.Bytes
	for n := range s.cluster.layout.Nodes() {
		if n.Pool != pool || n.Closed != "" {
			continue
		}
		for i := range n.Devices {
			for _, in := range n.Devices[i].Instances {
				m, ok := in.Profile.Memory.Get()
				if ok && m >= w.MemoryNeed().Total && (profile == "" || m < least) {
					profile, least = in.Profile.Name, m
				}
			}
		}
	}
	return profile
}
