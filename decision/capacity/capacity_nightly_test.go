//go:build nightly

package capacity_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
)

// TestSharingLoses: two models whose prompts are long and whose tokens must come fast.
// Beside each other they slow each other down, and GPUs of their own are cheaper.
func TestSharingLoses(t *testing.T) {
	race.Long(t)
	o := limits(1500*ms, 60*ms)
	r := found(t, capacity.Plan{
		Tenants: []capacity.Tenant{{Name: "code", Model: "8b", Shape: llama8B, Objectives: o}, {Name: "rag", Model: "other-8b", Shape: llama8B, Objectives: o}},
		Requests: slices.Values(stream(1500, 2, 1, func(rng *rand.Rand, r *capacity.Request) {
			r.Tenant, r.Input, r.Output = rng.IntN(2), 2500+rng.IntN(3000), 30+rng.IntN(60)
		})),
		GPUs: []capacity.GPU{{Name: "L40S", PricePerHour: usd(t, 900_000)}, {Name: "A100-SXM4-80GB", PricePerHour: usd(t, 1_800_000)}},
	})
	if r.Chosen == nil || r.Chosen.Kind != capacity.KindOwnGPU {
		t.Errorf("chosen: %+v", r.Chosen)
	}
	golden.Check(t, "testdata/sharing-loses.txt", page(r))
}

// TestMergedServerWins: two teams ask for the same model. One server for both holds
// the weights once and fills its batches better than two under MPS or MIG.
func TestMergedServerWins(t *testing.T) {
	o := limits(2000*ms, 60*ms)
	r := found(t, capacity.Plan{
		Tenants:  []capacity.Tenant{{Name: "search", Model: "8b", Shape: llama8B, Objectives: o}, {Name: "support", Model: "8b", Shape: llama8B, Objectives: o}},
		Requests: slices.Values(stream(1500, 16, 1, func(rng *rand.Rand, r *capacity.Request) { r.Tenant = rng.IntN(2) })),
		GPUs:     []capacity.GPU{{Name: "A100-SXM4-80GB", PricePerHour: usd(t, 1_800_000)}},
	})
	kinds := map[capacity.Kind]bool{}
	for i := range r.Arrangements {
		kinds[r.Arrangements[i].Kind] = true
	}
	if r.Chosen == nil || r.Chosen.Kind != capacity.KindMergedServer || !kinds[capacity.KindMPS] || !kinds[capacity.KindMIG] {
		t.Errorf("chosen: %+v of %v", r.Chosen, kinds)
	}
	golden.Check(t, "testdata/merged-wins.txt", page(r))
}
