// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// infeasibleError is the error for instances that can't be placed, with the reason. It is an ErrInfeasible.
type infeasibleError struct {
	GPU  string
	Want []Count // the smallest part of the demand that can't be placed
	// Blockers is the smallest set of present instances that is in its way;
	// empty when Want does not even fit an empty GPU.
	Blockers []Instance
	Detail   string // why, in words
}

func (e *infeasibleError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mig: %s can't be placed on %s", countsText(e.Want), e.GPU)
	if len(e.Blockers) > 0 {
		fmt.Fprintf(&b, " next to %s", Layout{Instances: e.Blockers})
	}
	return b.String() + ": " + e.Detail
}

func (e *infeasibleError) Is(target error) bool { return target == ErrInfeasible }

func countsText(counts []Count) string {
	var parts []string
	for _, c := range counts {
		parts = append(parts, strings.TrimPrefix(fmt.Sprintf("%d x %s", c.N, c.Profile), "1 x "))
	}
	return strings.Join(parts, " + ")
}

// explain finds the smallest reason why n can't be placed with have. The parts of n that can be placed are grown
// one instance at a time, so the first that can't is a smallest one.
func (m *Model) explain(n [maxProfiles]int, have Layout) *infeasibleError {
	st, err := m.stateOf(have)
	if err != nil {
		return &infeasibleError{GPU: m.Key, Want: m.counts(n), Detail: err.Error()}
	}
	part := m.smallestPart(n, st)
	e := &infeasibleError{GPU: m.Key, Want: m.counts(part)}
	e.Blockers = m.smallestBlockers(part, have)
	e.Detail = m.why(part, e.Blockers)
	return e
}

func (m *Model) smallestPart(n [maxProfiles]int, st state) [maxProfiles]int {
	frontier := [][maxProfiles]int{{}}
	seen := map[[maxProfiles]int]bool{}
	for len(frontier) > 0 {
		var next [][maxProfiles]int
		for _, part := range frontier {
			for i := range m.Profiles {
				if part[i] >= n[i] {
					continue
				}
				grown := part
				grown[i]++
				if seen[grown] {
					continue
				}
				seen[grown] = true
				if _, ok := m.search(st, grown); !ok {
					return grown
				}
				next = append(next, grown)
			}
		}
		frontier = next
	}
	return n
}

func (m *Model) smallestBlockers(part [maxProfiles]int, have Layout) []Instance {
	if _, ok := m.search(state{}, part); !ok {
		return nil
	}
	for size := 1; size <= len(have.Instances); size++ {
		for set := range 1 << len(have.Instances) {
			if popcount(uint32(set)) != size {
				continue
			}
			var some []Instance
			for i, in := range have.Instances {
				if set>>i&1 == 1 {
					some = append(some, in)
				}
			}
			st, err := m.stateOf(Layout{Instances: some})
			if err != nil {
				continue
			}
			if _, ok := m.search(st, part); !ok {
				return some
			}
		}
	}
	return have.Instances
}

func (m *Model) counts(n [maxProfiles]int) []Count {
	var counts []Count
	for i, p := range m.Profiles {
		if n[i] > 0 {
			counts = append(counts, Count{Profile: p.Name, N: n[i]})
		}
	}
	return counts
}

// why gives the reason for which part and the blockers are not together on a GPU.
func (m *Model) why(part [maxProfiles]int, blockers []Instance) string {
	all := part
	for _, in := range blockers {
		all[in.Profile.index]++
	}
	if why := m.brokenSum(all); why != "" {
		return why
	}
	var starts []string
	for i, p := range m.Profiles {
		if part[i] == 0 {
			continue
		}
		var at []string
		for _, pl := range p.Placements {
			at = append(at, fmt.Sprint(pl.Start))
		}
		starts = append(starts, fmt.Sprintf("%s (%d units) starts only at %s", p.Name, p.PlacementUnits,
			strings.Join(at, ", ")))
	}
	return strings.Join(starts, "; ") + ", and no disjoint starts are left"
}

// brokenSum checks the rules that are sums over the instances; "" means that they hold.
func (m *Model) brokenSum(all [maxProfiles]int) (why string) {
	units, compute := 0, 0
	for i, p := range m.Profiles {
		if limit := p.MaxInstances; limit > 0 && all[i] > limit {
			return fmt.Sprintf("%s holds at most %d of %s", m.Key, limit, p.Name)
		}
		units += all[i] * p.PlacementUnits
		compute += all[i] * p.ComputeSlices
	}
	if m.Units > 0 && units > m.Units {
		return fmt.Sprintf("together they take %d placement units, and there are %d", units, m.Units)
	}
	if m.ComputeSlices > 0 && compute > m.ComputeSlices {
		return fmt.Sprintf("together they have %d compute slices, and there are %d", compute, m.ComputeSlices)
	}
	for e, name := range engineNames {
		total := m.Engines.list()[e]
		sum := 0
		for i, p := range m.Profiles {
			sum += all[i] * p.Engines.list()[e].Value
		}
		if total.Known && sum > total.Value {
			return fmt.Sprintf("together they take %d %s engines, and there are %d", sum, name, total.Value)
		}
	}
	return ""
}

var engineNames = [...]string{"copy", "NVDEC", "NVENC", "JPEG", "OFA"}

// refuteBlind rules demands out by sums alone on a model without known
// placements. It returns nil, as an error value, when they rule out nothing.
func (m *Model) refuteBlind(n [maxProfiles]int, have Layout) error {
	all := n
	for _, in := range have.Instances {
		if in.Profile != nil && in.Profile.model == m {
			all[in.Profile.index]++
		}
	}
	if why := m.brokenSum(all); why != "" {
		return &infeasibleError{GPU: m.Key, Want: m.counts(n), Blockers: have.Instances, Detail: why}
	}
	return nil
}

// Validate checks a layout by the four rules: every placement is one of its profile's, placements are disjoint, no
// profile occurs more often than it may, and engines add up to no more than the GPU's. Compute instances must fit their
// GPU instance. The error is an ErrInvalid and names every problem. An empty layout is valid.
func (l Layout) Validate() error {
	if len(l.Instances) == 0 {
		return nil
	}
	m := l.Model
	if m == nil {
		return invalid(&problem.Problem{Path: "gpu", Message: "the layout names no GPU", Remedy: "set Model"})
	}
	if _, err := m.stateOf(l); err != nil {
		return err
	}
	for i := range l.Instances {
		if in := &l.Instances[i]; in.Compute != nil && !fitsCompute(m.CIRule, in) {
			return l.problems()
		}
	}
	return nil
}

func fitsCompute(rule string, in *Instance) bool {
	return !slices.ContainsFunc(in.Compute, func(c int) bool { return c < 1 || c > in.Profile.ComputeSlices }) &&
		fitCompute(rule, in.Profile.ComputeSlices, in.Compute)
}

// problems lists the faults for Validate.
func (l Layout) problems() error {
	m := l.Model
	var list problem.List
	var all [maxProfiles]int
	for i := range l.Instances {
		in := &l.Instances[i]
		path := fmt.Sprintf("instances[%d]", i)
		switch {
		case in.Profile == nil:
			list.Addf(path, "set Profile", "has no profile")
			continue
		case in.Profile.model != m:
			list.Addf(path, "look the profile up on the layout's GPU", "%s is a profile of %s, not of %s", in.Profile,
				in.Profile.model, m)
			continue
		case m.grid.slotOf(in.Profile.index, in.Placement) < 0:
			list.Addf(path, "its placements are "+strings.Trim(fmt.Sprint(in.Profile.Placements), "[]"),
				"%s can't start at %s", in.Profile.Name, in.Placement)
		}
		all[in.Profile.index]++
		list.If(in.Compute != nil && !fitsCompute(m.CIRule, in), path,
			fmt.Sprintf("it has %d compute slices", in.Profile.ComputeSlices),
			"compute instances of %v slices don't fit %s", in.Compute, in.Profile.Name)
		for j := range i {
			o := &l.Instances[j]
			list.If(o.Profile != nil && in.Start < o.End() && o.Start < in.End(), path, "give it another start",
				"%s overlaps %s", in, o)
		}
	}
	if list.Len() == 0 {
		list.Addf("instances", "leave some out", "%s", m.brokenSum(all))
	}
	return invalid(list.Err())
}
