package prospect

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"gonum.org/v1/gonum/stat/distuv"
)

// draw is random numbers over their means: the gap before a request, and the lengths or the work of that request.
type draw struct{ gap, in, out float64 }

// draws are those of a stream, the same in every simulation: so they are drawn when they are first needed and kept.
type draws struct {
	from      source
	cv, sigma float64 // of gaps and lengths
	rng       *rand.Rand
	all       []draw
}

// source names the process by which a tenant's requests come.
type source uint8

const (
	sourcePauses  source = iota // it asks again after a pause
	sourceClients               // of what is no model server
	sourcePrompts
	sourceUneven // prompts, as far from the median as a bound is
	sourceCount
)

func (d *draws) at(i int) *draw {
	for len(d.all) <= i {
		d.all = append(d.all, d.draw())
	}
	return &d.all[i]
}

func (d *draws) draw() (v draw) {
	if d.from == sourcePauses {
		return draw{gap: d.rng.ExpFloat64()}
	}
	size := func() float64 { return math.Exp(d.sigma*d.rng.NormFloat64() - d.sigma*d.sigma/2) }
	v.gap = distuv.Gamma{Alpha: 1 / (d.cv * d.cv), Beta: 1 / (d.cv * d.cv), Src: d.rng}.Rand()
	if v.in = size(); d.from >= sourcePrompts {
		v.out = size()
	}
	return v
}

// arrivals holds the times of the players' next requests, in ms.
type arrivals struct {
	at  []float64
	who int // whose is the first
}

func (a *arrivals) first() float64 { return a.at[a.who] }

func (a *arrivals) set(player int, at float64) {
	a.at[player] = at
	if player != a.who {
		if first := a.first(); at < first || at == first && player < a.who {
			a.who = player
		}
		return
	}
	a.who = 0
	for i, v := range a.at {
		if v < a.at[a.who] {
			a.who = i
		}
	}
}

// stage holds the memory that a simulation leaves to the next: draws by stream and source, and the
// players with the memory that they took.
type stage struct {
	draws   [][sourceCount]*draws
	players []player
}

var stages = sync.Pool{New: func() any { return new(stage) }}

func (s *stage) stream(stream int, from source, v *Serving, of *costs.Setting) *draws {
	for len(s.draws) <= stream {
		s.draws = append(s.draws, [sourceCount]*draws{})
	}
	d := &s.draws[stream][from]
	cv, sigma := of[costs.Burstiness], v.lengths(of)
	if from == sourceClients {
		sigma = serviceSigma
	}
	if *d == nil || (*d).cv != cv || (*d).sigma != sigma {
		*d = &draws{from: from, cv: cv, sigma: sigma, rng: rand.New(rand.NewPCG(batching.SimulationSeed, uint64(stream)))}
	}
	return *d
}

func (s *stage) ready(n int) []player {
	for len(s.players) < n {
		s.players = append(s.players, player{})
	}
	for i := range s.players[:n] {
		p := &s.players[i]
		*p = player{samples: p.samples, spare: p.spare}
		for k := range p.samples {
			p.samples[k] = p.samples[k][:0]
		}
	}
	return s.players[:n]
}
