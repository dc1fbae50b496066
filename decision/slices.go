package decision

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
)

func (g *group) model() *mig.Model { return g.pool.ground.Model() }

// cut puts a workload's instances on the group's GPUs in order, then on new
// ones, and returns how many it opened. With commit unset nothing changes.
func (g *group) cut(w int, c *choice, replicas int, commit bool) (int, error) {
	prof := c.slice.Profile
	each := gate.PerInstance(c.mechanism)
	instances := (replicas + each - 1) / each
	gpus := g.sliced
	if !commit {
		gpus = slices.Clone(g.sliced)
	}
	opened := 0
	open := 0
	for instances > 0 {
		if open == len(gpus) {
			gpus = append(gpus, sliced{layout: mig.Layout{Model: g.model()}})
			opened++
		}
		ok, err := gpus[open].add(g.model(), prof, member{w, min(each, replicas)})
		if err != nil {
			return 0, err
		}
		if !ok {
			open++
			if opened > 0 && len(gpus[len(gpus)-1].members) == 0 {
				return 0, fmt.Errorf("decision: %s does not fit an empty %s", prof.Name, g.pool.ground.GPU().Name)
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

// leastSliced bounds the GPUs that the group's instances take from below.
func (g *group) leastSliced() int {
	units := 0
	for i := range g.sliced {
		for _, in := range g.sliced[i].layout.Instances {
			units += in.Size
		}
	}
	return (units + g.model().Units - 1) / g.model().Units
}

// repackSlices packs the instances exactly, now that all are known, and keeps the proven lower bound.
func (g *group) repackSlices() error {
	packed, bound, err := g.exact(g.pieces())
	if err != nil {
		return err
	}
	g.bound = bound
	if len(packed) < len(g.sliced) {
		g.sliced = packed
	}
	return nil
}

// piece is an instance and who has it.
type piece struct {
	profile *mig.Profile
	member  member
}

func (g *group) pieces() []piece {
	var out []piece
	for i := range g.sliced {
		for k, in := range g.sliced[i].layout.Instances {
			out = append(out, piece{in.Profile, g.sliced[i].members[k]})
		}
	}
	return out
}

// exact packs pieces on as few GPUs as possible: by mig.Pack, with the pieces
// of each profile handed out in the order of their workloads.
func (g *group) exact(pieces []piece) (gpus []sliced, bound int, err error) {
	if len(pieces) == 0 {
		return nil, 0, nil
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.member.workload, b.member.workload) })
	waiting := map[*mig.Profile][]member{}
	var demand []mig.Count
	for _, p := range pieces {
		if waiting[p.profile] == nil {
			demand = append(demand, mig.Count{Profile: p.profile.Name})
		}
		waiting[p.profile] = append(waiting[p.profile], p.member)
	}
	for i := range demand {
		prof, err := g.model().Profile(demand[i].Profile)
		if err != nil {
			return nil, 0, fmt.Errorf("decision: %w", err)
		}
		demand[i].N = len(waiting[prof])
	}
	packing, err := g.model().Pack(demand)
	if err != nil {
		return nil, 0, fmt.Errorf("decision: %w", err)
	}
	for _, layout := range packing.Layouts() {
		s := sliced{layout: layout}
		for _, in := range layout.Instances {
			queue := waiting[in.Profile]
			s.members = append(s.members, queue[0])
			waiting[in.Profile] = queue[1:]
		}
		gpus = append(gpus, s)
	}
	return gpus, int(packing.LowerBound), nil
}
