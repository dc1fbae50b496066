package placement

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

type leave struct {
	at         float64
	p          *Placement
	gpu, start int // in mig.Cluster
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

// migOnline is the set-up of package mig's experiment: Poisson arrivals at a load
// of 1.00 of the placement units, exponential lifetimes, the first tenth not
// counted. It returns the accepted share in percent through a Placer and through
// a mig.Cluster.
func migOnline(tb testing.TB, mix string, perNode, arrivals int, seed uint64, policy func(*Mix) Policy, fleet bool) (ours, theirs float64) {
	tb.Helper()
	const gpus = 96
	m, err := mig.Lookup("a100-80gb")
	if err != nil {
		tb.Fatal(err)
	}
	counts, err := mig.ParseCounts(mix)
	if err != nil {
		tb.Fatal(err)
	}
	var typical []Typical
	total, mean := 0.0, 0.0
	requests := map[string]*Request{}
	for _, c := range counts {
		r := Request{Name: c.Profile, GPUs: 1, Profile: c.Profile}
		requests[c.Profile] = &r
		typical = append(typical, Typical{r, float64(c.N)})
		p, err := m.Profile(c.Profile)
		if err != nil {
			tb.Fatal(err)
		}
		total += float64(c.N)
		mean += float64(c.N * p.PlacementUnits)
	}
	expected, err := NewMix(typical)
	if err != nil {
		tb.Fatal(err)
	}
	var nodes []Node
	for i := range gpus / perNode {
		n := Node{Name: fmt.Sprintf("n%02d", i)}
		for range perNode {
			n.GPUs = append(n.GPUs, GPU{Mechanism: sharing.MechanismMIG, MIG: m})
		}
		nodes = append(nodes, n)
	}
	s, err := NewSnapshot(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := mig.NewCluster(m, gpus, mig.ClusterOptions{Mix: counts})
	if err != nil {
		tb.Fatal(err)
	}
	placer := NewPlacer(policy(expected), nil)
	rng := rand.New(rand.NewPCG(seed, 17))
	rate := gpus * float64(m.Units) / (mean / total)
	var out, outFleet leaves
	now := 0.0
	for n := range arrivals {
		now += rng.ExpFloat64() / rate
		x, life := rng.Float64()*total, rng.ExpFloat64()
		var profile *mig.Profile
		for _, p := range m.Profiles {
			for _, c := range counts {
				if c.Profile == p.Name && x >= 0 {
					profile = p
					x -= float64(c.N)
				}
			}
		}
		for len(out) > 0 && out[0].at <= now {
			if s, err = s.Release(heap.Pop(&out).(leave).p); err != nil {
				tb.Fatal(err)
			}
		}
		if c, ok := placer.Best(s, requests[profile.Name]); ok {
			var p *Placement
			if s, p, err = s.Reserve(requests[profile.Name], c); err != nil {
				tb.Fatal(err)
			}
			heap.Push(&out, leave{at: now + life, p: p})
			if n >= arrivals/10 {
				ours++
			}
		}
		if !fleet {
			continue
		}
		for len(outFleet) > 0 && outFleet[0].at <= now {
			l := heap.Pop(&outFleet).(leave)
			if err := f.Release(l.gpu, l.start); err != nil {
				tb.Fatal(err)
			}
		}
		gpu, at, ok, err := f.Place(profile)
		if err != nil {
			tb.Fatal(err)
		}
		if ok {
			heap.Push(&outFleet, leave{at: now + life, gpu: gpu, start: at.Start})
			if n >= arrivals/10 {
				theirs++
			}
		}
	}
	counted := float64(arrivals - arrivals/10)
	return 100 * ours / counted, 100 * theirs / counted
}

// TestMIGOnline holds placement through this package to the figures of package
// mig, whose planner it shares the rules with, and best-fit below both.
func TestMIGOnline(t *testing.T) {
	frag := func(m *Mix) Policy { return NewFragmentation(m) }
	for name, mix := range migMixes {
		ours, fleet := migOnline(t, mix, 1, 3_000, 0, frag, true)
		nodes8, _ := migOnline(t, mix, 8, 3_000, 0, func(m *Mix) Policy { return NewCotenant(m) }, false)
		best, _ := migOnline(t, mix, 8, 3_000, 0, func(*Mix) Policy { return BestFit{} }, false)
		t.Logf("%s: fragmentation %.2f%%, mig.Cluster %.2f%%, cotenant with 8 a node %.2f%%, best-fit %.2f%%", name, ours, fleet, nodes8, best)
		if diff := ours - fleet; diff < -0.15 || diff > 0.15 {
			t.Errorf("%s: %.2f%% here, %.2f%% by mig.Cluster", name, ours, fleet)
		}
		if nodes8 < fleet-0.3 || nodes8 < best {
			t.Errorf("%s: cotenant %.2f%%, mig.Cluster %.2f%%, best-fit %.2f%%", name, nodes8, fleet, best)
		}
	}
}

// BenchmarkMIGOnline is the experiment in full: 96 A100-80GB, 20,000 arrivals,
// seeds 0 to 4.
func BenchmarkMIGOnline(b *testing.B) {
	for _, name := range []string{"uniform", "small-heavy", "big-heavy"} {
		b.Run(name, func(b *testing.B) {
			ours, theirs := 0.0, 0.0
			for b.Loop() {
				ours, theirs = 0, 0
				for seed := range uint64(5) {
					o, f := migOnline(b, migMixes[name], 8, 20_000, seed, func(m *Mix) Policy { return NewCotenant(m) }, true)
					ours, theirs = ours+o/5, theirs+f/5
				}
			}
			b.ReportMetric(ours, "accepted-%")
			b.ReportMetric(theirs, "mig.Cluster-%")
		})
	}
}
