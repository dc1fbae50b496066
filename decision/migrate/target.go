// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// target finds the layout to change to, the cheaper of two: today's with nodes emptied, and one in which workloads have
// the devices that were decided for them. lost names workloads for which devices were too few.
func (c *cluster) target(r *decision.Result, asking []string) (best *search, lost map[string]string) {
	base := c.newSearch(r)
	base.mend(r)
	lost = base.admit(r, asking)
	if len(lost) > 0 {
		return nil, lost
	}
	best, other := base.copy(), base.copy()
	best.finish(r)
	if other.redo(r) {
		if other.finish(r); net(other) > net(best) {
			best = other
		}
	}
	return best, nil
}

func (s *search) finish(r *decision.Result) {
	s.empty(r)
	s.prune()
	s.restore()
}

// net returns the certain savings of a layout, in micro-units a month.
func net(s *search) int64 {
	return (s.perHour(s.cluster.layout)-s.perHour(s.layout))*hoursPerMonth -
		s.uncertain(s.moved(s.layout), sortedKeys(s.of))
}

// moves reports whether a workload that runs is decided to have other devices.
func (s *search) moves(d *decision.Decision) bool {
	home, one := s.home(d.Workload)
	return s.running(d.Workload) > 0 && (!one || home != d.Pool || (kind{d.Mechanism, d.Profile}) != s.kind(d.Workload))
}

// mend gives workloads that miss an objective today the devices that were decided, where they are free.
func (s *search) mend(r *decision.Result) {
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if s.before[d.Workload] != sharing.AnswerNo || s.stays[d.Workload] != "" || !s.moves(d) {
			continue
		}
		if t := s.copy(); len(t.displace(r, []*decision.Decision{d})) == 0 {
			*s = *t
		}
	}
}

// displace moves workloads to the devices that were decided for them, and returns those for which there are too few.
func (s *search) displace(r *decision.Result, of []*decision.Decision) (lost []string) {
	of = slices.Clone(of)
	slices.SortStableFunc(of, func(a, b *decision.Decision) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	for _, d := range of {
		s.kinds[d.Workload] = kind{d.Mechanism, d.Profile}
		s.take(s.keysOf(d.Workload))
	}
	s.open = map[opening][]string{}
	var left []want // of one pool and mechanism
	for i, d := range of {
		want := want{s.of[d.Workload], s.now(d.Workload), s.keysOf(d.Workload)}
		if t := s.copy(); len(t.fill(want, d.Pool, "", true)) == 0 {
			*s = *t
		} else {
			left = append(left, want)
		}
		if i+1 < len(of) && of[i+1].Pool == d.Pool && of[i+1].Mechanism == d.Mechanism {
			continue
		}
		for _, want := range s.fresh(d.Pool, d.Mechanism, left) {
			lost = append(lost, want.w.Name)
		}
		left = nil
	}
	return lost
}

// redo moves workloads with another decision than today, and reports whether some found their devices. The others
// stay in place.
func (s *search) redo(r *decision.Result) bool {
	var of []*decision.Decision
	for i := range r.Decisions {
		if d := &r.Decisions[i]; s.stays[d.Workload] == "" && s.before[d.Workload] != sharing.AnswerNo && s.moves(d) {
			of = append(of, d)
		}
	}
	for len(of) > 0 {
		t := s.copy()
		lost := t.displace(r, of)
		if len(lost) == 0 {
			*s = *t
			return true
		}
		of = slices.DeleteFunc(of, func(d *decision.Decision) bool { return slices.Contains(lost, d.Workload) })
	}
	return false
}

// admit gives arriving workloads, and replicas that wait, devices: free ones before those of nodes that are configured
// anew, and those before nodes that have to be emptied first. lost names those without devices, with the reason.
func (s *search) admit(r *decision.Result, asking []string) (lost map[string]string) {
	lost = map[string]string{}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		w, missing := s.of[d.Workload], s.wants[d.Workload]-s.running(d.Workload)
		if missing <= 0 {
			continue
		}
		for _, part := range d.Parts() {
			ways, n := []kind{s.now(w.Name)}, min(missing, max(1, part.Placed))
			if w.Today == nil {
				ways = s.ways(&part)
			}
			if len(d.Places) == 0 {
				n = missing
			}
			if n > 0 && s.start(r, w, n, []string{part.Pool}, ways) {
				missing -= n
			}
		}
		if missing > 0 {
			lost[w.Name] = "too few nodes are free to hand out GPUs as it needs them"
		}
	}
	for _, name := range asking {
		w := s.of[name]
		var pools []string
		for i := range s.fleet.Pools {
			if p := s.fleet.Pools[i].Name; w.Pool == "" || w.Pool == p {
				pools = append(pools, p)
			}
		}
		if !s.start(r, w, s.wants[name], pools, []kind{{sharing.MechanismMIG, w.Request.Profile}}) {
			lost[name] = fmt.Sprintf("it asks for %d x %s, and no pool has as many free or can make them",
				s.wants[name]*each(w), w.Request.Profile)
		}
	}
	return lost
}

// ways are the kinds of devices that an arriving workload can use: the decided one, and others that may be free.
func (s *search) ways(d *decision.Decision) []kind {
	ways := []kind{{d.Mechanism, d.Profile}}
	for i := range d.Candidates {
		switch k := &d.Candidates[i]; {
		case k.Pool != d.Pool || k.Verdict != filter.VerdictPass:
		case k.Mechanism == sharing.MechanismMIG:
			if profile := s.instanceFor(s.of[d.Workload], d.Pool); profile != "" {
				ways = append(ways, kind{k.Mechanism, profile})
			}
		case k.Mechanism == sharing.MechanismExclusive:
			ways = append(ways, kind{mode: k.Mechanism})
		}
	}
	return ways
}

// start gives a number of new replicas devices of one of the kinds, the first of which may be made.
func (s *search) start(r *decision.Result, w *decision.Workload, n int, pools []string, ways []kind) bool {
	var keys []string
	for i := 1; len(keys) < n; i++ {
		if key := newKey(w.Name, i); s.layout.Find(key) == nil && s.cluster.layout.Find(key) == nil {
			keys = append(keys, key)
		}
	}
	try := func(k kind, pool string, makes, empties bool) bool {
		t := s.copy()
		if empties {
			t.empty(r)
		}
		t.kinds[w.Name], t.open = k, map[opening][]string{}
		left := t.fill(want{w, k, keys}, pool, "", true) // some on devices that are free already
		if len(left) > 0 && (!makes || len(t.fresh(pool, k.mode, []want{{w, k, left}})) > 0) {
			return false
		}
		*s = *t
		return true
	}
	for _, k := range ways {
		if slices.ContainsFunc(pools, func(pool string) bool { return try(k, pool, false, false) }) {
			return true
		}
	}
	for _, empties := range []bool{false, true} {
		if slices.ContainsFunc(pools, func(pool string) bool { return try(ways[0], pool, true, empties) }) {
			return true
		}
	}
	return false
}

// prune takes workloads back to their present devices where that costs nothing.
func (s *search) prune() {
	names := sortedKeys(s.moved(s.layout))
	for again := true; again; {
		again = false
		for i, name := range names {
			if name == "" || s.before[name] == sharing.AnswerNo {
				continue
			}
			if t := s.copy(); t.putBack(name) && s.perHour(t.layout) <= s.perHour(s.layout) {
				*s, again, names[i] = *t, true, ""
			}
		}
	}
}

// putBack gives a workload the devices that it has today, and reports whether they are there.
func (s *search) putBack(w string) bool {
	s.take(s.keysOf(w))
	delete(s.kinds, w)
	for _, node := range sortedKeys(s.runs[w]) {
		for _, key := range s.runs[w][node] {
			next, err := s.layout.Assign(node, s.cluster.layout.Node(node).Replica(key)...)
			if err != nil {
				return false
			}
			s.layout = next
		}
	}
	return true
}

// restore sets nodes that were configured and hold no replica back to their present state.
func (s *search) restore() {
	for n := range s.cluster.layout.Nodes() {
		if now := s.layout.Node(n.Name); now != n && !now.Used() && configures(n, now) {
			bare := *n
			bare.Assignments = nil
			s.layout, _ = s.layout.WithNode(bare)
		}
	}
}

// fresh configures empty nodes of a pool for replicas that need devices of one mode, and returns those without one.
func (s *search) fresh(pool string, m sharing.Mechanism, left []want) []want {
	left = slices.Clone(left)
	slices.SortStableFunc(left, func(a, b want) int { return cmp.Compare(each(b.w), each(a.w)) })
	var gpus []mig.Layout
	if m == sharing.MechanismMIG {
		gpus = packed(layout.GPUOf(s.pools[pool].Pool.GPU).MIG, left)
	}
	for len(left) > 0 {
		n := s.spare(pool)
		if n == nil {
			return left
		}
		was, next := s.layout, s.configured(n, m, &gpus)
		s.layout, _ = s.layout.WithNode(next)
		placed := false
		for i := range left {
			if k := min(s.free(s.layout.Node(n.Name), left[i].w, left[i].kind), len(left[i].keys)); k > 0 &&
				s.put(n.Name, left[i].w, left[i].kind, left[i].keys[:k]) {
				left[i].keys, placed = left[i].keys[k:], true
			}
		}
		if !placed {
			s.layout = was
			return left
		}
		left = slices.DeleteFunc(left, func(w want) bool { return len(w.keys) == 0 })
		s.open = map[opening][]string{}
	}
	return nil
}

// packed are the MIG instances that are wanted, on the fewest GPUs.
func packed(model *mig.Model, of []want) (gpus []mig.Layout) {
	if model == nil {
		return nil
	}
	counts := map[string]int{}
	for _, w := range of {
		counts[w.kind.profile] += len(w.keys) * each(w.w)
	}
	var list []mig.Count
	for _, p := range sortedKeys(counts) {
		list = append(list, mig.Count{Profile: p, N: counts[p]})
	}
	found, err := model.Pack(list)
	if err != nil {
		return nil
	}
	for _, g := range found.Groups {
		gpus = append(gpus, slices.Repeat([]mig.Layout{g.Layout}, g.GPUs)...)
	}
	return gpus
}

// spare is an empty node of a pool that may be configured anew: one that is empty today before others. nil: none is.
func (s *search) spare(pool string) (best *layout.Node) {
	today := func(n *layout.Node) int { return len(s.cluster.layout.Node(n.Name).Assignments) }
	for n := range s.layout.Nodes() {
		if n.Pool == pool && !n.Used() && n.Closed == "" && !s.fixed[n.Name] && !onCards(n) &&
			(best == nil || cmp.Or(cmp.Compare(today(n), today(best)), cmp.Compare(n.Name, best.Name)) < 0) {
			best = n
		}
	}
	return best
}

// configured is a node that hands out its GPUs by a mode, as MIG instances those of the first of the layouts.
func (s *search) configured(n *layout.Node, m sharing.Mechanism, gpus *[]mig.Layout) layout.Node {
	next, rules := *n, layout.RulesOf(n.Delivery)
	next.Devices = slices.Clone(n.Devices)
	for i := range next.Devices {
		d := &next.Devices[i]
		d.Instances, d.Dynamic = nil, false
		switch {
		case m != sharing.MechanismMIG:
			rules.Configure(d, m, max(2, s.slots[n.Pool][m]))
		case len(*gpus) == 0:
			rules.Configure(d, sharing.MechanismExclusive, 1)
		default:
			rules.Configure(d, m, 0)
			for _, in := range (*gpus)[0].Instances {
				d.Instances = append(d.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
			}
			*gpus = (*gpus)[1:]
		}
	}
	return next
}
