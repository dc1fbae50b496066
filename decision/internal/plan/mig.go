// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/mig"
)

func (g *Group) model() *mig.Model { return g.Pool.Target().Model() }

// repackSlices packs the group's instances on as few GPUs as possible: by mig.Pack, with the instances of each profile
// handed out in the order of their workloads.
func (g *Group) repackSlices() error {
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
		return fmt.Errorf("decision: %w", err)
	}
	layouts := packing.Layouts()
	if len(layouts) == len(g.Sliced) {
		return nil
	}
	g.Sliced = nil
	for _, layout := range layouts {
		g.Sliced = append(g.Sliced, handOut(layout, waiting))
	}
	return nil
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
