package capacity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// server is a service: what it serves, and what each of its replicas is.
type server struct {
	name    string
	engine  predict.Engine
	tenants []int
}

// layout is the use of one GPU of an arrangement; every GPU of a part is used alike.
type layout struct {
	gpu      *gpu
	kind     Kind
	copies   int // of each server on a GPU
	servers  []server
	slots    []slot
	percents []float64 // of the servers, under MPS; nil = not capped
	profiles []string  // of the servers, under MIG
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

// serversOf are the servers of a part on a GPU.
func (s *search) serversOf(k Kind, of part, g *gpu) ([]server, error) {
	var out []server
	for _, tenants := range of.tenants {
		t := &s.plan.Tenants[tenants[0]]
		e, err := s.engine(t, g)
		if err != nil {
			return nil, err
		}
		name := t.Name
		if len(tenants) > 1 {
			name = t.Model
			// The best measured of those that share the server.
			for _, i := range tenants {
				if o := &s.plan.Tenants[i]; len(t.Profiles) == 0 && len(o.Profiles) > 0 {
					if e, err = s.engine(o, g); err != nil {
						return nil, err
					}
				}
			}
		}
		if k == KindAdapters && len(tenants) > 1 {
			for _, i := range tenants {
				if s.plan.Tenants[i].AdapterRank > 0 {
					e.Adapters.Slots++
				}
			}
			e.Adapters.Rank = max(s.plan.SlotRank, defaultRank)
		}
		if k == KindSleep {
			e.Sleep.Level = predict.SleepWeights
		}
		out = append(out, server{name: name, engine: e, tenants: tenants})
	}
	return out, nil
}

// layouts lists the ways in which a kind can use a GPU for a part; the error says why there is none.
func (s *search) layouts(k Kind, of part, g *gpu) ([]layout, error) {
	servers, err := s.serversOf(k, of, g)
	if err != nil {
		return nil, err
	}
	base := layout{gpu: g, kind: k, copies: 1, servers: servers}
	switch k {
	case KindMIG:
		return s.sliced(base)
	case KindSleep:
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
			l.copies, l.percents = n, percents
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

// sliced tries the profiles for each server that fit one GPU together.
func (s *search) sliced(l layout) ([]layout, error) {
	m := l.gpu.mig
	if m == nil {
		return nil, fmt.Errorf("%s has no MIG, or none whose placements are known", l.gpu.Name)
	}
	smsAll, _ := m.SMs.Get()
	if smsAll == 0 {
		smsAll, _ = l.gpu.row.SMs.Get()
	}
	profiles := s.profiles(m)
	if len(profiles) == 0 || smsAll == 0 {
		return nil, fmt.Errorf("the slices of %s are not known", l.gpu.Name)
	}
	var out []layout
	var why error
	chosen := make([]*mig.Profile, len(l.servers))
	var try func(i int)
	try = func(i int) {
		if i == len(chosen) {
			// As many copies of this division as fit the GPU.
			for copies := m.ComputeSlices; copies >= 1; copies-- {
				next, err := s.slice(l, m, chosen, copies, smsAll)
				if err == nil {
					out = append(out, next)
					return
				}
				why = err
			}
			return
		}
		for _, p := range profiles {
			chosen[i] = p
			try(i + 1)
		}
	}
	if len(l.servers) > 4 {
		return nil, fmt.Errorf("divisions of %s for %d tenants are not searched", l.gpu.Name, len(l.servers))
	}
	try(0)
	if len(out) == 0 {
		return nil, why
	}
	return s.thin(out), nil
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

// slice puts copies of a division on the GPU.
func (s *search) slice(l layout, m *mig.Model, chosen []*mig.Profile, copies, smsAll int) (layout, error) {
	var want []mig.Count
	for _, p := range chosen {
		want = append(want, mig.Count{Profile: p.Name, N: copies})
	}
	if _, err := m.Place(want, mig.Layout{Model: m}); err != nil {
		return l, err
	}
	next := l
	next.copies, next.servers = copies, slices.Clone(l.servers)
	next.profiles = nil
	units := 0
	for _, p := range m.Profiles {
		units = max(units, p.PlacementUnits)
	}
	for i, p := range chosen {
		memory, _ := p.Memory.Get()
		sms, _ := p.SMs.Get()
		next.profiles = append(next.profiles, p.Name)
		next.servers[i].engine = l.servers[i].engine.On(predict.Share{
			Mechanism: sharing.MechanismMIG, SMs: min(1, float64(sms)/float64(smsAll)),
			Bandwidth: min(1, float64(p.PlacementUnits)/float64(max(units, 1))),
		})
		usable := sharing.Bytes(float64(memory) * cmp.Or(s.plan.MemoryFraction, defaultMemory))
		for range copies {
			next.slots = append(next.slots, slot{usable, []seat{{i, usable}}})
		}
		if err := s.holds(next.servers, []seat{{i, usable}}); err != nil {
			return l, err
		}
	}
	return next, nil
}

// thin drops divisions that another beats in every respect: at least as many SMs and copies for each server.
func (s *search) thin(all []layout) []layout {
	worse := func(a, b layout) bool { // a is no better than b anywhere
		if a.copies > b.copies {
			return false
		}
		for i := range a.servers {
			if a.servers[i].engine.Step.Value < b.servers[i].engine.Step.Value ||
				a.servers[i].engine.PrefillToken.Value < b.servers[i].engine.PrefillToken.Value ||
				a.slots[i*a.copies].memory > b.slots[i*b.copies].memory {
				return false
			}
		}
		return true
	}
	var out []layout
	for i, a := range all {
		if !slices.ContainsFunc(all, func(b layout) bool {
			return !slices.Equal(a.profiles, b.profiles) && worse(a, b) &&
				!(worse(b, a) && slices.Compare(b.profiles, a.profiles) > 0)
		}) {
			out = append(out, all[i])
		}
	}
	return out
}
