package capacity

import (
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// sliced lists the divisions of a GPU that can matter: a profile for each server, with as many slices of each as fit
// together.
func (s *search) sliced(of part, g *gpu) ([]layout, error) {
	m := g.mig
	if m == nil {
		return nil, fmt.Errorf("%s has no MIG, or none whose placements are known", g.Name)
	}
	smsAll, _ := m.SMs.Get()
	if smsAll == 0 {
		smsAll, _ = g.row.SMs.Get()
	}
	profiles := s.profiles(m)
	if len(profiles) == 0 || smsAll == 0 {
		return nil, fmt.Errorf("the slices of %s are not known", g.Name)
	}
	if len(of.tenants) > 4 {
		return nil, fmt.Errorf("divisions of %s for %d tenants are not searched", g.Name, len(of.tenants))
	}
	// A server on each profile; nil where it does not fit. Work on a slice takes its parts of compute and memory.
	servers := make([][]*server, len(of.tenants))
	var why error
	compute, units := 1, 1
	for _, p := range m.Profiles {
		compute, units = max(compute, p.ComputeSlices), max(units, p.PlacementUnits)
	}
	ofCompute, ofMemory := 0.0, 0.0
	for i := range of.tenants {
		leastCompute, leastMemory := math.Inf(1), math.Inf(1)
		for _, p := range profiles {
			sv, err := s.onSlice(part{of.tenants[i : i+1]}, g, p, smsAll, units)
			if err != nil {
				why = err
			} else {
				leastCompute = min(leastCompute, s.work(sv)*float64(p.ComputeSlices)/float64(compute))
				leastMemory = min(leastMemory, s.work(sv)*float64(p.PlacementUnits)/float64(units))
			}
			servers[i] = append(servers[i], sv)
		}
		ofCompute, ofMemory = ofCompute+leastCompute, ofMemory+leastMemory
	}
	var out []layout
	chosen := make([]int, len(of.tenants)) // profiles
	counts := make([]int, len(of.tenants))
	fits := func(more int) bool {
		var want []mig.Count
		for i, k := range chosen {
			n := counts[i]
			if i == more {
				n++
			}
			want = append(want, mig.Count{Profile: profiles[k].Name, N: n})
		}
		_, err := m.Place(want, mig.Layout{Model: m})
		return err == nil
	}
	var divide func(i int)
	divide = func(i int) {
		if i+1 < len(counts) {
			for counts[i] = 1; fits(-1); counts[i]++ {
				divide(i + 1)
			}
		} else { // the last has all that is left
			for counts[i] = 0; fits(i); counts[i]++ {
			}
			if counts[i] > 0 {
				out = append(out, s.divided(g, profiles, servers, chosen, counts))
				out[len(out)-1].mixed = max(ofCompute, ofMemory)
			}
		}
		counts[i] = 0
	}
	var try func(i int)
	try = func(i int) {
		for chosen[i] = range profiles {
			if servers[i][chosen[i]] == nil {
				continue
			}
			if i+1 < len(chosen) {
				try(i + 1)
				continue
			}
			divide(0)
		}
	}
	try(0)
	if len(out) == 0 {
		if why == nil {
			why = fmt.Errorf("no division of %s has a slice for each of %d servers", g.Name, len(of.tenants))
		}
		return nil, why
	}
	return s.thin(out), nil
}

// onSlice is the server of a part's tenants on a slice; the error says why it does not fit.
func (s *search) onSlice(of part, g *gpu, p *mig.Profile, smsAll, units int) (*server, error) {
	memory, _ := p.Memory.Get()
	sms, _ := p.SMs.Get()
	servers, err := s.serversOf(KindMIG, of, g, memory)
	if err != nil {
		return nil, err
	}
	sv := &servers[0]
	sv.engine = sv.engine.On(costs.Share{
		Mechanism: sharing.MechanismMIG, SMs: min(1, float64(sms)/float64(smsAll)),
		Bandwidth: min(1, float64(p.PlacementUnits)/float64(units)),
	})
	if err := s.holds(servers, []seat{{0, usable(memory)}}); err != nil {
		return nil, err
	}
	return sv, nil
}

// divided is a GPU with so many slices of a profile for each server.
func (s *search) divided(g *gpu, profiles []*mig.Profile, servers [][]*server, chosen, counts []int) layout {
	out := layout{gpu: g, kind: KindMIG}
	for i, k := range chosen {
		memory, _ := profiles[k].Memory.Get()
		out.profiles = append(out.profiles, profiles[k].Name)
		out.servers = append(out.servers, *servers[i][k])
		for range counts[i] {
			out.slots = append(out.slots, slot{usable(memory), []seat{{i, usable(memory)}}})
		}
	}
	return out
}

// profiles are those without media extensions and with all compute, largest first:
// one of each number of slices and memory.
func (s *search) profiles(m *mig.Model) []*mig.Profile {
	var out []*mig.Profile
	for _, p := range m.Profiles {
		memory, known := p.Memory.Get()
		_, sms := p.SMs.Get()
		if !known || !sms || len(p.Placements) == 0 || p.ComputeSlices == 0 {
			continue
		}
		if !slices.ContainsFunc(out, func(o *mig.Profile) bool {
			om, _ := o.Memory.Get()
			return o.ComputeSlices == p.ComputeSlices && om == memory
		}) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *mig.Profile) int { return b.ComputeSlices - a.ComputeSlices })
	return out
}

// thin drops divisions that another beats in every respect: for each server at least as many slices, each at least as
// fast and as large. Of equals the first stays.
func (s *search) thin(all []layout) []layout {
	memory := func(l *layout, server int) sharing.Bytes {
		return l.slots[slices.IndexFunc(l.slots, func(sl slot) bool { return sl.seats[0].server == server })].memory
	}
	worse := func(a, b *layout) bool { // a is no better than b anywhere
		for i := range a.servers {
			x, y := &a.servers[i].engine, &b.servers[i].engine
			if a.copies(i) > b.copies(i) || x.Step.Value < y.Step.Value || x.PrefillToken.Value < y.PrefillToken.Value ||
				memory(a, i) > memory(b, i) {
				return false
			}
		}
		return true
	}
	var out []layout
	for i := range all {
		beaten := false
		for k := range all {
			beaten = beaten || k != i && worse(&all[i], &all[k]) && !(i < k && worse(&all[k], &all[i]))
		}
		if !beaten {
			out = append(out, all[i])
		}
	}
	return out
}
