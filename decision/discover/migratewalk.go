package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// assign gives each target its nodes and plans the steps.
func (m *migration) assign() {
	next := map[*station]*target{}
	var keep, change []*station
	var order []*target
	for _, key := range slices.SortedFunc(maps.Keys(m.targets), func(x, y [2]string) int {
		return cmp.Or(strings.Compare(x[0], y[0]), cmp.Compare(m.targets[y].gpus, m.targets[x].gpus),
			strings.Compare(x[1], y[1]))
	}) {
		order = append(order, m.targets[key])
	}
	need := map[*target]int{}
	for _, t := range order {
		need[t] = t.gpus
		fits := slices.DeleteFunc(slices.Clone(m.stations), func(s *station) bool {
			return s.pool != t.pool || s.class != t.class
		})
		// Those stay first that hold most of what stays there.
		slices.SortFunc(fits, func(x, y *station) int {
			here := func(s *station) (n int) {
				for w, k := range s.tenants {
					if m.of[w] == t {
						n += k
					}
				}
				return n
			}
			return cmp.Or(cmp.Compare(here(y), here(x)), strings.Compare(x.name, y.name))
		})
		for _, s := range fits {
			if need[t] > 0 {
				next[s], need[t] = t, need[t]-s.gpus
				keep = append(keep, s)
			}
		}
	}
	rest := slices.DeleteFunc(slices.Clone(m.stations), func(s *station) bool { return next[s] != nil })
	slices.SortFunc(rest, m.lighter)
	for _, t := range order {
		for _, s := range rest {
			if need[t] > 0 && next[s] == nil && s.pool == t.pool {
				next[s], need[t] = t, need[t]-s.gpus
			}
		}
		if need[t] > 0 {
			m.short = append(m.short, t)
		}
	}
	// What stays where it is keeps its place, as far as the layout allows.
	for _, s := range keep {
		t := next[s]
		if m.relaid[s] = m.layoutChanges(s, t, next); m.relaid[s] {
			change = append(change, s)
			continue
		}
		t.free += s.gpus
	}
	for _, s := range keep {
		if m.relaid[s] {
			continue
		}
		for _, w := range slices.Sorted(maps.Keys(s.tenants)) {
			if m.of[w] == next[s] && m.reserve(w, s.tenants[w]) {
				m.taken[w] += s.tenants[w] * m.width[w]
				delete(s.tenants, w)
			}
		}
	}
	change = append(change, rest...)
	for _, s := range keep {
		if len(s.tenants) > 0 && !m.relaid[s] {
			change = append(change, s) // tenants that go elsewhere
		}
	}
	m.walk(change, next)
}

// layoutChanges reports whether a node's MIG instances become others. One that the
// target has no instances for keeps none.
func (m *migration) layoutChanges(s *station, t *target, next map[*station]*target) bool {
	if s.layout == t.layout() {
		return false
	}
	have := map[string]int{}
	for _, o := range m.stations {
		if next[o] == t {
			for _, part := range strings.Split(o.layout, ", ") {
				var n int
				var profile string
				if _, err := fmt.Sscanf(part, "%d x %s", &n, &profile); err == nil {
					have[profile] += n
				}
			}
		}
	}
	return s.layout != "" && layoutText(have) != t.layout()
}

// reserve readies units until n more replicas of w have seats, and says whether there were enough.
func (m *migration) reserve(w string, n int) bool {
	t := m.of[w]
	if t == nil {
		return false
	}
	want := m.taken[w] + n*m.width[w]
	for _, u := range t.units {
		if m.seats[w] >= want {
			break
		}
		if u.ready || u.seats[w] == 0 || t.free == 0 {
			continue
		}
		u.ready = true
		t.free--
		for k, seats := range u.seats {
			m.seats[k] += seats
		}
	}
	return m.seats[w] >= want
}

// walk empties and changes one node after another.
func (m *migration) walk(change []*station, next map[*station]*target) {
	done := map[*station]bool{}
	for range change {
		slices.SortStableFunc(change, m.lighter)
		i := slices.IndexFunc(change, func(s *station) bool { return !done[s] && m.canEmpty(s) })
		if i < 0 {
			i = slices.IndexFunc(change, func(s *station) bool { return !done[s] })
		}
		at := change[i]
		done[at] = true
		m.empty(at)
		m.turn(at, next[at])
	}
}

// canEmpty reports whether all tenants of a node have a place that is ready.
func (m *migration) canEmpty(s *station) bool {
	free, ready := map[*target]int{}, map[*unit]bool{}
	seats := maps.Clone(m.seats)
	for _, t := range m.targets {
		free[t] = t.free
		for _, u := range t.units {
			ready[u] = u.ready
		}
	}
	ok := true
	for _, w := range slices.Sorted(maps.Keys(s.tenants)) {
		ok = ok && m.reserve(w, s.tenants[w])
	}
	m.seats = seats
	for _, t := range m.targets {
		t.free = free[t]
		for _, u := range t.units {
			u.ready = ready[u]
		}
	}
	return ok
}

// empty moves a node's tenants away, those without objectives first.
func (m *migration) empty(s *station) {
	names := slices.SortedFunc(maps.Keys(s.tenants), func(x, y string) int {
		if m.guarded[x] != m.guarded[y] {
			return map[bool]int{false: -1, true: 1}[m.guarded[x]]
		}
		return strings.Compare(x, y)
	})
	for _, w := range names {
		n := s.tenants[w]
		t := m.of[w]
		step := Step{Action: ActionMove, Pool: s.pool, Node: s.name, Workload: w, Replicas: n}
		switch {
		case t == nil:
			step.Do = fmt.Sprintf("Leave %s of %s on %s until there is room", plural(n, "replica"), w, s.name)
			step.Why = "the decision has no place for it"
			step.Action, step.Replicas = ActionLeave, 0
			step.Interrupts = []string{w}
		case m.reserve(w, n):
			m.taken[w] += n * m.width[w]
			step.Do = fmt.Sprintf("Start %s of %s with its new request on %s of pool %s; when they are ready and within "+
				"objectives, stop as many on %s", plural(n, "replica"), w, t.class, t.pool, s.name)
			step.Why = "its new place is ready"
			if m.open[w] {
				step.Why = "its new place is ready; its answer is provisional: settle it first"
			}
			if m.guarded[w] {
				step.Why += "; it has objectives, so it moves after what has none"
			}
		default:
			m.taken[w] += n * m.width[w]
			step.Do = fmt.Sprintf("Stop %s of %s on %s; they start again on %s of pool %s with the next node that is ready",
				plural(n, "replica"), w, s.name, t.class, t.pool)
			step.Why = "no free node is left to move it to first: a spare node of the pool makes this step one without " +
				"interruption"
			step.Interrupts = []string{w}
		}
		m.steps = append(m.steps, step)
		delete(s.tenants, w)
	}
}

// turn gives an empty node what it is to hand out.
func (m *migration) turn(s *station, t *target) {
	step := Step{Action: ActionConfigure, Pool: s.pool, Node: s.name}
	switch {
	case t == nil:
		step.Action = ActionFree
		step.Do = fmt.Sprintf("Cordon %s: it is free", s.name)
		step.Why = "the decision does not need its GPUs"
	case s.class != t.class:
		step.Do = fmt.Sprintf("Cordon %s, give it the configuration of %s, check what it offers, uncordon it", s.name,
			t.class)
		step.Why = "nothing runs on it"
	case m.relaid[s]:
		step.Do = fmt.Sprintf("Cordon %s, change its MIG layout to its part of %s, check what it offers, uncordon it", s.name,
			cmp.Or(t.layout(), "no instances"))
		step.Why = "MIG instances are changed only while nothing runs on them"
	default:
		return
	}
	m.steps = append(m.steps, step)
	if t != nil {
		t.free += s.gpus
	}
}
