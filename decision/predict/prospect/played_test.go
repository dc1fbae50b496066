package prospect_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/sharing"
)

// servers makes random model servers of one kind that share a GPU, none close to what it can take.
func servers(rng *rand.Rand, m costs.Machine, n int) []prospect.Tenant {
	models := [][4]float64{{494e6, 24, 2, 64}, {1.24e9, 16, 8, 64}, {3.2e9, 28, 8, 128}, {8e9, 32, 8, 128}, {14.8e9, 48, 8, 128}}
	lengths := [][2]float64{{128, 64}, {512, 128}, {900, 235}, {2048, 32}}
	v, l := models[rng.IntN(len(models))], lengths[rng.IntN(len(lengths))]
	s := &prospect.Serving{Input: l[0], Output: l[1], Weights: 2 * v[0], Parameters: v[0], Layers: v[1], KVPerToken: 4 * v[1] * v[2] * v[3]}
	step := s.Weights/(m.Bandwidth*0.75) + 7e-5*s.Layers
	prefill := max(5e-4*s.Layers, 2*s.Parameters*s.Input/(m.FLOPs*0.45))
	s.PerS = (0.05 + 0.5*rng.Float64()) / (prefill + step*l[1]/8) / float64(n)
	tenants := make([]prospect.Tenant, n)
	for i := range tenants {
		tenants[i].Serving, tenants[i].Limits = s, [costs.LatencyCount]float64{1, 1, 1}
	}
	return tenants
}

// Closed forms and simulation are two ways to the same figure: over random
// servers they lie apart by little more than the closed forms' stated error.
func TestClosedFormsFollowTheSimulation(t *testing.T) {
	t.Parallel()
	g, err := sharing.LookupGPU("A100-SXM4-80GB")
	if err != nil {
		t.Fatal(err)
	}
	m := costs.MachineOf(g)
	rng := rand.New(rand.NewPCG(3, 4))
	var apart []float64
	for i := range 120 {
		share := costs.Share{Mechanism: sharing.MechanismExclusive, SMs: 1, Bandwidth: 1}
		if i%2 == 1 {
			share.Mechanism = sharing.MechanismMPS
		}
		tenants := servers(rng, m, 1+i%2)
		closed := prospect.Prospects(m, share, tenants, 0.99, nil)
		played := slices.Clone(closed)
		prospect.Simulate(m, share, tenants, 0.99, played)
		for k := range costs.LatencyCount {
			if !played[0].Simulated || played[0].P99[k].Low > played[0].P99[k].Value || played[0].P99[k].High < played[0].P99[k].Value {
				t.Fatalf("%+v", played[0])
			}
			if width := math.Log(played[0].P99[k].High / played[0].P99[k].Value); width > math.Log(closed[0].P99[k].High/closed[0].P99[k].Value)+1e-9 {
				t.Errorf("%s: the simulation's interval is the wider one", costs.LatencyName(k))
			}
			apart = append(apart, math.Abs(math.Log(played[0].P99[k].Value/closed[0].P99[k].Value)))
		}
	}
	slices.Sort(apart)
	if p50, p95 := apart[len(apart)/2], apart[len(apart)*19/20]; p50 > 0.12 || p95 > 0.3 {
		t.Errorf("apart by %.3f in the median, %.3f at the 95th percentile", p50, p95)
	}
}

// Two that never pause get half of their rate each in turns, and a server alone sees what it saw alone.
func TestSimulationKnowsTheEnds(t *testing.T) {
	m := costs.Machine{Bandwidth: 1e12, FLOPs: 1e14}
	turns := costs.Share{Mechanism: sharing.MechanismTimeSlicing, SMs: 1, Bandwidth: 1}
	busy := []prospect.Tenant{{Busy: 0.999}, {Busy: 0.999, Workload: 1}}
	out := prospect.Prospects(m, turns, busy, 0.9, nil)
	prospect.Simulate(m, turns, busy, 0.9, out)
	for _, o := range out {
		if math.Abs(o.Rate.Value-0.5/1.06) > 0.01 { // turns cost 6 percent
			t.Errorf("rate %v", o.Rate.Value)
		}
	}
	alone := []prospect.Tenant{{Busy: 0.3, Online: true, Alone: [costs.LatencyCount]float64{costs.LatencyE2E: 0.2}, Limits: [costs.LatencyCount]float64{costs.LatencyE2E: 0.3}}}
	share := costs.Share{Mechanism: sharing.MechanismExclusive, SMs: 1, Bandwidth: 1}
	out = prospect.Prospects(m, share, alone, 0.9, nil)
	prospect.Simulate(m, share, alone, 0.9, out)
	if got := out[0].P99[costs.LatencyE2E].Value; math.Abs(got-0.2) > 1e-6 {
		t.Errorf("alone %v s, stated 0.2", got)
	}
	// Far more than it can take.
	s := servers(rand.New(rand.NewPCG(1, 1)), m, 1)
	s[0].Serving.PerS *= 100
	out = prospect.Prospects(m, share, s, 0.9, nil)
	prospect.Simulate(m, share, s, 0.9, out)
	if out[0].Kept(&s[0]) != sharing.AnswerNo {
		t.Errorf("a server that can't keep up is said to: %+v", out[0])
	}
}

// TestAlikeSeeTheSame holds that chance sets no replica apart from those that do the same: the worst of many, by which a
// workload is judged, is not worse for their number.
func TestAlikeSeeTheSame(t *testing.T) {
	g, err := sharing.LookupGPU("A100-SXM4-80GB")
	if err != nil {
		t.Fatal(err)
	}
	m := costs.MachineOf(g)
	share := costs.Share{Mechanism: sharing.MechanismExclusive, SMs: 1, Bandwidth: 1} // none disturbs another
	rng := rand.New(rand.NewPCG(5, 6))
	for range 10 {
		tenants := servers(rng, m, 6)
		out := prospect.Prospects(m, share, tenants, 0.97, nil)
		prospect.Simulate(m, share, tenants, 0.97, out)
		for i := range out {
			if out[i].P99 != out[0].P99 {
				t.Errorf("replica %d sees %v, the first %v", i, out[i].P99, out[0].P99)
			}
		}
	}
}

func BenchmarkSimulate(b *testing.B) {
	g, err := sharing.LookupGPU("A100-SXM4-80GB")
	if err != nil {
		b.Fatal(err)
	}
	m := costs.MachineOf(g)
	share := costs.Share{Mechanism: sharing.MechanismMPS, SMs: 1, Bandwidth: 1}
	tenants := servers(rand.New(rand.NewPCG(3, 4)), m, 4)
	out := prospect.Prospects(m, share, tenants, 0.9, nil)
	b.ReportAllocs()
	for b.Loop() {
		tenants[0].Serving.PerS *= 1 + 1e-9 // another, or it would be known
		prospect.Simulate(m, share, tenants, 0.9, slices.Clone(out))
	}
}

func BenchmarkProspects(b *testing.B) {
	g, err := sharing.LookupGPU("A100-SXM4-80GB")
	if err != nil {
		b.Fatal(err)
	}
	m := costs.MachineOf(g)
	share := costs.Share{Mechanism: sharing.MechanismMPS, SMs: 1, Bandwidth: 1}
	run := func(name string, tenants []prospect.Tenant) {
		b.Run(name, func(b *testing.B) {
			var out []prospect.Prospect
			b.ReportAllocs()
			for b.Loop() {
				out = prospect.Prospects(m, share, tenants, 0.9, out)
			}
		})
	}
	for _, n := range []int{2, 4} {
		run(fmt.Sprint(n), servers(rand.New(rand.NewPCG(3, 4)), m, n))
		rng := rand.New(rand.NewPCG(3, 4))
		unlike := make([]prospect.Tenant, n)
		for i := range unlike {
			unlike[i] = servers(rng, m, n)[0]
			unlike[i].Workload = i
		}
		run(fmt.Sprint(n, "-unlike"), unlike)
	}
}
