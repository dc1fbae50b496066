package migrate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// residual is the fleet of what may move and the GPUs that it may have, without those that come and ask for MIG
// instances by their profile: no other devices start their pods.
func (c *cluster) residual(pinned map[string]bool) (f *decision.Fleet, asking []string) {
	f = &decision.Fleet{Version: c.fleet.Version, Trust: c.fleet.Trust}
	gpus, held := map[string]int{}, map[string]int{}
	for _, n := range c.nodes {
		if !pinned[n.Name] {
			gpus[n.Pool] += n.GPUs
			continue
		}
		for w, k := range n.run {
			if c.stays[w] == "" {
				held[n.Pool] += k * c.want(w, c.today[w]).each
			}
		}
		if n.Closed == "" {
			held[n.Pool] += c.unused(n)
		}
	}
	for _, p := range c.fleet.Pools {
		if gpus[p.Name]+held[p.Name] == 0 {
			continue
		}
		p.Count, p.Layouts = min(p.Count, gpus[p.Name]+held[p.Name]), nil
		sunk := held[p.Name] // on nodes that stay
		if r := p.Reserved; r != nil {
			sunk = max(sunk, cmp.Or(r.Count, p.Count))
		}
		if p.Reserved, sunk = nil, min(sunk, p.Count); sunk > 0 {
			price, _ := cost.FromMicros(c.micros[p.Name], c.currency)
			p.Reserved = &decision.Tariff{Count: sunk, PricePerGPUHour: price}
		}
		if s := p.Spot; s != nil {
			p.Spot = &decision.Tariff{Count: min(s.Count, p.Count), PricePerGPUHour: s.PricePerGPUHour}
		}
		p.Mechanisms = slices.DeleteFunc(slices.Clone(planned), func(m sharing.Mechanism) bool {
			// A node that stays has only free devices that nobody shares.
			shares := m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS
			return len(p.Mechanisms) > 0 && !slices.Contains(p.Mechanisms, m) || gpus[p.Name] == 0 && shares
		})
		gpus[p.Name] += held[p.Name]
		f.Pools = append(f.Pools, p)
	}
	for _, w := range c.fleet.Workloads {
		if c.stays[w.Name] != "" {
			continue
		}
		if w.Pool != "" && gpus[w.Pool] == 0 {
			c.stays[w.Name] = "its pool has no node that may change"
			continue
		}
		if w.Today != nil {
			w.Replicas = decision.Replicas{Max: c.wants[w.Name]}
		} else if w.Request != nil && w.Request.Profile != "" {
			asking = append(asking, w.Name)
			continue
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f, asking
}

// unused counts the GPUs of a node that nobody holds, and those of its free MIG instances.
func (c *cluster) unused(n *node) int {
	s, whole, instances := ShapeOf(n.Node), 0, 0
	for w, k := range n.run {
		switch want := c.want(w, c.today[w]); want.seat.mechanism {
		case sharing.MechanismExclusive:
			whole += k * want.each
		case sharing.MechanismMIG:
			instances += k * want.each
		}
	}
	free := 0
	if s.Mechanism == sharing.MechanismExclusive {
		free = max(0, s.whole-whole)
	}
	if all := replicas(s.Instances); all > instances {
		free += max(1, n.InMIG*(all-instances)/all)
	}
	return free
}

// place seats all workloads on the nodes: those that may move as decided, and as today where that takes no node more.
// full names one for which the nodes were too few.
func (c *cluster) place(r *decision.Result, asking []string, pinned map[string]bool) (
	loads []*load, seats map[string]seat, full string) {
	seats = maps.Clone(c.today)
	pools := map[string]string{} // of what moves
	free := map[string]bool{}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		w := c.of[d.Workload]
		pools[d.Workload] = d.Pool
		home, one := c.home(d.Workload)
		if w.Today != nil && one && home == d.Pool && c.before[d.Workload] != sharing.AnswerNo {
			free[d.Workload] = true // to stay as it is
			continue
		}
		seats[d.Workload] = seat{d.Mechanism, d.Profile}
	}
	density := c.density(r)
	lay := func(seats map[string]seat) (all []*load, used int, full string) {
		for i := range c.fleet.Pools {
			pool := &c.fleet.Pools[i]
			got, lacking := c.layPool(pool, seats, pools, pinned, density[pool.Name])
			if lacking != "" {
				return nil, 0, lacking
			}
			all = append(all, got...)
		}
		for _, l := range all {
			if len(l.run) > 0 {
				used += l.node.GPUs
			}
		}
		return all, used, ""
	}
	for i := range r.Decisions {
		if d := &r.Decisions[i]; c.running[d.Workload] == 0 {
			seats[d.Workload] = c.seatFor(d, func(s seat) bool {
				seats[d.Workload] = s
				_, _, lacking := lay(seats)
				return lacking != d.Workload
			})
		}
	}
	for _, w := range asking {
		seats[w] = seat{sharing.MechanismMIG, c.of[w].Request.Profile}
		if !slices.ContainsFunc(c.fleet.Pools, func(p decision.Pool) bool {
			if pools[w] = p.Name; c.of[w].Pool != "" && c.of[w].Pool != p.Name {
				return false
			}
			_, _, lacking := lay(seats)
			return lacking != w
		}) {
			return nil, nil, w
		}
	}
	// As today, as decided, and in MIG instances that stand free already: the fewest nodes, and today before the others.
	decided, filled := maps.Clone(seats), maps.Clone(seats)
	for w := range free {
		d := r.Decision(w)
		decided[w] = seat{d.Mechanism, d.Profile}
		if profile := c.instance(w, d.Pool); profile != "" {
			filled[w] = seat{sharing.MechanismMIG, profile}
		}
	}
	fewest, found := 0, false
	for _, way := range []map[string]seat{seats, decided, filled} {
		got, used, lacking := lay(way)
		if lacking != "" {
			full = lacking
		} else if !found || used < fewest {
			loads, seats, fewest, found = got, way, used, true
		}
	}
	if !found {
		return nil, nil, full
	}
	// What moves without freeing a node stays.
	for _, w := range slices.Sorted(maps.Keys(free)) {
		if is := seats[w]; is != c.today[w] {
			seats[w] = c.today[w]
			if got, used, lacking := lay(seats); lacking == "" && used <= fewest {
				loads, fewest = got, used
			} else {
				seats[w] = is
			}
		}
	}
	return loads, seats, ""
}

// seatFor is the device of a workload that comes: what is decided, or one that stands free and does as well.
func (c *cluster) seatFor(d *decision.Decision, fits func(seat) bool) seat {
	first := seat{d.Mechanism, d.Profile}
	ways := []seat{first}
	for i := range d.Candidates {
		switch k := &d.Candidates[i]; {
		case k.Pool != d.Pool || k.Verdict != gate.VerdictPass:
		case k.Mechanism == sharing.MechanismMIG:
			if profile := c.instance(d.Workload, d.Pool); profile != "" {
				ways = append(ways, seat{k.Mechanism, profile})
			}
		case k.Mechanism == sharing.MechanismExclusive:
			ways = append(ways, seat{mechanism: k.Mechanism})
		}
	}
	for _, s := range ways {
		if fits(s) {
			return s
		}
	}
	return first
}

// instance is the smallest MIG profile that nodes of a pool have and that holds the workload, empty where there is none
// or it may not go there.
func (c *cluster) instance(w, pool string) (profile string) {
	t := c.of[w].Today
	if max(1, c.of[w].GPUs) > 1 || t != nil && t.Mechanism == sharing.MechanismExclusive && !t.MayWeaken {
		return ""
	}
	var least sharing.Bytes
	for _, n := range c.nodes {
		model := c.models[n.Pool]
		if n.Pool != pool || n.Closed != "" || model == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(n.Instances)) {
			if p, err := model.Profile(name); err == nil {
				if m, ok := p.Memory.Get(); ok && m >= c.of[w].MemoryNeed().Total && (profile == "" || m < least) {
					profile, least = name, m
				}
			}
		}
	}
	return profile
}

// home is the pool that a workload runs in, and whether that is one.
func (c *cluster) home(w string) (pool string, one bool) {
	if c.of[w].Today == nil {
		return "", false
	}
	for _, on := range c.of[w].Today.On {
		p := c.byName[on.Node].Pool
		if pool != "" && pool != p {
			return pool, false
		}
		pool = p
	}
	return pool, pool != ""
}

// density counts the pods of the decision that share a GPU, by pool and mechanism.
func (c *cluster) density(r *decision.Result) map[string]map[sharing.Mechanism]int {
	out := map[string]map[sharing.Mechanism]int{}
	for i := range r.Pools {
		p := &r.Pools[i]
		out[p.Pool] = map[sharing.Mechanism]int{}
		for _, g := range p.Groups {
			for _, l := range g.Layouts {
				n := 0
				for _, t := range l.Tenants {
					n += t.Replicas
				}
				out[p.Pool][g.Mechanism] = max(out[p.Pool][g.Mechanism], n)
			}
		}
	}
	return out
}

// layPool seats what belongs in a pool on its nodes. lacking names a workload for which they were too few.
func (c *cluster) layPool(pool *decision.Pool, seats map[string]seat, pools map[string]string, pinned map[string]bool,
	density map[sharing.Mechanism]int) (out []*load, lacking string) {
	var nodes []*node
	var stay []*load
	left := map[string]int{}
	for w, p := range pools {
		if p == pool.Name {
			left[w] = c.wants[w]
		}
	}
	for _, n := range c.nodes {
		if n.Pool != pool.Name {
			continue
		}
		if !pinned[n.Name] {
			nodes = append(nodes, n)
			continue
		}
		l := newLoad(n, ShapeOf(n.Node))
		for _, w := range slices.Sorted(maps.Keys(n.run)) {
			if c.stays[w] != "" {
				l.run[w] = n.run[w]
				l.used[c.today[w]] += n.run[w] * c.want(w, c.today[w]).each
			} else if seats[w] == c.today[w] && left[w] > 0 {
				left[w] -= l.put(c.want(w, seats[w]), min(left[w], n.run[w]))
			}
		}
		stay = append(stay, l)
	}
	var wants []want
	for _, w := range slices.Sorted(maps.Keys(left)) {
		k := c.want(w, seats[w])
		k.n = left[w]
		// Free devices of nodes that stay serve what shares with nobody.
		if k.seat.mechanism == sharing.MechanismExclusive || k.seat.mechanism == sharing.MechanismMIG {
			for _, l := range stay {
				if l.node.Closed == "" {
					k.n -= l.put(k, k.n)
				}
			}
		}
		if k.n > 0 {
			wants = append(wants, *k)
		}
	}
	slices.SortStableFunc(wants, func(x, y want) int { return cmp.Compare(y.each, x.each) })
	if len(wants) == 0 {
		return emptied(stay, nodes), ""
	}
	y := yard{density: density, model: c.models[pool.Name], trusts: c.trusts}
	got := y.assign(wants, nodes)
	if got == nil {
		last := wants[len(wants)-1]
		for _, w := range wants {
			if w.seat != c.today[w.workload] {
				last = w // what changes gives way to what stays as it is
			}
		}
		return nil, last.workload
	}
	return append(stay, got...), ""
}

// retake is the target of those of an earlier plan's steps that can still be taken from where the cluster is now.
func (c *cluster) retake(steps []Step) (loads []*load, seats map[string]seat) {
	loads, seats = c.seated(), maps.Clone(c.today)
	at := map[string]*load{}
	for _, l := range loads {
		at[l.node.Name] = l
	}
	for i := range steps {
		s := &steps[i]
		switch l := at[s.Node]; {
		case s.Action == ActionMove:
			c.remove(s, at, seats)
		case s.Action == ActionConfigure && l != nil && len(l.run) == 0 && l.node.Closed == "":
			l.shape, l.fresh = *s.Gets, true
			l.shape.whole = l.node.GPUs - len(s.Gets.Layouts)
		}
	}
	for _, l := range loads {
		if l.fresh && len(l.run) == 0 { // what was to go there can't any more
			l.shape, l.fresh = ShapeOf(l.node.Node), false
		}
	}
	return loads, seats
}

// remove moves a workload as a step says, where it may move, is where the step takes it from, and finds free devices
// beside others that it trusts.
func (c *cluster) remove(s *Step, at map[string]*load, seats map[string]seat) {
	w := c.of[s.Workload]
	if w == nil || w.Today == nil || c.stays[s.Workload] != "" {
		return
	}
	var is seat
	mechanism, profile, _ := strings.Cut(s.Seat, " ")
	if is.profile = profile; is.mechanism.UnmarshalText([]byte(mechanism)) != nil {
		return
	}
	was, n := c.want(s.Workload, c.today[s.Workload]), 0
	for _, from := range s.From {
		if l := at[from.Node]; l == nil || l.run[s.Workload] < from.Replicas {
			return
		}
		n += from.Replicas
	}
	if is != was.seat && n != c.running[s.Workload] {
		return
	}
	k, y := c.want(s.Workload, is), yard{trusts: c.trusts}
	for _, to := range s.To {
		l := at[to.Node]
		if l == nil || l.node.Closed != "" || !y.welcome(l, k) || l.free(k) < to.Replicas {
			return
		}
	}
	shift(at, was, s.From, k, s.To)
	seats[s.Workload] = is
}
