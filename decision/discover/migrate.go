package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Step is a step of the way from what runs today to a decision. Steps are taken one after another: a replica has
// its new place before it loses the old one, except where Interrupts says otherwise.
type Step struct {
	Action   Action `json:"action"`
	Do       string `json:"do"`
	Why      string `json:"why"`
	Pool     string `json:"pool"`
	Node     string `json:"node"`
	Workload string `json:"workload,omitempty"`
	Replicas int    `json:"replicas,omitempty"` // of the workload, that move
	// Interrupts are workloads that have fewer replicas than before until a later step, for want of a free node.
	Interrupts []string `json:"interrupts,omitempty"`
}

// Action classifies a step. The zero value is ActionLeave.
type Action uint8

// The actions.
const (
	ActionLeave     Action = iota // a node stays as it is
	ActionMove                    // replicas leave a node
	ActionConfigure               // an empty node hands out its GPUs in another way
	ActionFree                    // an empty node is not needed
)

var actionNames = enum.Of[Action](ErrInvalid, "action", "leave", "move", "configure", "free")

// station is a node as the plan sees it.
type station struct {
	name    string
	pool    string
	gpus    int
	class   string // what its GPUs are handed out by
	layout  string // its MIG instances
	tenants map[string]int
}

// classOf puts mechanisms together that one node can have side by side: whole
// GPUs and MIG instances under the MIG strategy "mixed".
func classOf(m sharing.Mechanism) string {
	switch m {
	case sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismMIG, sharing.MechanismNone:
		return "whole GPUs and MIG"
	}
	return m.String()
}

// unit is a GPU of the decision with the replicas that it takes.
type unit struct {
	seats   map[string]int
	profile map[string]string // MIG, by workload
	ready   bool
}

// target is GPUs of a pool that a decision hands out in one way.
type target struct {
	pool, class string
	gpus        int
	units       []*unit
	free        int // GPUs on nodes that are ready and have no unit yet
}

// migration is a plan in the making.
type migration struct {
	stations []*station
	targets  map[[2]string]*target
	of       map[string]*target // by workload
	guarded  map[string]bool    // workloads with objectives
	seats    map[string]int     // ready, by workload
	taken    map[string]int
	width    map[string]int    // GPUs of a replica
	relaid   map[*station]bool // nodes that get another MIG layout
	held     map[string]string // workloads that stay, and why
	short    []*target         // that have too few nodes
	open     map[string]bool   // workloads with a provisional answer
	steps    []Step
}

// Migrate plans the way from what runs today to a decision of the fleet, node by node: nodes without tenants first,
// then those whose tenants have no objectives, and each only when all that it holds has a place that is ready.
// Where no node can be emptied that way, the one that interrupts least is, and the step says whom. A workload that
// shares today and of which nobody knows the memory stays where it is, with its node, until that is measured. r is
// the result of decision.Decide for the fleet.
func (d *Discovery) Migrate(r *decision.Result) []Step {
	held := map[string]string{}
	for i := range d.Fleet.Workloads {
		if w := &d.Fleet.Workloads[i]; w.Request != nil && w.MemoryNeed().Unknown {
			held[w.Name] = "it shares GPUs today, and where else it fits is not known: measure its memory and discover again"
		}
	}
	for {
		m := d.migration(r, held)
		if m.homeless(held) {
			continue
		}
		m.assign()
		if len(m.short) == 0 {
			return m.steps
		}
		// What has no nodes of its own to go to stays where it is, and the rest is planned around it.
		before := len(held)
		t := slices.MinFunc(m.short, func(x, y *target) int {
			return cmp.Or(cmp.Compare(x.gpus, y.gpus), strings.Compare(x.pool, y.pool), strings.Compare(x.class, y.class))
		})
		for w, of := range m.of {
			if of == t && held[w] == "" {
				held[w] = fmt.Sprintf("pool %s has too few nodes to give %s nodes of its own, as a node hands out its GPUs in one "+
					"way: add a node, or deliver by DRA", t.pool, t.class)
			}
		}
		if len(held) == before {
			return m.steps
		}
	}
}

// homeless notes workloads of which the decision places fewer replicas than run:
// they stay where they are. It says whether there were any.
func (m *migration) homeless(held map[string]string) bool {
	run, seats := map[string]int{}, map[string]int{}
	for _, s := range m.stations {
		for w, n := range s.tenants {
			run[w] += n * m.width[w]
		}
	}
	for w, t := range m.of {
		if t != nil {
			for _, u := range t.units {
				seats[w] += u.seats[w]
			}
		}
	}
	found := false
	for w, n := range run {
		if seats[w] < n && held[w] == "" {
			held[w], found = "the decision has no place for all of its replicas that run", true
		}
	}
	return found
}

// migration is the state before the first step.
func (d *Discovery) migration(r *decision.Result, held map[string]string) *migration {
	m := &migration{targets: map[[2]string]*target{}, of: map[string]*target{}, guarded: map[string]bool{},
		seats: map[string]int{}, taken: map[string]int{},
		width: map[string]int{}, relaid: map[*station]bool{}, held: held, open: map[string]bool{}}
	for i := range d.Fleet.Workloads {
		w := &d.Fleet.Workloads[i]
		m.guarded[w.Name] = w.SLO != predict.SLO{} || w.Kind == decision.KindOnlineInference
		m.width[w.Name] = max(1, w.GPUs)
	}
	staying := map[string]int{} // replicas on nodes that stay
	for i := range d.stations {
		s := d.stations[i]
		if m.holds(&s) {
			for w, n := range s.tenants {
				staying[w] += n
			}
			continue
		}
		s.tenants = maps.Clone(s.tenants)
		m.stations = append(m.stations, &s)
	}
	for i := range r.Pools {
		m.read(&r.Pools[i])
	}
	for i := range r.Decisions {
		v := &r.Decisions[i]
		m.of[v.Workload] = m.targets[[2]string{v.Pool, classOf(v.Mechanism)}]
		m.open[v.Workload] = v.Status == decision.StatusProvisional
		m.without(v.Workload, staying[v.Workload]*m.width[v.Workload])
	}
	return m
}

// without takes seats of a workload out of its target: that many need none.
func (m *migration) without(w string, seats int) {
	t := m.of[w]
	if t == nil {
		return
	}
	for _, u := range slices.Backward(t.units) {
		n := min(seats, u.seats[w])
		if seats -= n; n == 0 {
			continue
		}
		if u.seats[w] -= n; u.seats[w] == 0 {
			delete(u.seats, w)
		}
	}
	t.units = slices.DeleteFunc(t.units, func(u *unit) bool { return len(u.seats) == 0 })
	t.gpus = len(t.units)
}

// holds notes a node that stays as it is for the sake of a tenant that does.
func (m *migration) holds(s *station) bool {
	why := map[string][]string{}
	for _, w := range slices.Sorted(maps.Keys(s.tenants)) {
		if reason := m.held[w]; reason != "" {
			why[reason] = append(why[reason], w)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		m.steps = append(m.steps, Step{Pool: s.pool, Node: s.name, Workload: why[reason][0],
			Do: fmt.Sprintf("Leave %s as it is for %s", s.name, strings.Join(why[reason], ", ")), Why: reason})
	}
	return len(why) > 0
}

// read takes a pool of the decision over.
func (m *migration) read(p *decision.PoolResult) {
	for _, g := range p.Groups {
		key := [2]string{p.Pool, classOf(g.Mechanism)}
		t := m.targets[key]
		if t == nil {
			t = &target{pool: p.Pool, class: key[1]}
			m.targets[key] = t
		}
		for _, l := range g.Layouts {
			for range l.GPUs {
				u := &unit{seats: map[string]int{}, profile: map[string]string{}}
				for _, k := range l.Tenants {
					if m.held[k.Workload] == "" {
						u.seats[k.Workload] += k.Replicas
					}
				}
				for _, k := range l.Instances {
					if m.held[k.Workload] == "" {
						u.seats[k.Workload] += k.Replicas
						u.profile[k.Workload] = k.Profile
					}
				}
				if len(u.seats) > 0 {
					t.units = append(t.units, u)
					t.gpus++
				}
			}
		}
	}
}

func layoutText(instances map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(instances)) {
		if instances[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d x %s", instances[k], k))
		}
	}
	return strings.Join(parts, ", ")
}

// weight counts the replicas that moving a station's tenants puts at risk.
func (m *migration) weight(s *station) (guarded, all int) {
	for w, n := range s.tenants {
		all += n
		if m.guarded[w] {
			guarded += n
		}
	}
	return guarded, all
}

func (m *migration) lighter(x, y *station) int {
	gx, ax := m.weight(x)
	gy, ay := m.weight(y)
	return cmp.Or(cmp.Compare(gx, gy), cmp.Compare(ax, ay), strings.Compare(x.name, y.name))
}

// layout are the MIG instances of a target's GPUs together.
func (t *target) layout() string {
	n := map[string]int{}
	for _, u := range t.units {
		for w, profile := range u.profile {
			n[profile] += u.seats[w]
		}
	}
	return layoutText(n)
}
