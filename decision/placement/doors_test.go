package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// randomWorkload is a workload of any kind, with demands of any kind.
func randomWorkload(rng *rand.Rand) *decision.Workload {
	w := &decision.Workload{Name: "w", Kind: decision.KindDistributedTraining + decision.Kind(rng.IntN(8)), GPUs: 1 + rng.IntN(9)/7,
		Tenant: fmt.Sprint("t", rng.IntN(3)), Replicas: decision.Replicas{Max: 1 + rng.IntN(4)}}
	memory := sharing.Bytes(1+rng.IntN(48)) * sharing.GiB / 2
	w.Memory = decision.Some(memory)
	if rng.IntN(4) > 0 {
		w.GPUBusy = decision.Some(float64(rng.IntN(70)) / 100)
	}
	if rng.IntN(4) == 0 {
		w.Isolation = decision.Isolation{Memory: sharing.Level(rng.IntN(6)), Fault: sharing.Level(rng.IntN(6))}
	}
	if rng.IntN(4) == 0 {
		limit, solo := profile.Some(profile.Duration(1+rng.IntN(2e9))), profile.Some(profile.Duration(1+rng.IntN(1e9)))
		w.SLO.E2EP99 = limit
		if rng.IntN(3) > 0 {
			w.Solo.E2EP99 = solo
		}
	}
	if rng.IntN(4) == 0 {
		w.Framework = &decision.Framework{Name: []string{"vllm", "pytorch"}[rng.IntN(2)], Privileged: rng.IntN(2) == 0, MemoryFraction: decision.Some(0.9)}
	}
	if rng.IntN(20) == 0 {
		w.Pool = "another"
	}
	if rng.IntN(3) == 0 {
		w.Trust = []string{"t0", "t1"}
	}
	return w
}

// replica is what one replica of a workload takes of a GPU that runs m.
func replica(w *decision.CompiledWorkload, m sharing.Mechanism, profile string) *Request {
	r := RequestOf("w", w.Demand(), m, profile)
	r.Tenant, r.Trusts = w.Workload().Tenant, w.Workload().Trust
	return r
}

// TestBothDoors puts random workloads and nodes through decision's door, an
// empty pool, and placement's, GPUs of which most run the mechanism already and
// half have tenants. Both give the same verdict, unless the reason that decides is of
// a scope that only one of them asks.
func TestBothDoors(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	gpus := []string{"A100-SXM4-80GB", "H100 80GB HBM3", "H200", "A30", "T4", "L4", "L40S", "A10", "V100-SXM2-16GB", "B300"}
	same, pairs := 0, 0
	differences := map[string]int{}
	for pairs < 2000 {
		name := gpus[rng.IntN(len(gpus))]
		gpu, err := sharing.LookupGPU(name)
		if err != nil {
			t.Fatal(err)
		}
		m := placeable[rng.IntN(len(placeable))]
		n := Node{Name: "n", CPUMilli: 64_000, Memory: 512 * sharing.GiB, Model: gpu.Name}
		n.GPUs = make([]GPU, 1+rng.IntN(4))
		pool := &decision.Pool{Name: "pool", GPU: name, Count: len(n.GPUs)}
		p, err := decision.CompilePool(pool)
		if err != nil {
			t.Fatal(err)
		}
		n.Ground = p.Ground()
		var model *mig.Model
		if m == sharing.MechanismMIG {
			if model = p.Ground().Model(); model == nil || !model.PlacementsKnown() {
				continue // such a node can't be in MIG mode
			}
		}
		w := decision.CompileWorkload(randomWorkload(rng))
		occupied, fixed := rng.IntN(2) == 0, model != nil || rng.IntN(4) > 0
		for i := range n.GPUs {
			n.GPUs[i] = GPU{MIG: model}
			if fixed {
				n.GPUs[i].Mechanism = m
			}
			if memory, known := gpu.Memory.Get(); known {
				n.GPUs[i].Memory = Some(memory)
			}
			if !occupied {
				continue
			}
			tenant := &Request{Name: fmt.Sprint("on", i), GPUs: 1, Milli: 100 + rng.IntN(900), Tenant: fmt.Sprint("t", rng.IntN(3)), Trusts: []string{"t0", "t1", "t2"}, Mechanisms: []sharing.Mechanism{m}}
			run := Running{Request: tenant, GPUs: []int{i}}
			switch m {
			case sharing.MechanismExclusive:
				tenant.Milli = 1000
			case sharing.MechanismMIG:
				prof := model.Profiles[rng.IntN(len(model.Profiles))]
				if len(prof.Placements) == 0 {
					continue
				}
				tenant.Milli, tenant.Profile, run.Start = 0, prof.Name, prof.Placements[0].Start
			default:
				tenant.GPUMemory = n.GPUs[i].Memory.Or(0) / sharing.Bytes(2+rng.IntN(3))
			}
			n.Running = append(n.Running, run)
		}
		pairs++

		// The neighbours that there may be, at the first door.
		nb := gate.Neighbours{Trusted: rng.IntN(3), Untrusted: rng.IntN(3)}
		var ev decision.Evaluation
		decision.Evaluate(w, p, nb, &ev)
		c := &ev.Candidates[m-1]
		first := worst(&c.Report)
		profile := c.Profile()
		if profile == "" && model != nil {
			profile = model.Profiles[len(model.Profiles)-1].Name
			if parts := p.Ground().Slices(); len(parts) > 0 {
				profile = parts[len(parts)-1].Profile.Name
			}
		}

		r := replica(w, m, profile)
		s := snapshot(t, n)
		second := s.Fit(0, r, nil)
		if _, again := NewScorer(BestFit{}, nil).Score(s, 0, r); again != second {
			t.Fatalf("the scorer says %v, the filter %v", again, second)
		}
		if first.Verdict == second.Verdict {
			same++
			continue
		}
		// The door with the worse verdict must have asked what the other can't.
		why, door := first, "an empty pool only"
		ok := slices.Contains([]gate.Scope{gate.ScopeEmpty, gate.ScopeNeighbours}, why.Code.Scope()) || (fixed || occupied) && why.Code.Scope() == gate.ScopeChoice
		if second.Verdict.Severity() > first.Verdict.Severity() {
			why, door = second, "an occupied node only"
			ok = occupied && slices.Contains([]gate.Scope{gate.ScopeLeft, gate.ScopeNeighbours}, why.Code.Scope())
		}
		if !ok {
			t.Errorf("%v on %s, occupied %v, %+v beside %+v: the pool says %v %v (%v), the node %v %v (%v)", m, name, occupied, *w.Workload(), nb,
				first.Verdict, first.Code, first, second.Verdict, second.Code, second)
		}
		differences[fmt.Sprintf("%s: %v", door, why.Code)]++
	}
	if same < pairs/2 {
		t.Errorf("only %d of %d pairs have the same verdict", same, pairs)
	}
	t.Logf("%d of %d alike; %v", same, pairs, differences)
}

// worst is the reason that decides a report.
func worst(r *gate.Report) gate.Reason {
	for i := range r.Len() {
		if why := r.Reason(i); why.Verdict == r.Verdict {
			return why
		}
	}
	return gate.Reason{Verdict: r.Verdict}
}
