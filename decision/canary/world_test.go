// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/sharing"
)

// world is a simulated GPU with a newcomer and three neighbours. The test under test knows nothing of its noise.
type world struct {
	tau    float64    // correlation time of the shared noise, s
	harm   [4]float64 // each tenant's true quantile divided by its limit
	q      float64    // of that quantile
	slowAt float64    // s; from when on a tenant is slowFactor times as slow; 0 = never
	slowBy float64
	slow   int
	late   bool // the harm's quantile is watched after promotion next to a median that is kept

	ended float64 // when the first slowed request ended, s
}

const (
	rate        = 2.0  // requests a second of each tenant, on average
	spread      = 0.3  // standard deviation of the logarithm of a request's latency
	shared      = 0.15 // and of the noise that all requests share
	snapshots   = 1800 // a second each
	baseLatency = 1.0  // s, of every tenant
)

// z of a quantile of the standard normal distribution, by bisection.
func z(q float64) float64 {
	low, high := -8.0, 8.0
	for range 60 {
		if m := (low + high) / 2; 0.5*math.Erfc(-m/math.Sqrt2) < q {
			low = m
		} else {
			high = m
		}
	}
	return low
}

// plan has an objective for each tenant.
func (w *world) plan() canary.Plan {
	p := canary.Plan{}
	up := math.Exp(z(w.q) * math.Hypot(spread, shared)) // of the quantile over the median
	for _, name := range []string{"newcomer", "chat", "search", "code"} {
		o := canary.Objective{Metric: "latency", Quantile: w.q, Limit: 1.3 * baseLatency * up}
		t := canary.Tenant{Name: name, Objectives: []canary.Objective{o}}
		if w.late {
			t.Objectives[0].AfterPromotion = true
			t.Objectives = append(t.Objectives, canary.Objective{Metric: "latency", Limit: 10 * baseLatency})
		}
		p.Tenants = append(p.Tenants, t)
	}
	return p
}

// generator plays a world in virtual time.
type generator struct {
	*world
	r             *rand.Rand
	z             float64
	phase, period float64
	next          [4]float64
	ends          map[int][4][]float64 // latencies of the requests that end in a second
	at            int
}

func (w *world) start(r *rand.Rand) *generator {
	g := &generator{
		world: w, r: r, z: r.NormFloat64(), phase: 2 * math.Pi * r.Float64(), period: 600 + 1800*r.Float64(),
		ends: map[int][4][]float64{},
	}
	w.ended = 0
	for i := range g.next {
		g.next[i] = r.ExpFloat64() / rate
	}
	return g
}

// load drifts twofold, in 10 to 40 minutes.
func (g *generator) load(at float64) float64 {
	return rate * math.Exp2(0.5*math.Sin(2*math.Pi*at/g.period+g.phase))
}

// snapshot plays a second.
func (g *generator) snapshot() canary.Snapshot {
	const step = 0.25
	for sub := range 4 {
		at := float64(g.at) + step*float64(sub)
		keep := math.Exp(-step / g.tau)
		g.z = keep*g.z + math.Sqrt(1-keep*keep)*g.r.NormFloat64()
		load := g.load(at)
		for i := range g.next {
			for ; g.next[i] < at+step; g.next[i] += g.r.ExpFloat64() / load {
				v := g.harm[i] * 1.3 * baseLatency * math.Exp(spread*g.r.NormFloat64()+shared*g.z)
				slow := g.slowAt > 0 && i == g.slow && g.next[i] >= g.slowAt
				if slow {
					v *= g.slowBy
				}
				end := g.next[i] + v
				if slow && (g.ended == 0 || end < g.ended) {
					g.ended = end
				}
				list := g.ends[int(end)]
				list[i] = append(list[i], v)
				g.ends[int(end)] = list
			}
		}
	}
	l := canary.Snapshot{At: time.Duration(g.at+1) * time.Second, Tenants: make([]canary.Seen, 4)}
	for i := range l.Tenants {
		list := canary.Sample{Values: g.ends[g.at][i]}
		l.Tenants[i] = canary.Seen{
			Load:    sharing.Optional[float64]{},
			Metrics: []canary.Sample{list},
		}
		l.Tenants[i].Load = some(g.load(float64(g.at)))
		if g.late {
			l.Tenants[i].Metrics = append(l.Tenants[i].Metrics, list)
		}
	}
	delete(g.ends, g.at)
	g.at++
	return l
}
