// SPDX-License-Identifier: Apache-2.0

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

// repackSlices packs the instances exactly, now that all are known.
func (g *Group) repackSlices() error {
	packed, err := g.exact()
	if err == nil && len(packed) < len(g.Sliced) {
		g.Sliced = packed
	}
	return err
}

// exact packs the group's instances on as few GPUs as possible: by mig.Pack, with the instances of each profile
// handed out in the order of their workloads.
func (g *Group) exact() (gpus []sliced, err error) {
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
		return nil, nil
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
		return nil, fmt.Errorf("decision: %w", err)
	}
	for _, layout := range packing.Layouts() {
		gpus = append(gpus, handOut(layout, waiting))
	}
	return gpus, nil
}

// handOut gives the instances of a layout to the members that wait for their profile.
func handOut(l mig.Layout, waiting map[string][]Member) sliced {
	s := sliced{Layout: l}
	for _, in := range l.Instances {
		queue := waiting[in.Profile.Name]
		s.Members, waiting[in.Profile.Name] = append(s.Members, queue[0]), queue[1:]
	}
	return s
}
