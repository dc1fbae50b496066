package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// server is a service: what it serves, and what each of its replicas is.
type server struct {
	name     string
	engine   costs.Engine
	schedule string // of its steps, in words
	tenants  []int
}

// layout is the use of one GPU of an arrangement; every GPU of a part is used alike.
type layout struct {
	gpu      *gpu
	kind     Kind
	servers  []server
	slots    []slot
	percents []float64 // of the servers, under MPS; nil = not capped
	profiles []string  // of the servers, under MIG
	mixed    float64   // ms of the GPU that the work takes under MIG, however it is divided
}

// slot is a GPU as the simulator has it: the whole one, or a MIG slice.
type slot struct {
	memory sharing.Bytes
	seats  []seat
}

type seat struct {
	server int
	memory sharing.Bytes
}

// part is servers that share their GPUs with nobody else's: it is searched alone.
type part struct{ tenants [][]int } // of each server

// parts divides the tenants as a kind has it. nil means that the kind does not apply, and why says so.
func (p *Plan) parts(k Kind) (parts []part, why string) {
	alone := func(i int) []int { return []int{i} }
	switch k {
	case KindOwnGPU:
		for i := range p.Tenants {
			parts = append(parts, part{[][]int{alone(i)}})
		}
		return parts, ""
	case KindTimeSlicing, KindMPS, KindMIG, KindSleep:
		all := part{}
		for i := range p.Tenants {
			all.tenants = append(all.tenants, alone(i))
		}
		if k == KindSleep && len(p.Tenants) < 2 {
			return nil, "one tenant alone has nobody to take turns with"
		}
		return []part{all}, ""
	}
	// Servers that several tenants share.
	merged := false
	taken := map[int]bool{}
	for i := range p.Tenants {
		if taken[i] {
			continue
		}
		together := []int{i}
		for j := i + 1; j < len(p.Tenants); j++ {
			if !taken[j] && p.mergeable(k, i, j) {
				together = append(together, j)
				taken[j] = true
			}
		}
		merged = merged || len(together) > 1
		parts = append(parts, part{[][]int{together}})
	}
	if !merged {
		if k == KindAdapters {
			return nil, "no two tenants are adapters of one model"
		}
		return nil, "no two tenants ask for the same model"
	}
	return parts, ""
}

// mergeable reports whether two tenants can be served by one server.
func (p *Plan) mergeable(k Kind, i, j int) bool {
	a, b := &p.Tenants[i], &p.Tenants[j]
	if a.Model != b.Model || a.Adapters.Slots > 0 || b.Adapters.Slots > 0 {
		return false
	}
	adapters := a.AdapterRank > 0 || b.AdapterRank > 0
	return adapters == (k == KindAdapters)
}

// copies is the number of replicas of a server on a GPU.
func (l *layout) copies(server int) (n int) {
	for _, sl := range l.slots {
		for _, x := range sl.seats {
			if x.server == server {
				n++
			}
		}
	}
	return n
}

// serversOf are the servers of a part on a GPU, or on slices of it with so much memory each.
func (s *search) serversOf(k Kind, of part, g *gpu, memory sharing.Bytes) ([]server, error) {
	var out []server
	for _, tenants := range of.tenants {
		t := &s.plan.Tenants[tenants[0]]
		e, schedule, err := s.engine(tenants[0], g, memory)
		if err != nil {
			return nil, err
		}
		name := t.Name
		if len(tenants) > 1 {
			name = t.Model
			// The best measured of those that share the server.
			for _, i := range tenants {
				if o := &s.plan.Tenants[i]; len(t.Profiles) == 0 && len(o.Profiles) > 0 {
					if e, schedule, err = s.engine(i, g, memory); err != nil {
						return nil, err
					}
				}
			}
		}
		if k == KindAdapters && len(tenants) > 1 {
			e.Adapters.Rank = slotRank
			for _, i := range tenants {
				if rank := s.plan.Tenants[i].AdapterRank; rank > 0 {
					e.Adapters.Slots, e.Adapters.Rank = e.Adapters.Slots+1, max(e.Adapters.Rank, rank)
				}
			}
		}
		if k == KindSleep {
			e.Sleep.Level = costs.SleepWeights
		}
		out = append(out, server{name, e, schedule, tenants})
	}
	return out, nil
}

// layouts lists the ways in which a kind can use a GPU for a part; the error says why there is none.
func (s *search) layouts(k Kind, of part, g *gpu) ([]layout, error) {
	if k == KindMIG {
		return s.sliced(of, g)
	}
	servers, err := s.serversOf(k, of, g, g.whole)
	if err != nil {
		return nil, err
	}
	base := layout{gpu: g, kind: k, servers: servers}
	if k == KindSleep {
		return s.sleeping(base)
	}
	copies := cmp.Or(s.plan.MaxCopies, 2)
	if k == KindOwnGPU || k == KindMergedServer || k == KindAdapters {
		copies = 1
	}
	var out []layout
	var firstErr error
	for n := 1; n <= copies; n++ {
		if n*len(servers) < 2 && (k == KindTimeSlicing || k == KindMPS) {
			continue // nobody to share with
		}
		for _, percents := range s.percents(k, servers, n) {
			l := base
			l.percents = percents
			l.servers = slices.Clone(servers)
			for i := range percents {
				l.servers[i].engine = capped(l.servers[i].engine, percents[i])
			}
			l.slots, err = s.whole(l.servers, g, n)
			if err != nil {
				if firstErr == nil {
					firstErr = err
				}
				continue
			}
			out = append(out, l)
		}
	}
	if len(out) == 0 && firstErr == nil {
		firstErr = fmt.Errorf("one server alone has nobody to share with")
	}
	if len(out) == 0 {
		return nil, firstErr
	}
	return out, nil
}

// percents are the divisions of the SMs that are tried under MPS: none, and for two servers the halves and thirds.
func (s *search) percents(k Kind, servers []server, copies int) [][]float64 {
	out := [][]float64{nil}
	if k == KindMPS && s.plan.Percents != nil && len(servers) == len(s.plan.Tenants) {
		return append(out, s.plan.Percents...)
	}
	if k == KindMPS && len(servers) == 2 && copies == 1 {
		out = append(out, []float64{50, 50}, []float64{70, 30}, []float64{30, 70})
	}
	return out
}

// whole puts copies of each server on one GPU and divides its memory: weights to
// each, and what is left in proportion to what their requests ask of the KV cache.
func (s *search) whole(servers []server, g *gpu, copies int) ([]slot, error) {
	left := g.memory
	weights := make([]float64, len(servers))
	total := 0.0
	fixed := make([]sharing.Bytes, len(servers))
	for i := range servers {
		e := &servers[i].engine
		fixed[i] = e.Model.Weights() + e.Overhead + e.Adapters.Bytes(e.Model)*sharing.Bytes(e.Adapters.Slots)
		left -= fixed[i] * sharing.Bytes(copies)
		for _, t := range servers[i].tenants {
			weights[i] += s.traffic.tenants[t].squareOfResident * float64(e.Model.KVPerToken())
		}
		total += weights[i] * float64(copies)
	}
	if left <= 0 {
		return nil, fmt.Errorf("%v of %s do not hold the weights of its servers, %d in all", g.memory, g.Name,
			copies*len(servers))
	}
	one := slot{memory: g.memory}
	for i := range servers {
		share := 1 / float64(copies*len(servers))
		if total > 0 {
			// At least a tenth of an even share, so that nobody is left without.
			share = 0.1*share + 0.9*weights[i]/total
		}
		for range copies {
			one.seats = append(one.seats, seat{i, fixed[i] + sharing.Bytes(share*float64(left))})
		}
	}
	return []slot{one}, s.holds(servers, one.seats)
}

// holds checks that each server's KV cache holds its longest request.
func (s *search) holds(servers []server, seats []seat) error {
	for _, x := range seats {
		sv := &servers[x.server]
		tokens, err := sv.engine.KVTokens(x.memory)
		if err != nil {
			return fmt.Errorf("%s: %w", sv.name, err)
		}
		for _, t := range sv.tenants {
			if longest := s.traffic.tenants[t].longest; longest > tokens {
				return fmt.Errorf("%s: its KV cache of %d tokens is smaller than one request of %d", sv.name, tokens, longest)
			}
		}
	}
	return nil
}

// sleeping puts one server of each on the GPU, each with nearly all of its memory.
func (s *search) sleeping(l layout) ([]layout, error) {
	var asleep sharing.Bytes
	for i := range l.servers {
		asleep += l.servers[i].engine.Sleep.Asleep
	}
	one := slot{memory: l.gpu.memory}
	for i := range l.servers {
		m := l.gpu.memory - asleep + l.servers[i].engine.Sleep.Asleep
		one.seats = append(one.seats, seat{i, m})
	}
	if err := s.holds(l.servers, one.seats); err != nil {
		return nil, err
	}
	l.slots = []slot{one}
	return []layout{l}, nil
}

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

// usable is the part of a memory that servers may take.
func usable(memory sharing.Bytes) sharing.Bytes { return sharing.Bytes(float64(memory) * usableMemory) }

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
