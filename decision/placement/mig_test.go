// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

type leave struct {
	at  float64
	key string
}

type leaves []leave

func (l leaves) Len() int           { return len(l) }
func (l leaves) Less(i, j int) bool { return l[i].at < l[j].at }
func (l leaves) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *leaves) Push(x any)        { *l = append(*l, x.(leave)) }
func (l *leaves) Pop() any {
	old := *l
	x := old[len(old)-1]
	*l = old[:len(old)-1]
	return x
}

var migMixes = map[string]string{
	"uniform":     "1g.10gb=1,1g.20gb=1,2g.20gb=1,3g.40gb=1,4g.40gb=1,7g.80gb=1",
	"small-heavy": "1g.10gb=8,1g.20gb=4,2g.20gb=4,3g.40gb=2,4g.40gb=1,7g.80gb=1",
	"big-heavy":   "1g.10gb=1,1g.20gb=1,2g.20gb=2,3g.40gb=4,4g.40gb=4,7g.80gb=4",
}

// migOnline simulates Poisson arrivals at a load of 1.00 of the placement units with exponential lifetimes and returns
// the accepted share in percent, the first tenth not counted.
func migOnline(tb testing.TB, mix string, perNode, arrivals int, seed uint64, policy func([]Typical) Policy) (accepted float64) {
	tb.Helper()
	return migOn(tb, "a100-80gb", 96, 1, mix, perNode, arrivals, seed, 0, policy)
}

// migOn is migOnline on so many GPUs of a model at a load, with so many moves for a request that would be refused.
func migOn(tb testing.TB, model string, gpus int, load float64, mix string, perNode, arrivals int, seed uint64, moves int,
	policy func([]Typical) Policy) (accepted float64) {
	tb.Helper()
	m := must.Get(mig.Lookup(model))(tb)
	counts := must.Get(mig.ParseCounts(mix))(tb)
	var typical []Typical
	total, mean := 0.0, 0.0
	requests := map[string]*Request{}
	for _, k := range counts {
		r := Request{Name: k.Profile, GPUs: 1, Profile: k.Profile}
		requests[k.Profile] = &r
		typical = append(typical, Typical{r, float64(k.N)})
		p := must.Get(m.Profile(k.Profile))(tb)
		total += float64(k.N)
		mean += float64(k.N * p.PlacementUnits)
	}
	var nodes []layout.Node
	for i := range gpus / perNode {
		n := layout.Node{Name: fmt.Sprintf("n%02d", i)}
		for range perNode {
			n.Devices = append(n.Devices, layout.Device{GPU: &layout.GPU{Name: model, MIG: m}, Mode: sharing.MechanismMIG, Dynamic: true})
		}
		nodes = append(nodes, n)
	}
	c := cluster(tb, nodes...)
	placer := NewPlacer(NewScorer(policy(typical), nil))
	rng := rand.New(rand.NewPCG(seed, 17))
	rate := load * float64(gpus) * float64(m.Units) / (mean / total)
	var out leaves
	now := 0.0
	for n := range arrivals {
		now += rng.ExpFloat64() / rate
		x, life := rng.Float64()*total, rng.ExpFloat64()
		var profile *mig.Profile
		for _, p := range m.Profiles {
			for _, k := range counts {
				if k.Profile == p.Name && x >= 0 {
					profile = p
					x -= float64(k.N)
				}
			}
		}
		for len(out) > 0 && out[0].at <= now {
			c, _ = c.Release(heap.Pop(&out).(leave).key)
		}
		r := fresh(*requests[profile.Name])
		next, placed, err := placer.Place(c, r)
		if err != nil && moves > 0 {
			next, _, placed, err = placer.Consolidate(c, r, moves, nil)
		}
		if err != nil {
			continue
		}
		c = next
		heap.Push(&out, leave{at: now + life, key: placed.Key})
		if n >= arrivals/10 {
			accepted++
		}
	}
	return 100 * accepted / float64(arrivals-arrivals/10)
}

// TestMIGOnline: best-fit accepts no more than the policy that looks ahead.
func TestMIGOnline(t *testing.T) {
	race.Long(t)
	ahead := func(m []Typical) Policy { return cotenant(t, m) }
	for name, mix := range migMixes {
		alone := migOnline(t, mix, 1, 3_000, 0, ahead)
		nodes8 := migOnline(t, mix, 8, 3_000, 0, ahead)
		best := migOnline(t, mix, 8, 3_000, 0, func([]Typical) Policy { return BestFit })
		t.Logf("%s: cotenant with 1 a node %.2f%%, cotenant with 8 %.2f%%, best-fit %.2f%%", name, alone, nodes8, best)
		if nodes8 < alone-0.3 || nodes8 < best {
			t.Errorf("%s: alone %.2f%%, together %.2f%%, best-fit %.2f%%", name, alone, nodes8, best)
		}
	}
}

// BenchmarkMIGOnline is the experiment in full: 96 A100-80GB, 20,000 arrivals, seeds 0 to 4.
func BenchmarkMIGOnline(b *testing.B) {
	for _, name := range []string{"uniform", "small-heavy", "big-heavy"} {
		b.Run(name, func(b *testing.B) {
			accepted := 0.0
			for b.Loop() {
				accepted = 0
				for seed := range uint64(5) {
					accepted += migOnline(b, migMixes[name], 8, 20_000, seed, func(m []Typical) Policy { return cotenant(b, m) }) / 5
				}
			}
			b.ReportMetric(accepted, "accepted-%")
		})
	}
}
