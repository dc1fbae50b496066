package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
)

func (g *Group) model() *mig.Model { return g.Pool.Ground().Model() }

// cut puts a workload's instances on the group's GPUs in order, then on new ones.
func (g *Group) cut(w int, c *Choice, replicas int) error {
	each := gate.PerInstance(c.Mechanism)
	for open := 0; replicas > 0; {
		if open == len(g.Sliced) {
			g.Sliced = append(g.Sliced, sliced{Layout: mig.Layout{Model: g.model()}})
		}
		at := &g.Sliced[open]
		ok, err := at.add(g.model(), c.Slice.Profile, Member{w, min(each, replicas)})
		switch {
		case err != nil:
			return err
		case ok:
			replicas -= min(each, replicas)
		case len(at.Members) == 0:
			return fmt.Errorf("decision: %s does not fit an empty %s", c.Slice.Profile.Name, g.Pool.Ground().GPU().Name)
		default:
			open++
		}
	}
	return nil
}

// add places one more instance on the GPU, if there is room for it.
func (s *sliced) add(m *mig.Model, p *mig.Profile, who Member) (bool, error) {
	units := 0
	for _, in := range s.Layout.Instances {
		units += in.Size
	}
	if units+p.PlacementUnits > m.Units {
		return false, nil
	}
	if room, err := s.Layout.Fits(p); err != nil || room == 0 && len(s.Layout.Instances) > 0 {
		return false, err
	}
	next, err := m.Place([]mig.Count{{Profile: p.Name, N: 1}}, s.Layout)
	if err != nil {
		return false, fmt.Errorf("decision: %w", err)
	}
	members := make([]Member, 0, len(next.Instances))
	old := 0
	for _, in := range next.Instances {
		if old < len(s.Layout.Instances) && s.Layout.Instances[old].Start == in.Start {
			members = append(members, s.Members[old])
			old++
			continue
		}
		members = append(members, who)
	}
	s.Layout, s.Members = next, members
	return true, nil
}

// leastSliced bounds the GPUs that the group's instances take from below.
func (g *Group) leastSliced() int {
	units := 0
	for i := range g.Sliced {
		for _, in := range g.Sliced[i].Layout.Instances {
			units += in.Size
		}
	}
	return (units + g.model().Units - 1) / g.model().Units
}

// repackSlices packs the instances exactly, now that all are known, and keeps the proven lower bound.
func (g *Group) repackSlices() error {
	packed, bound, err := g.exact()
	if err != nil {
		return err
	}
	g.Bound = bound
	if len(packed) < len(g.Sliced) {
		g.Sliced = packed
	}
	return nil
}

// exact packs the group's instances on as few GPUs as possible: by mig.Pack, with the instances of each profile
// handed out in the order of their workloads.
func (g *Group) exact() (gpus []sliced, bound int, err error) {
	type piece struct {
		profile string
		member  Member
	}
	var pieces []piece
	for i := range g.Sliced {
		for k, in := range g.Sliced[i].Layout.Instances {
			pieces = append(pieces, piece{in.Profile.Name, g.Sliced[i].Members[k]})
		}
	}
	if len(pieces) == 0 {
		return nil, 0, nil
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.member.Workload, b.member.Workload) })
	waiting := map[string][]Member{}
	var demand []mig.Count
	for _, p := range pieces {
		if waiting[p.profile] == nil {
			demand = append(demand, mig.Count{Profile: p.profile})
		}
		waiting[p.profile] = append(waiting[p.profile], p.member)
	}
	for i := range demand {
		demand[i].N = len(waiting[demand[i].Profile])
	}
	packing, err := g.model().Pack(demand)
	if err != nil {
		return nil, 0, fmt.Errorf("decision: %w", err)
	}
	for _, layout := range packing.Layouts() {
		gpus = append(gpus, handOut(layout, waiting))
	}
	return gpus, int(packing.LowerBound), nil
}

// handOut gives the instances of a layout to members who wait for their profile.
func handOut(l mig.Layout, waiting map[string][]Member) sliced {
	s := sliced{Layout: l}
	for _, in := range l.Instances {
		queue := waiting[in.Profile.Name]
		s.Members, waiting[in.Profile.Name] = append(s.Members, queue[0]), queue[1:]
	}
	return s
}

// Migration leads a pool from the layouts that are there to the plan,
// GPU by GPU, with as few instances destroyed as mig.Diff finds possible.
type Migration struct {
	Keep    int      `json:"keep"`
	Destroy int      `json:"destroy"`
	Busy    int      `json:"busy_destroyed"`
	Create  int      `json:"create"`
	Steps   []string `json:"steps"` // in order, each with its GPU
}

// migrate pairs the layouts that are there with those of the plan, and moves
// the plan's instances to where they destroy least.
func (pl *Planner) migrate() error {
	pl.Migrations = make([]*Migration, len(pl.Pools))
	for p, cp := range pl.Pools {
		if len(cp.Pool.Layouts) == 0 || cp.Ground().Model() == nil {
			continue
		}
		m := &Migration{Steps: []string{}}
		pl.Migrations[p] = m
		var targets []*sliced
		others := 0
		for _, key := range pl.GroupKeys() {
			g := pl.Groups[key]
			if key.Pool != p {
				continue
			}
			others += g.GPUs() - len(g.Sliced)
			for i := range g.Sliced {
				targets = append(targets, &g.Sliced[i])
			}
		}
		haves := make([]mig.Layout, len(cp.Pool.Layouts))
		for i, text := range cp.Pool.Layouts {
			have, err := cp.Ground().Model().ParseLayout(text)
			if err != nil {
				return fmt.Errorf("decision: pool %q: layouts[%d]: %w", cp.Pool.Name, i, err)
			}
			haves[i] = have
		}
		var idle []int // GPUs with a layout that the plan has no instances for
		taken := make([]bool, len(targets))
		for i, k := range pairUp(haves, targets) {
			if k < 0 {
				idle = append(idle, i)
				continue
			}
			taken[k] = true
			if err := m.onto(fmt.Sprintf("GPU %d", i), haves[i], targets[k]); err != nil {
				return err
			}
		}
		short := others - (cp.Pool.Count - len(haves))
		for k, target := range targets {
			if taken[k] {
				continue
			}
			short++
			if err := m.onto("another GPU", mig.Layout{Model: cp.Ground().Model()}, target); err != nil {
				return err
			}
		}
		// Whole GPUs that the rest of the pool cannot supply are cleared, the least busy first.
		slices.SortStableFunc(idle, func(a, b int) int { return cmp.Compare(busyIn(haves[a]), busyIn(haves[b])) })
		for k, i := range idle {
			if k < short {
				if err := m.onto(fmt.Sprintf("GPU %d", i), haves[i],
					&sliced{Layout: mig.Layout{Model: cp.Ground().Model()}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func busyIn(l mig.Layout) int {
	return len(slices.DeleteFunc(slices.Clone(l.Instances), func(in mig.Instance) bool { return !in.Busy }))
}

// pairUp gives each layout a target, or -1: those first whose change destroys
// fewest busy instances, then fewest, then keeps most.
func pairUp(haves []mig.Layout, targets []*sliced) []int {
	type pair struct{ have, target, busy, destroyed, kept int }
	pairs := make([]pair, 0, len(haves)*len(targets))
	for i, have := range haves {
		for k, t := range targets {
			pr := pair{have: i, target: k}
			counts := map[*mig.Profile]int{}
			for _, in := range t.Layout.Instances {
				counts[in.Profile]++
			}
			for _, busy := range []bool{true, false} {
				for _, in := range have.Instances {
					switch {
					case in.Busy != busy:
					case counts[in.Profile] > 0:
						counts[in.Profile]--
						pr.kept++
					default:
						pr.destroyed++
						if busy {
							pr.busy++
						}
					}
				}
			}
			pairs = append(pairs, pr)
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.busy, b.busy), cmp.Compare(a.destroyed, b.destroyed), cmp.Compare(b.kept, a.kept))
	})
	out := slices.Repeat([]int{-1}, len(haves))
	taken := make([]bool, len(targets))
	for _, pr := range pairs {
		if out[pr.have] < 0 && !taken[pr.target] {
			out[pr.have], taken[pr.target] = pr.target, true
		}
	}
	return out
}

// onto adds the change from have to a target's instances, and puts those where the change leaves them.
func (m *Migration) onto(gpu string, have mig.Layout, target *sliced) error {
	plan, err := mig.Diff(target.Layout.Model, have, target.Layout.Counts(), mig.DiffOptions{AllowBusy: true})
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	waiting := map[string][]Member{}
	for k, in := range target.Layout.Instances {
		waiting[in.Profile.Name] = append(waiting[in.Profile.Name], target.Members[k])
	}
	*target = handOut(plan.Want, waiting)
	m.Keep += len(plan.Keep) + len(plan.Complete)
	m.Destroy += len(plan.Destroy)
	m.Create += len(plan.Create)
	m.Busy += plan.BusyDestroyed
	for _, s := range plan.Steps {
		m.Steps = append(m.Steps, gpu+": "+s.String())
	}
	return nil
}
