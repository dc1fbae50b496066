package migrate

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Step is one step of a plan. Steps are taken one after another; a plan can be taken back from any step by undoing
// those before it in reverse order.
type Step struct {
	Action Action `json:"action"`
	Pool   string `json:"pool,omitempty"` // in which its devices are
	// Of a step on a node: the node, and how it hands out its GPUs before and after.
	Node string `json:"node,omitempty"`
	Was  string `json:"was,omitempty"`
	Gets *Shape `json:"gets,omitempty"`
	// Of a step on a workload: the kind of object that is patched, its replicas, the nodes that they leave and those
	// that have a free device for each of them when the step begins.
	Workload string           `json:"workload,omitempty"`
	Object   string           `json:"object,omitempty"`
	Replicas int              `json:"replicas,omitempty"`
	From     []decision.Place `json:"from,omitempty"`
	To       []decision.Place `json:"to,omitempty"`
	Seat     string           `json:"seat,omitempty"` // the device that a replica gets
	Request  bool             `json:"request"`        // the pods ask for another device than today
	// Budget is the PodDisruptionBudget that lets a replica stop before the next starts. Without one each starts first.
	Budget string `json:"budget,omitempty"`
}

// Action classifies a step. The zero value is ActionMove.
type Action uint8

// The actions.
const (
	ActionMove      Action = iota // a workload's replicas go to other devices
	ActionConfigure               // an empty node hands out its GPUs in another way
	ActionFree                    // an empty node can be given back
)

var actionNames = enum.Of[Action](errors.New("migrate: unknown name"), "action", "move", "configure", "free")

// order is the way to a target.
type order struct {
	c     *cluster
	seats map[string]seat // of the target
	steps []Step
	moved map[string]bool
	stuck string // a workload that no device is free for

	at map[string]*load // by node: as the steps so far leave it
	to map[string]*load
}

// move holds the steps that a workload has still to take.
type move struct {
	workload string
	from, to []decision.Place
	n        int
	request  bool
	guarded  int // 1 = has objectives
}

// order finds the steps to the target: a workload moves when all its new devices are free, a node is configured when
// nothing is on it any more, and what has no objectives goes first.
func (c *cluster) order(loads []*load, seats map[string]seat) *order {
	o := &order{c: c, seats: seats, moved: map[string]bool{}, at: map[string]*load{}, to: map[string]*load{}}
	for _, l := range c.seated() {
		o.at[l.node.Name] = l
	}
	var nodes []*load
	for _, l := range loads {
		o.to[l.node.Name] = l
		if l.fresh {
			nodes = append(nodes, l)
		}
	}
	slices.SortFunc(nodes, func(x, y *load) int { return cmp.Compare(x.node.Name, y.node.Name) })
	moves := o.moves()
	for len(moves)+len(nodes) > 0 {
		if i := slices.IndexFunc(moves, o.free); i >= 0 {
			o.take(&moves[i])
			moves = slices.Delete(moves, i, i+1)
			continue
		}
		i := slices.IndexFunc(nodes, func(l *load) bool { return len(o.at[l.node.Name].run) == 0 })
		if i < 0 { // the last move that waits, or somebody whom nothing moves off a node
			if len(moves) > 0 {
				o.stuck = moves[len(moves)-1].workload
			} else {
				o.stuck = slices.Sorted(maps.Keys(o.at[nodes[0].node.Name].run))[0]
			}
			return o
		}
		l := nodes[i]
		nodes = slices.Delete(nodes, i, i+1)
		gets := l.shape
		o.steps = append(o.steps, Step{Action: ActionConfigure, Node: l.node.Name, Pool: l.node.Pool,
			Was: ShapeOf(l.node.Node).String(), Gets: &gets})
		o.at[l.node.Name] = newLoad(l.node, l.shape)
	}
	for _, n := range c.nodes {
		if l := o.to[n.Name]; len(n.run) > 0 && len(l.run) == 0 && !l.fresh {
			o.steps = append(o.steps, Step{Action: ActionFree, Node: n.Name, Pool: n.Pool, Was: ShapeOf(n.Node).String()})
		}
	}
	return o
}

// moves lists what has to move, what has no objectives first. All replicas of a workload whose request changes move.
func (o *order) moves() []move {
	var out []move
	on := map[string][]*node{} // before or after
	for _, n := range o.c.nodes {
		all := maps.Clone(n.run)
		maps.Copy(all, o.to[n.Name].run)
		for w := range all {
			on[w] = append(on[w], n)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(o.seats)) {
		m := move{workload: w, request: o.seats[w] != o.c.today[w]}
		if o.c.of[w].SLO != (profile.SLO{}) || o.c.of[w].Kind == decision.KindOnlineInference {
			m.guarded = 1
		}
		for _, n := range on[w] {
			to := o.to[n.Name]
			now, then := n.run[w], to.run[w]
			if both := min(now, then); !m.request && !to.fresh {
				now, then = now-both, then-both
			}
			if now > 0 {
				m.from = append(m.from, decision.Place{Node: n.Name, Replicas: now})
			}
			if then > 0 {
				m.to = append(m.to, decision.Place{Node: n.Name, Replicas: then})
				m.n += then
			}
		}
		if m.n > 0 {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(x, y move) int {
		return cmp.Or(cmp.Compare(x.guarded, y.guarded), cmp.Compare(x.n, y.n))
	})
	return out
}

// free reports whether every device that a move needs is there and nobody's.
func (o *order) free(m move) bool {
	k, spare, surges := o.c.want(m.workload, o.seats[m.workload]), 0, false
	for _, to := range m.to {
		l := o.at[to.Node]
		if l.shape.String() != o.to[to.Node].shape.String() || l.free(k) < to.Replicas {
			return false
		}
		spare -= to.Replicas
	}
	if t := o.c.of[m.workload].Today; !m.request && len(m.from) > 0 && t.Object != "StatefulSet" {
		for _, l := range o.at { // a new template replaces the replicas that stay as well
			if to := o.to[l.node.Name]; to != nil && to.run[m.workload] > 0 && l.shape.String() == to.shape.String() {
				spare += l.free(k)
				surges = surges || l.run[m.workload] > 0
			}
		}
	}
	// Those that leave may be the first to stop: then the next one starts before one that stays.
	return (!surges || spare > 0) && o.allowed(m)
}

// allowed reports whether the namespace's quota leaves room for a replica more while the workload moves.
func (o *order) allowed(m move) bool {
	k := o.c.want(m.workload, o.seats[m.workload])
	more := k.each // one replica at a time, where the resource is the same
	if m.request {
		more = m.n * k.each
	}
	return !slices.ContainsFunc(o.c.fleet.Today.Quotas, func(q decision.Quota) bool {
		return q.Namespace == namespace(m.workload) && q.Resource == k.seat.resource() && q.Free < more
	})
}

// resource names the extended resource of such a device, as pods ask the device plugin for it.
func (s seat) resource() string {
	if s.mechanism == sharing.MechanismMIG {
		return "nvidia.com/mig-" + s.profile
	}
	return "nvidia.com/gpu"
}

func (o *order) take(m *move) {
	was, is := o.c.want(m.workload, o.c.today[m.workload]), o.c.want(m.workload, o.seats[m.workload])
	shift(o.at, was, m.from, is, m.to)
	s := Step{Pool: o.c.byName[m.to[0].Node].Pool, Workload: m.workload, Replicas: m.n, From: m.from, To: m.to,
		Seat: is.seat.String(), Request: m.request}
	if t := o.c.of[m.workload].Today; t != nil {
		if s.Object = t.Object; t.Object == "StatefulSet" {
			s.Budget = o.c.budgets[m.workload].Name
		}
	}
	o.moved[m.workload] = true
	o.steps = append(o.steps, s)
}

// shift moves replicas between nodes.
func shift(at map[string]*load, was *want, from []decision.Place, is *want, to []decision.Place) {
	for _, on := range to {
		l := at[on.Node]
		l.run[is.workload] += on.Replicas
		l.used[is.seat] += on.Replicas * is.each
	}
	for _, on := range from {
		l := at[on.Node]
		if l.run[was.workload] -= on.Replicas; l.run[was.workload] == 0 {
			delete(l.run, was.workload)
		}
		l.used[was.seat] -= on.Replicas * was.each
	}
}
