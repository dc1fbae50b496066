package placement

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func a100(tb testing.TB) *mig.Model {
	tb.Helper()
	m, err := mig.Lookup("a100-80gb")
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func snapshot(tb testing.TB, nodes ...Node) *Snapshot {
	tb.Helper()
	s, err := NewSnapshot(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// pairs predicts by neighbour: name -> slowdown of anyone beside it.
type pairs map[string]float64

func (p pairs) Predict(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string) []*predict.Prediction {
	for i := range group {
		x := 1.0
		for j, n := range group {
			if j != i {
				x *= p[n]
			}
		}
		if x == 0 {
			out = append(out, nil)
			continue
		}
		out = append(out, &predict.Prediction{Slowdown: profile.Interval{Value: x, Low: 0.9 * x, High: 1.1 * x}})
	}
	return out
}

func TestFit(t *testing.T) {
	m := a100(t)
	run := func(r Request) []Running { return []Running{{Request: &r, GPUs: []int{0}}} }
	gpu := func(mech sharing.Mechanism) Node {
		return Node{Name: "n", CPUMilli: 8_000, Memory: 16 * sharing.GiB, Model: "A100", GPUs: []GPU{{Mechanism: mech, Memory: Some(80 * sharing.GiB)}}}
	}
	with := func(n Node, r Request) Node { n.Running = run(r); return n }
	migNode := func() Node { n := gpu(sharing.MechanismMIG); n.GPUs[0].MIG = m; return n }
	share := Request{GPUs: 1, Milli: 300}
	for name, c := range map[string]struct {
		node Node
		r    Request
		p    Forecaster
		want gate.Reason
	}{
		"fits":                {gpu(sharing.MechanismMPS), share, nil, gate.Reason{Verdict: gate.VerdictPass}},
		"cpu":                 {gpu(sharing.MechanismMPS), Request{CPUMilli: 9_000}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeCPU, Need: 9_000, Have: 8_000}},
		"memory":              {gpu(sharing.MechanismMPS), Request{Memory: 17 * sharing.GiB}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeMemory, Need: 17 << 30, Have: 16 << 30}},
		"model":               {gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 1, Models: []string{"H100"}}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeModel}},
		"count":               {gpu(sharing.MechanismMPS), Request{GPUs: 2, Milli: 1}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUCount, Need: 2, Have: 1}},
		"in mig mode":         {migNode(), share, nil, gate.Reason{Verdict: gate.VerdictFixable, Code: gate.CodeMIGMode}},
		"not in mig mode":     {gpu(sharing.MechanismMPS), Request{GPUs: 1, Profile: "1g.10gb"}, nil, gate.Reason{Verdict: gate.VerdictFixable, Code: gate.CodeNotMIG}},
		"no such profile":     {migNode(), Request{GPUs: 1, Profile: "1g.18gb"}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeProfile}},
		"slices":              {with(migNode(), Request{GPUs: 1, Profile: "7g.80gb"}), Request{GPUs: 1, Profile: "1g.10gb"}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeSlices}},
		"slice memory":        {migNode(), Request{GPUs: 1, Profile: "1g.10gb", GPUMemory: 16 * sharing.GiB}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUMemory, Need: 16 << 30, Have: int64(mustProfile(t, m, "1g.10gb").Memory.Value)}},
		"no mechanism":        {gpu(sharing.MechanismNone), share, nil, gate.Reason{Verdict: gate.VerdictFixable, Code: gate.CodeNoMechanism}},
		"first of its own":    {gpu(sharing.MechanismNone), Request{GPUs: 1, Milli: 300, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS}}, nil, gate.Reason{Verdict: gate.VerdictPass}},
		"other mechanism":     {gpu(sharing.MechanismTimeSlicing), Request{GPUs: 1, Milli: 300, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS}}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeMechanism}},
		"never mixed":         {with(gpu(sharing.MechanismNone), Request{GPUs: 1, Milli: 300, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS}}), Request{GPUs: 1, Milli: 300, Mechanisms: []sharing.Mechanism{sharing.MechanismHAMi}}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeMechanism}},
		"exclusive":           {gpu(sharing.MechanismExclusive), share, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeMechanism}},
		"whole on exclusive":  {gpu(sharing.MechanismExclusive), Request{GPUs: 1, Milli: 1000}, nil, gate.Reason{Verdict: gate.VerdictPass}},
		"whole, not accepted": {gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 1000, Mechanisms: []sharing.Mechanism{sharing.MechanismHAMi}}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeMechanism}},
		"whole, shared":       {with(gpu(sharing.MechanismMPS), share), Request{GPUs: 1, Milli: 1000}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUShare, Need: 1000, Have: 700}},
		"tenants":             {with(Node{Name: "n", GPUs: []GPU{{Mechanism: sharing.MechanismMPS, MaxTenants: 1}}}, share), share, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeTenants}},
		"trust":               {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Tenant: "a"}), Request{GPUs: 1, Milli: 300, Tenant: "b", Trusts: []string{"a"}}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeTrust}},
		"trust both ways":     {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Tenant: "a", Trusts: []string{"b"}}), Request{GPUs: 1, Milli: 300, Tenant: "b", Trusts: []string{"a"}}, nil, gate.Reason{Verdict: gate.VerdictPass}},
		"mig needs no trust":  {with(migNode(), Request{GPUs: 1, Profile: "1g.10gb", Tenant: "a"}), Request{GPUs: 1, Profile: "1g.10gb", Tenant: "b"}, nil, gate.Reason{Verdict: gate.VerdictPass}},
		"gpu memory":          {gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 1, GPUMemory: 81 * sharing.GiB}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUMemory, Need: 81 << 30, Have: 80 << 30}},
		"by memory":           {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, GPUMemory: 40 * sharing.GiB}), Request{GPUs: 1, Milli: 501}, nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUShare, Need: 501, Have: 500}},
		"memory unknown":      {Node{Name: "n", GPUs: []GPU{{Mechanism: sharing.MechanismMPS}}}, Request{GPUs: 1, GPUMemory: sharing.GiB}, nil, gate.Reason{Verdict: gate.VerdictUnknown, Code: gate.CodeGPUMemoryUnknown, Need: 1 << 30, Have: 0}},
		"no predictor":        {with(gpu(sharing.MechanismMPS), share), Request{GPUs: 1, Milli: 300, MaxSlowdown: 2}, nil, gate.Reason{Verdict: gate.VerdictUnknown, Code: gate.CodeSlowdownUnknown}},
		"alone, no predictor": {gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, MaxSlowdown: 2}, nil, gate.Reason{Verdict: gate.VerdictPass}},
		"slowdown":            {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Workload: "bert"}), Request{GPUs: 1, Milli: 300, MaxSlowdown: 1.2}, pairs{"bert": 1.5}, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeSlowdown, Need: 1200, Have: 1500, Low: 1350, High: 1650}},
		"neighbour's":         {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Workload: "bert", MaxSlowdown: 1.2}), Request{GPUs: 1, Milli: 300, Workload: "hog"}, pairs{"bert": 1.1, "hog": 3}, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeSlowdown, Need: 1200, Have: 3000, Low: 2700, High: 3300}},
		"not profiled":        {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Workload: "new"}), Request{GPUs: 1, Milli: 300, MaxSlowdown: 9}, pairs{}, gate.Reason{Verdict: gate.VerdictUnknown, Code: gate.CodeSlowdownUnknown}},
		"within":              {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Workload: "bert"}), Request{GPUs: 1, Milli: 300, MaxSlowdown: 1.7, Workload: "me"}, pairs{"bert": 1.5, "me": 1}, gate.Reason{Verdict: gate.VerdictPass}},
		"unsettled":           {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Workload: "bert"}), Request{GPUs: 1, Milli: 300, MaxSlowdown: 1.5, Workload: "me"}, pairs{"bert": 1.5, "me": 1}, gate.Reason{Verdict: gate.VerdictUnknown, Code: gate.CodeSlowdown, Need: 1500, Have: 1500, Low: 1350, High: 1650}},
		"limit, no latency":   {with(gpu(sharing.MechanismMPS), Request{GPUs: 1, Milli: 300, Workload: "bert"}), Request{GPUs: 1, Milli: 300, SLO: profile.SLO{TPOTP99: limit10ms}, Workload: "me"}, pairs{"bert": 1.5, "me": 1}, gate.Reason{Verdict: gate.VerdictUnknown, Code: gate.CodeSlowdownUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, c.node)
			got := s.Fit(0, &c.r, c.p)
			if got != c.want {
				t.Errorf("%+v (%v), want %+v", got, got, c.want)
			}
			if got.String() == "" || strings.Contains(got.String(), "%!") {
				t.Errorf("text %q", got)
			}
			cand, f := NewScorer(BestFit{}, c.p).Score(s, 0, &c.r)
			if f != got {
				t.Errorf("the scorer says %v, the filter %v", f, got)
			}
			if f.Verdict == gate.VerdictPass {
				if _, _, err := s.Reserve(&c.r, cand); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

var limit10ms = profile.Some(profile.Duration(10 * time.Millisecond))

func mustProfile(tb testing.TB, m *mig.Model, name string) *mig.Profile {
	tb.Helper()
	p, err := m.Profile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestBadInput(t *testing.T) {
	bad := Request{CPUMilli: -1, Memory: -1, GPUs: 2, Profile: "1g10", Milli: 5, Mechanisms: []sharing.Mechanism{sharing.MechanismResearch}, MaxSlowdown: 0.5, SLO: profile.SLO{E2EP99: profile.Some(profile.Duration(0))}}
	_, err := NewSnapshot([]Node{
		{Name: "a", GPUs: make([]GPU, 17)},
		{Name: "", CPUMilli: -1, Memory: -1, GPUs: []GPU{{Mechanism: sharing.MechanismMIG}, {Mechanism: sharing.MechanismInServer, Memory: Some(sharing.Bytes(-1)), MaxTenants: -1}, {Mechanism: sharing.MechanismMPS, MIG: a100(t)}}},
		{Name: "a"},
		{Name: "c", GPUs: []GPU{{Mechanism: sharing.MechanismMPS}}, Running: []Running{
			{}, {Request: &bad}, {Request: &Request{Name: "x", GPUs: 1, Milli: 700}, GPUs: []int{0}}, {Request: &Request{Name: "y", GPUs: 1, Milli: 700}, GPUs: []int{0}},
			{Request: &Request{GPUs: 2, Milli: 1}, GPUs: []int{1, 1}},
		}},
	})
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"Nodes[0].GPUs: 17", "Nodes[1].Name", "Nodes[1].CPUMilli", "Nodes[1].Memory", "Nodes[1].GPUs[0].MIG", "Nodes[1].GPUs[1].Mechanism",
		"Nodes[1].GPUs[1].Memory", "Nodes[1].GPUs[1].MaxTenants", "Nodes[1].GPUs[2].MIG", `"a" is the name of Nodes[0]`, "Nodes[3].Running[0]: no request",
		"Running[1].Request.CPUMilli", "Running[1].Request.Memory", "Running[1].Request.GPUs", "Running[1].Request.Milli", "Running[1].Request.Profile",
		"Running[1].Request.Mechanisms[0]", "Running[1].Request.MaxSlowdown", "Running[1].Request.SLO.e2e_p99", "Nodes[3].Running[3]: y can't run here", "Running[4].GPUs[0]: the node has no GPU 1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if _, err := NewMix(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("empty mix: %v", err)
	}
	if _, err := NewMix([]Typical{{Request: bad, Weight: math.NaN()}, {Request: Request{GPUs: 1}, Weight: -1}}); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "Typical[0].Weight") || !strings.Contains(err.Error(), "Typical[1].Request.Milli") {
		t.Errorf("%v", err)
	}
	s := snapshot(t, Node{Name: "a", GPUs: []GPU{{Mechanism: sharing.MechanismMPS}}})
	p := NewPlacer(BestFit{}, nil)
	if _, _, err := p.Place(s, &bad); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := p.PlaceBatch(s, []*Request{nil, &bad}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "Requests[0]") || !strings.Contains(err.Error(), "Requests[1].GPUs") {
		t.Errorf("%v", err)
	}
	if _, _, err := s.Reserve(&Request{GPUs: 1, Milli: 1}, Offer{Node: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// zoo is a cluster with every mechanism, and requests of every kind.
func zoo(tb testing.TB) ([]Node, []Request) {
	m := a100(tb)
	var nodes []Node
	mechs := []sharing.Mechanism{sharing.MechanismNone, sharing.MechanismMPS, sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismExclusive, sharing.MechanismVGPU, sharing.MechanismMIG}
	for i := range 14 {
		n := Node{Name: fmt.Sprintf("n%02d", i), CPUMilli: 40_000, Memory: 256 * sharing.GiB, Model: []string{"A", "B"}[i%2]}
		for range 1 + i%4 {
			g := GPU{Mechanism: mechs[i%len(mechs)], Memory: Some(80 * sharing.GiB)}
			if g.Mechanism == sharing.MechanismMIG {
				g.MIG = m
			}
			n.GPUs = append(n.GPUs, g)
		}
		nodes = append(nodes, n)
	}
	requests := []Request{
		{CPUMilli: 2_000, GPUs: 1, Milli: 300, Tenant: "a"},
		{CPUMilli: 2_000, GPUs: 1, Milli: 300, Tenant: "b"},
		{CPUMilli: 1_000, GPUs: 1, Milli: 250, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismHAMi}},
		{CPUMilli: 1_000, GPUs: 1, Milli: 250, Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}},
		{CPUMilli: 4_000, GPUs: 1, GPUMemory: 30 * sharing.GiB},
		{CPUMilli: 8_000, Memory: 32 * sharing.GiB, GPUs: 1, Milli: 1000},
		{CPUMilli: 8_000, Memory: 32 * sharing.GiB, GPUs: 2, Milli: 1000, Models: []string{"B"}},
		{CPUMilli: 4_000, GPUs: 2, Milli: 200},
		{CPUMilli: 4_000, Memory: sharing.GiB},
		{CPUMilli: 1_000, GPUs: 1, Profile: "1g.10gb"},
		{CPUMilli: 2_000, GPUs: 1, Profile: "3g.40gb"},
		{CPUMilli: 2_000, GPUs: 1, Profile: "1g.20gb"},
	}
	for i := range requests {
		requests[i].Name = fmt.Sprintf("r%02d", i)
	}
	return nodes, requests
}

func zooMix(tb testing.TB, requests []Request) *Mix {
	tb.Helper()
	var typical []Typical
	for i, r := range requests {
		typical = append(typical, Typical{r, float64(1 + i%3)})
	}
	m, err := NewMix(typical)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func policies(tb testing.TB) []Policy {
	_, requests := zoo(tb)
	m := zooMix(tb, requests)
	return []Policy{BestFit{}, Spread{}, Random{Seed: 3}, NewFragmentation(m), NewCotenant(m), Interference{}, Interference{Base: NewCotenant(m)}}
}

// check recomputes what is free on every node from what is placed.
func check(t *testing.T, nodes []Node, s *Snapshot) {
	t.Helper()
	for i := range s.Len() {
		want := nodes[i].view()
		for _, p := range s.Placements(i) {
			want.CPUMilli -= p.Request.CPUMilli
			want.Memory -= p.Request.Memory
			for _, g := range p.GPUs {
				v := &want.GPUs[g]
				if v.Tenants > 0 && v.Mechanism != p.Mechanism {
					t.Fatalf("%v beside %v", p.Mechanism, v.Mechanism)
				}
				if v.fixed && v.Mechanism != p.Mechanism {
					t.Fatalf("%v on a GPU that is fixed to %v", p.Mechanism, v.Mechanism)
				}
				v.Mechanism = p.Mechanism
				v.Tenants++
				v.Room--
				if p.Profile != nil {
					var ok bool
					if v.Slices, ok = v.Slices.With(p.Profile, p.Start); !ok {
						t.Fatalf("%v overlaps", p)
					}
					continue
				}
				v.Milli -= int32(p.Milli)
				v.Memory -= p.GPUMemory
				if v.Milli < 0 || v.Memory < 0 {
					t.Fatalf("%v: more than there is", p)
				}
				for _, q := range s.Placements(i) {
					if gate.TraitsOf(p.Mechanism).Trusting && slices.Contains(q.GPUs, g) && !trusts(p.Request, q.Request) {
						t.Fatalf("%v beside %v", p, q)
					}
				}
			}
		}
		if want.CPUMilli < 0 || want.Memory < 0 {
			t.Fatalf("%s: more than there is", s.Name(i))
		}
		if got := *s.View(i); got != want {
			t.Fatalf("%s: the view is\n%+v, what is placed says\n%+v", s.Name(i), got, want)
		}
	}
}

// TestRandomWalk reserves and releases at random under every policy and holds
// the books after every step; a Placer, which keeps scores, must choose what
// scoring every node afresh would.
func TestRandomWalk(t *testing.T) {
	nodes, requests := zoo(t)
	for _, policy := range policies(t) {
		t.Run(policy.Name(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := snapshot(t, nodes...)
			empty := s
			placer, scorer := NewPlacer(policy, nil), NewScorer(policy, nil)
			var live []*Placement
			placed := 0
			for range 400 {
				if len(live) > 0 && rng.IntN(3) == 0 {
					i := rng.IntN(len(live))
					next, err := s.Release(live[i])
					if err != nil {
						t.Fatal(err)
					}
					if _, err := next.Release(live[i]); !errors.Is(err, ErrNotPlaced) {
						t.Fatalf("released twice: %v", err)
					}
					if _, err := next.Release(nil); !errors.Is(err, ErrNotPlaced) {
						t.Fatalf("released nothing: %v", err)
					}
					s, live = next, slices.Delete(live, i, i+1)
				} else {
					r := &requests[rng.IntN(len(requests))]
					best, ok := placer.Best(s, r)
					var want Offer
					wantOK := false
					for i := range s.Len() {
						if c, f := scorer.Score(s, i, r); f.Verdict == gate.VerdictPass && (!wantOK || c.Score > want.Score+tie) {
							want, wantOK = c, true
						}
					}
					if best != want || ok != wantOK {
						t.Fatalf("kept scores choose %+v, fresh ones %+v", best, want)
					}
					if !ok {
						if e := s.Unplaced(r, nil); e == nil || !errors.Is(e, ErrNoFit) {
							t.Fatal("nothing says why")
						}
						continue
					}
					next, p, err := s.Reserve(r, best)
					if err != nil {
						t.Fatal(err)
					}
					s, live = next, append(live, p)
					placed++
				}
				check(t, nodes, s)
			}
			if placed < 100 {
				t.Errorf("only %d placed", placed)
			}
			for _, p := range live {
				var err error
				if s, err = s.Release(p); err != nil {
					t.Fatal(err)
				}
			}
			for i := range s.Len() {
				if *s.View(i) != *empty.View(i) {
					t.Fatalf("%s is not empty again", s.Name(i))
				}
			}
		})
	}
}

func TestReserveConflict(t *testing.T) {
	s := snapshot(t, Node{Name: "a", GPUs: []GPU{{Mechanism: sharing.MechanismMPS}}})
	r := &Request{Name: "r", GPUs: 1, Milli: 600}
	c, _ := NewScorer(BestFit{}, nil).Score(s, 0, r)
	next, _, err := s.Reserve(r, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := next.Reserve(r, c); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "the most free is 400") {
		t.Errorf("%v", err)
	}
	if s.View(0).FreeMilli() != 1000 {
		t.Error("the old snapshot changed")
	}
}

// TestConcurrentScoring scores the same nodes from many goroutines; run with
// -race. The answers must not depend on who was first.
func TestConcurrentScoring(t *testing.T) {
	nodes, requests := zoo(t)
	s := snapshot(t, nodes...)
	for _, policy := range policies(t) {
		scorer := NewScorer(policy, nil)
		var wg sync.WaitGroup
		got := make([][]Offer, 8)
		for w := range got {
			got[w] = make([]Offer, s.Len()*len(requests))
			wg.Go(func() {
				for i := range s.Len() {
					n := (i + w) % s.Len()
					for j := range requests {
						got[w][n*len(requests)+j], _ = scorer.Score(s, n, &requests[j])
					}
				}
			})
		}
		wg.Wait()
		for w := range got {
			if !slices.Equal(got[w], got[0]) {
				t.Errorf("%s: worker %d has other scores", policy.Name(), w)
			}
		}
	}
}

func TestScoringDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	nodes, requests := zoo(t)
	s := snapshot(t, nodes...)
	for _, policy := range policies(t) {
		scorer := NewScorer(policy, nil)
		n := testing.AllocsPerRun(20, func() {
			for i := range s.Len() {
				for j := range requests {
					scorer.Score(s, i, &requests[j])
				}
			}
		})
		// A garbage collection in between may empty the pool.
		if n > 2 {
			t.Errorf("%s: %v allocations for %d scores", policy.Name(), n, s.Len()*len(requests))
		}
	}
}
