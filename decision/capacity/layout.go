package capacity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
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
				firstErr = cmp.Or(firstErr, err)
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

// usable is the part of a memory that servers may take.
func usable(memory sharing.Bytes) sharing.Bytes { return sharing.Bytes(float64(memory) * usableMemory) }
