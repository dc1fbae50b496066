// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cotenant/cotenant/internal/optional"
)

// DiffOptions tune Diff. The zero value is the documented default.
type DiffOptions struct {
	// AllowBusy lets the plan destroy instances that are in use, as few as
	// possible. Otherwise such a change is an ErrBusy.
	AllowBusy bool
}

// Diff plans the change of a GPU from the layout have to exactly the wanted instances. A GPU instance that is divided
// into several compute instances matches none of them. Among all plans it prefers, in this order: the fewest destroyed
// instances in use, the fewest destroyed instances, a GPU that is never empty between steps, the fewest completed
// instances, and the most free starts. Instances that remain are not touched, except that those without compute
// instances get them.
//
// The error is an ErrInvalid, ErrPlacementsUnknown, ErrInfeasible when the wanted instances don't fit on an empty GPU,
// or ErrBusy, with the instances in use.
func Diff(m *Model, have Layout, want []Count, opts DiffOptions) (ChangePlan, error) {
	if m == nil {
		return ChangePlan{}, invalid(errors.New("the GPU has no model (Lookup finds one)"))
	}
	n, err := m.resolve("want", want)
	if err != nil {
		return ChangePlan{}, err
	}
	if m.grid == nil {
		if err := m.refuteBlind(n, Layout{}); err != nil {
			return ChangePlan{}, err
		}
	}
	if _, err := m.stateOf(have); err != nil {
		return ChangePlan{}, err
	}
	have.Model = m
	have.Instances = slices.Clone(have.Instances)
	have.sort()
	if _, ok := m.search(state{}, n); !ok {
		return ChangePlan{}, m.explain(n, Layout{})
	}
	df := differ{m: m, have: have.Instances, want: n}
	plan := df.best()
	plan.Have = have
	if plan.BusyDestroyed == 0 || opts.AllowBusy {
		return plan, nil
	}
	busy := slices.DeleteFunc(slices.Clone(plan.Destroy), func(in Instance) bool { return !in.Busy })
	return ChangePlan{}, &busyError{Busy: busy, Plan: plan}
}

// PlanChange reads a device and plans its change to the wanted instances as Diff does. If MIG mode is off and the plan
// creates instances, it switches MIG mode on.
func PlanChange(ctx context.Context, dev Device, want []Count, opts DiffOptions) (ChangePlan, error) {
	state, err := dev.State(ctx)
	if err != nil {
		return ChangePlan{}, opError("read state", state.UUID, err)
	}
	p, err := Diff(state.Model, state.Layout(), want, opts)
	if err == nil && !state.Mode && len(p.Create) > 0 {
		p.Mode = optional.Of(true)
	}
	return p, err
}

// differ looks for the best set of instances to keep.
type differ struct {
	m    *Model
	have []Instance
	want [maxProfiles]int
}

// best tries every set of instances to keep, those that lose least first. The
// empty set is among them, so there is an answer.
func (df *differ) best() ChangePlan {
	sets := make([]uint32, 1<<len(df.have))
	busy := uint32(0)
	for i, in := range df.have {
		if in.Busy {
			busy |= 1 << i
		}
	}
	for i := range sets {
		sets[i] = uint32(i)
	}
	slices.SortStableFunc(sets, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(popcount(b&busy), popcount(a&busy)), cmp.Compare(popcount(b), popcount(a)))
	})
	var best ChangePlan
	found := false
	var at [2]int
	for _, keep := range sets {
		rank := [2]int{popcount(keep & busy), popcount(keep)}
		if found && rank != at {
			break
		}
		plan, ok := df.keeping(keep)
		if ok && (!found || better(plan, best)) {
			best, at, found = plan, rank, true
		}
	}
	return best
}

// better compares plans that destroy as much.
func better(a, b ChangePlan) bool {
	if a.Empties != b.Empties {
		return !a.Empties
	}
	return cmp.Or(cmp.Compare(len(a.Complete), len(b.Complete)), cmp.Compare(b.freeStarts(), a.freeStarts())) < 0
}

func (p *ChangePlan) freeStarts() int32 {
	mask := uint32(0)
	for _, in := range p.Want.Instances {
		mask |= (1<<in.Size - 1) << in.Start
	}
	return p.Model.grid.flexibility()[mask]
}

// keeping plans with a given set kept; ok is false when the set is no part of
// the demand or the rest can't be placed with it.
func (df *differ) keeping(keep uint32) (ChangePlan, bool) {
	m, n := df.m, df.want
	var st state
	var complete []int // kept instances without compute instances, which get one
	for i, in := range df.have {
		if keep>>i&1 == 0 {
			continue
		}
		p := in.Profile.index
		bare := in.Compute != nil && len(in.Compute) == 0
		if n[p] == 0 || !bare && !sameCompute(in, nil) {
			return ChangePlan{}, false
		}
		n[p]--
		if bare {
			complete = append(complete, i)
		}
		m.grid.add(&st, m.grid.slotOf(p, in.Placement))
	}
	slots, ok := m.search(st, n)
	if !ok {
		return ChangePlan{}, false
	}
	have := Layout{Model: m, Instances: df.have}
	plan := m.plan(have, keep, m.instances(slots), complete)
	if plan.Empties {
		if bridged, ok := df.bridge(n); ok {
			return bridged, true
		}
	}
	return plan, true
}

// bridge plans a complete exchange in which the first new instance is created
// while an old one exists, so that the GPU stays partitioned throughout.
func (df *differ) bridge(n [maxProfiles]int) (ChangePlan, bool) {
	g := df.m.grid
	for _, old := range df.have {
		var single state
		g.add(&single, g.slotOf(old.Profile.index, old.Placement))
		for _, p := range df.m.sizeOrder {
			if n[p] == 0 {
				continue
			}
			order := g.best(p, single.mask)
			for _, s := range order.slots[:order.n] {
				if !g.fits(&single, s) {
					continue
				}
				var first state
				g.add(&first, s)
				rest := n
				rest[p]--
				if slots, ok := df.m.search(first, rest); ok {
					create := df.m.instances(append([]int{s}, slots...))
					return df.m.plan(Layout{Model: df.m, Instances: df.have}, 0, create, nil), true
				}
			}
		}
	}
	return ChangePlan{}, false
}

// plan orders the steps; complete lists the kept instances that have no compute instance yet. Instances are
// destroyed first and created after, but the last old one stays until the first new one exists where that is
// possible and nothing else keeps the GPU partitioned.
func (m *Model) plan(have Layout, keep uint32, create []Instance, complete []int) ChangePlan {
	p := ChangePlan{Model: m, Have: have, Create: create, Want: Layout{Model: m}}
	for i, in := range have.Instances {
		switch {
		case slices.Contains(complete, i):
			in.Compute = nil
			p.Complete = append(p.Complete, in)
			p.Steps = append(p.Steps, Step{opComplete, in})
			continue
		case keep>>i&1 == 1:
			p.Keep = append(p.Keep, in)
			continue
		}
		p.Destroy = append(p.Destroy, in)
		if in.Busy {
			p.BusyDestroyed++
		}
	}
	p.Want.Instances = slices.Concat(p.Keep, p.Complete, create)
	p.Want.sort()
	byStart := func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) }
	slices.SortFunc(p.Create, byStart)
	last, first := -1, -1
	if len(p.Keep)+len(p.Complete) == 0 && len(p.Destroy) > 0 && len(p.Create) > 0 {
		if last, first = m.bridgeOf(p.Destroy, p.Create); last < 0 {
			p.Empties = true
		}
	}
	for i, in := range p.Destroy {
		if i != last {
			p.Steps = append(p.Steps, Step{opDestroy, in})
		}
	}
	if last >= 0 {
		p.Steps = append(p.Steps, Step{opCreate, p.Create[first]}, Step{opDestroy, p.Destroy[last]})
	}
	for i, in := range p.Create {
		if i != first {
			p.Steps = append(p.Steps, Step{opCreate, in})
		}
	}
	return p
}

// bridgeOf returns an old and a new instance that can exist at the same time, or -1.
func (m *Model) bridgeOf(destroy, create []Instance) (last, first int) {
	g := m.grid
	for i, old := range destroy {
		var st state
		g.add(&st, g.slotOf(old.Profile.index, old.Placement))
		for j, in := range create {
			if g.fits(&st, g.slotOf(in.Profile.index, in.Placement)) {
				return i, j
			}
		}
	}
	return -1, -1
}
