package decision

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/mig"
)

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
func (pl *planner) migrate() error {
	pl.migrations = make([]*Migration, len(pl.pools))
	for p, cp := range pl.pools {
		if len(cp.pool.Layouts) == 0 || cp.ground.Model() == nil {
			continue
		}
		m := &Migration{Steps: []string{}}
		pl.migrations[p] = m
		var targets []*sliced
		others := 0
		for _, key := range pl.groupKeys() {
			g := pl.groups[key]
			if key.pool != p {
				continue
			}
			others += g.gpus() - len(g.sliced)
			for i := range g.sliced {
				targets = append(targets, &g.sliced[i])
			}
		}
		haves := make([]mig.Layout, len(cp.pool.Layouts))
		for i, text := range cp.pool.Layouts {
			have, err := cp.ground.Model().ParseLayout(text)
			if err != nil {
				return fmt.Errorf("decision: pool %q: layouts[%d]: %w", cp.pool.Name, i, err)
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
		var rest []*sliced
		for k, target := range targets {
			if !taken[k] {
				rest = append(rest, target)
			}
		}
		targets = rest
		for _, target := range targets {
			if err := m.onto("another GPU", mig.Layout{Model: cp.ground.Model()}, target); err != nil {
				return err
			}
		}
		// Whole GPUs that the rest of the pool cannot supply are cleared, the least busy first.
		short := others - (cp.pool.Count - len(haves) - len(targets))
		slices.SortStableFunc(idle, func(a, b int) int { return cmp.Compare(busyIn(haves[a]), busyIn(haves[b])) })
		for k, i := range idle {
			if k < short {
				if err := m.onto(fmt.Sprintf("GPU %d", i), haves[i],
					&sliced{layout: mig.Layout{Model: cp.ground.Model()}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func busyIn(l mig.Layout) int {
	n := 0
	for _, in := range l.Instances {
		if in.Busy {
			n++
		}
	}
	return n
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
			for _, in := range t.layout.Instances {
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
	plan, err := mig.Diff(target.layout.Model, have, target.layout.Counts(), mig.DiffOptions{AllowBusy: true})
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	waiting := map[*mig.Profile][]member{}
	for k, in := range target.layout.Instances {
		waiting[in.Profile] = append(waiting[in.Profile], target.members[k])
	}
	target.layout, target.members = plan.Want, nil
	for _, in := range plan.Want.Instances {
		queue := waiting[in.Profile]
		target.members = append(target.members, queue[0])
		waiting[in.Profile] = queue[1:]
	}
	m.Keep += len(plan.Keep) + len(plan.Complete)
	m.Destroy += len(plan.Destroy)
	m.Create += len(plan.Create)
	m.Busy += plan.BusyDestroyed
	for _, s := range plan.Steps {
		m.Steps = append(m.Steps, gpu+": "+s.String())
	}
	return nil
}
