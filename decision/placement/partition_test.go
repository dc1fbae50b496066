package placement

import (
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// TestIdleGPUIsPartitioned partitions an idle GPU that names its model, and gives
// it back whole; one that names none is refused as before.
func TestIdleGPUIsPartitioned(t *testing.T) {
	model, err := mig.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	slice, whole := &Request{Name: "slice", GPUs: 1, Profile: "1g.10gb"}, &Request{Name: "whole", GPUs: 1, Milli: 1000}
	snapshot := func(g GPU) *Snapshot {
		s, err := NewSnapshot([]Node{{Name: "a", GPUs: []GPU{g}}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if f := snapshot(GPU{}).Fit(0, slice, nil); f.Code != gate.CodeNotMIG {
		t.Errorf("a GPU that names no model: %v", f)
	}
	if _, err := NewSnapshot([]Node{{Name: "a", GPUs: []GPU{{Mechanism: sharing.MechanismMPS, MIG: model}}}}); err == nil {
		t.Error("a GPU that runs MPS is said to be partitioned")
	}
	placer, s := NewPlacer(BestFit{}, nil), snapshot(GPU{MIG: model})
	if f := s.Fit(0, whole, nil); f.Verdict != gate.VerdictPass {
		t.Errorf("a whole idle GPU: %v", f)
	}
	var placed []*Placement
	for range 7 {
		offer, ok := placer.Best(s, slice)
		if !ok {
			t.Fatalf("%d instances fit", len(placed))
		}
		var p *Placement
		if s, p, err = s.Reserve(slice, offer); err != nil {
			t.Fatal(err)
		}
		placed = append(placed, p)
	}
	if f := s.Fit(0, slice, nil); f.Code != gate.CodeSlices {
		t.Errorf("an eighth instance: %v", f)
	}
	for _, p := range placed {
		if f := s.Fit(0, whole, nil); f.Code != gate.CodeMIGMode {
			t.Errorf("a whole GPU that is partitioned: %v", f)
		}
		if s, err = s.Release(p); err != nil {
			t.Fatal(err)
		}
	}
	if *s.View(0) != *snapshot(GPU{MIG: model}).View(0) {
		t.Errorf("not as before: %+v", s.View(0).GPUs[0])
	}
}

// TestPartitionsDoNotMix places and releases at random on GPUs that may be
// partitioned: none has an instance beside another tenant, and all are as before
// in the end.
func TestPartitionsDoNotMix(t *testing.T) {
	model, err := mig.Lookup("h100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	gpus := make([]GPU, 4)
	for i := range gpus {
		gpus[i] = GPU{MIG: model, Memory: Some(80 * sharing.GiB)}
	}
	empty, err := NewSnapshot([]Node{{Name: "a", GPUs: gpus}})
	if err != nil {
		t.Fatal(err)
	}
	requests := []*Request{{GPUs: 1, Profile: "1g.10gb"}, {GPUs: 1, Profile: "3g.40gb"}, {GPUs: 1, Milli: 1000}, {GPUs: 2, Milli: 1000},
		{GPUs: 1, Milli: 300, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS}}, {GPUs: 1, Milli: 500, Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}}}
	mix, err := NewMix([]Typical{{Request: *requests[0], Weight: 1}, {Request: *requests[4], Weight: 1}})
	if err != nil {
		t.Fatal(err)
	}
	rng, partitioned := rand.New(rand.NewPCG(7, 8)), 0
	for _, policy := range []Policy{BestFit{}, Spread{}, NewCotenant(mix), NewFragmentation(mix), Random{Seed: 1}} {
		placer, s := NewPlacer(policy, nil), empty
		for range 1000 {
			if here := s.Placements(0); len(here) > 0 && rng.IntN(2) == 0 {
				if s, err = s.Release(here[rng.IntN(len(here))]); err != nil {
					t.Fatal(err)
				}
			} else if r := requests[rng.IntN(len(requests))]; true {
				if offer, ok := placer.Best(s, r); ok {
					if s, _, err = s.Reserve(r, offer); err != nil {
						t.Fatalf("%s: %v", policy.Name(), err)
					}
				}
			}
			var runs [4][2]int // other tenants and instances
			for _, p := range s.Placements(0) {
				for _, g := range p.GPUs {
					kind := 0
					if p.Profile != nil {
						kind = 1
						partitioned++
					}
					runs[g][kind]++
				}
			}
			for g, n := range runs {
				if v := s.View(0).GPUs[g]; n[0] > 0 && n[1] > 0 || (v.MIG != nil) != (n[1] > 0) || (v.Mechanism == sharing.MechanismNone) != (n[0]+n[1] == 0) {
					t.Fatalf("%s: GPU %d has %v tenants and instances and runs %v", policy.Name(), g, n, v.Mechanism)
				}
			}
		}
		for _, p := range s.Placements(0) {
			if s, err = s.Release(p); err != nil {
				t.Fatal(err)
			}
		}
		if *s.View(0) != *empty.View(0) {
			t.Errorf("%s: not as before: %+v", policy.Name(), s.View(0))
		}
	}
	if partitioned == 0 {
		t.Error("nothing was partitioned")
	}
}
