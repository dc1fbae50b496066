package decision

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func parseLayout(m *mig.Model, text string) (mig.Layout, error) { return m.ParseLayout(text) }

// instancesOf is how many instances a choice needs for its replicas, and how
// many replicas each holds.
func instancesOf(m sharing.Mechanism, replicas int) (instances, each int) {
	each = 1
	if m == sharing.MIGWithMPS {
		each = clientsPerInstance
	}
	return (replicas + each - 1) / each, each
}

// clientsPerInstance is how many replicas of a workload share one MIG instance
// under MPS.
const clientsPerInstance = 2

// cut puts a workload's instances on the group's GPUs in order, then on new
// ones, and returns how many it opened. With commit unset nothing changes.
func (g *group) cut(w int, c *choice, replicas int, commit bool) (int, error) {
	prof := g.pool.profiles[c.profile].profile
	instances, each := instancesOf(c.mechanism, replicas)
	gpus := g.sliced
	if !commit {
		gpus = slices.Clone(g.sliced)
	}
	opened := 0
	open := 0
	for instances > 0 {
		if open == len(gpus) {
			gpus = append(gpus, sliced{layout: mig.Layout{Model: g.pool.model}})
			opened++
		}
		ok, err := gpus[open].add(g.pool.model, prof, member{w, min(each, replicas)})
		if err != nil {
			return 0, err
		}
		if !ok {
			open++
			if opened > 0 && len(gpus[len(gpus)-1].members) == 0 {
				return 0, fmt.Errorf("decision: %s does not fit an empty %s", prof.Name, g.pool.gpu.Name)
			}
			continue
		}
		instances--
		replicas -= min(each, replicas)
	}
	if commit {
		g.sliced = gpus
	}
	return opened, nil
}

// add places one more instance on the GPU, if there is room for it.
func (s *sliced) add(m *mig.Model, p *mig.Profile, who member) (bool, error) {
	units := 0
	for _, in := range s.layout.Instances {
		units += in.Size
	}
	if units+p.PlacementUnits > m.Units {
		return false, nil
	}
	if room, err := s.layout.Fits(p); err != nil || room == 0 && len(s.layout.Instances) > 0 {
		return false, err
	}
	next, err := m.Place([]mig.Count{{Profile: p.Name, N: 1}}, s.layout)
	if err != nil {
		return false, fmt.Errorf("decision: %w", err)
	}
	members := make([]member, 0, len(next.Instances))
	old := 0
	for _, in := range next.Instances {
		if old < len(s.layout.Instances) && s.layout.Instances[old].Start == in.Start {
			members = append(members, s.members[old])
			old++
			continue
		}
		members = append(members, who)
	}
	s.layout, s.members = next, members
	return true, nil
}

// repackSlices packs the instances again, now that all are known, and keeps
// the result where it takes fewer GPUs.
func (g *group) repackSlices() error {
	if len(g.sliced) < 2 {
		return nil
	}
	type piece struct {
		profile *mig.Profile
		member  member
	}
	var pieces []piece
	for i := range g.sliced {
		for k, in := range g.sliced[i].layout.Instances {
			pieces = append(pieces, piece{in.Profile, g.sliced[i].members[k]})
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(b.profile.PlacementUnits, a.profile.PlacementUnits),
			cmp.Compare(b.profile.ComputeSlices, a.profile.ComputeSlices), cmp.Compare(a.member.workload, b.member.workload))
	})
	var gpus []sliced
	for _, p := range pieces {
		placed := false
		for i := 0; i < len(gpus) && !placed; i++ {
			var err error
			if placed, err = gpus[i].add(g.pool.model, p.profile, p.member); err != nil {
				return err
			}
		}
		if placed {
			continue
		}
		s := sliced{layout: mig.Layout{Model: g.pool.model}}
		if _, err := s.add(g.pool.model, p.profile, p.member); err != nil {
			return err
		}
		gpus = append(gpus, s)
	}
	if len(gpus) < len(g.sliced) {
		g.sliced = gpus
	}
	return nil
}

// slicedBound is what no packing of the instances can go below: units and
// compute slices must fit.
func (g *group) slicedBound() int {
	units, compute := 0, 0
	for i := range g.sliced {
		for _, in := range g.sliced[i].layout.Instances {
			units += in.Size
			compute += in.Profile.ComputeSlices
		}
	}
	m := g.pool.model
	return max((units+m.Units-1)/max(1, m.Units), (compute+m.ComputeSlices-1)/max(1, m.ComputeSlices))
}

// Migration is how a pool gets from the layouts that are there to the plan.
type Migration struct {
	Keep    int      `json:"keep"`
	Destroy int      `json:"destroy"`
	Busy    int      `json:"busy_destroyed"`
	Create  int      `json:"create"`
	Steps   []string `json:"steps"`
}

// migration pairs the layouts that are there with those of the plan so that
// many instances stay, and lists what goes and comes on each GPU.
func (pl *planner) migration(p int) (*Migration, error) {
	cp := pl.pools[p]
	if len(cp.pool.Layouts) == 0 || cp.model == nil {
		return nil, nil
	}
	var want []mig.Layout
	for _, key := range pl.groupKeys() {
		if key.pool == p {
			for i := range pl.groups[key].sliced {
				want = append(want, pl.groups[key].sliced[i].layout)
			}
		}
	}
	m := &Migration{Steps: []string{}}
	taken := make([]bool, len(want))
	for i, text := range cp.pool.Layouts {
		have, err := parseLayout(cp.model, text)
		if err != nil {
			return nil, fmt.Errorf("decision: pool %q: layouts[%d]: %w", cp.pool.Name, i, err)
		}
		best, most := -1, -1
		for k := range want {
			if n := common(have, want[k]); !taken[k] && n > most {
				best, most = k, n
			}
		}
		target := mig.Layout{Model: cp.model}
		if best >= 0 {
			taken[best], target = true, want[best]
		}
		m.step(fmt.Sprintf("GPU %d", i), have, target)
	}
	for k := range want {
		if !taken[k] {
			m.step("another GPU", mig.Layout{Model: cp.model}, want[k])
		}
	}
	return m, nil
}

func common(a, b mig.Layout) int {
	n := 0
	for _, in := range a.Instances {
		if holds(b, in) {
			n++
		}
	}
	return n
}

func holds(l mig.Layout, in mig.Instance) bool {
	return slices.ContainsFunc(l.Instances, func(o mig.Instance) bool { return o.Profile == in.Profile && o.Start == in.Start })
}

func (m *Migration) step(gpu string, have, want mig.Layout) {
	var destroy, create []string
	for _, in := range have.Instances {
		if holds(want, in) {
			m.Keep++
			continue
		}
		m.Destroy++
		if in.Busy {
			m.Busy++
		}
		destroy = append(destroy, in.String())
	}
	for _, in := range want.Instances {
		if !holds(have, in) {
			m.Create++
			create = append(create, in.String())
		}
	}
	if len(destroy)+len(create) > 0 {
		m.Steps = append(m.Steps, fmt.Sprintf("%s: destroy %v, create %v", gpu, destroy, create))
	}
}
