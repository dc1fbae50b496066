// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// smallFleet is a random fleet of a few pools and workloads.
func smallFleet(rng *rand.Rand) *fleet.Fleet {
	gpus := []string{"A100-SXM4-80GB", "T4", "L4", "H100 80GB HBM3", "A30", "L40S"}
	f := &fleet.Fleet{Version: "v1"}
	for i := range 1 + rng.IntN(3) {
		m, _ := cost.FromMicros(int64(500_000+250_000*rng.IntN(20)), "USD")
		f.Pools = append(f.Pools, fleet.Pool{Name: fmt.Sprintf("p%d", i), GPU: gpus[rng.IntN(len(gpus))], Count: 1 + rng.IntN(16), PricePerGPUHour: fleet.Some(m)})
	}
	for i := range 1 + rng.IntN(4) {
		w := fleet.Workload{Name: fmt.Sprintf("w%d", i), Kind: [...]fleet.Kind{fleet.KindTraining, fleet.KindOnlineInference, fleet.KindOnlineInference, fleet.KindOnlineInference, fleet.KindOfflineInference, fleet.KindBatch, fleet.KindNotebook, fleet.KindCI, fleet.KindHPC}[rng.IntN(9)], Replicas: fleet.Replicas{Max: 1 + rng.IntN(3)},
			Memory: fleet.Some(sharing.Bytes(1+rng.IntN(14)) * sharing.GiB), Tenant: fmt.Sprintf("t%d", rng.IntN(2))}
		if rng.IntN(6) > 0 {
			w.GPUBusy = fleet.Some(float64(1+rng.IntN(16)) / 20)
		}
		switch rng.IntN(4) {
		case 0:
			w.Isolation = fleet.Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
		case 1:
			w.Isolation.Fault = sharing.LevelDriver
		}
		if w.Kind == fleet.KindOnlineInference && rng.IntN(3) > 0 {
			w.SLO.E2EP99 = fleet.Some(profile.Duration(1e9))
			if rng.IntN(3) > 0 {
				w.Solo.E2EP99 = fleet.Some(profile.Duration(float64(1+rng.IntN(8)) * 1e8))
			}
		}
		if w.Kind == fleet.KindOnlineInference && rng.IntN(3) == 0 {
			w.Memory, w.GPUBusy = fleet.Optional[sharing.Bytes]{}, fleet.Optional[float64]{}
			w.Model = &fleet.LanguageModel{Parameters: int64(1+rng.IntN(8)) * 1e9, Weights: fleet.PrecisionFP16}
			w.Load = &fleet.Traffic{RequestsPerS: 0.25 * float64(1+rng.IntN(8)), InputTokens: fleet.Some(256), OutputTokens: fleet.Some(64)}
			w.SLO, w.Solo = profile.SLO{TPOTP99: fleet.Some(profile.Duration(60e6)), TTFTP99: fleet.Some(profile.Duration(1e9))}, profile.SLO{}
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f
}

func runShort(rng *rand.Rand, f *fleet.Fleet) {
	for i := range f.Pools {
		f.Pools[i].Count = 1 + rng.IntN(3)
	}
}

// planned is a fleet's planner with everything arranged.
func planned(t *testing.T, f *fleet.Fleet) *Planner {
	t.Helper()
	pl, err := PlanFleet(f, Options{Confidence: DefaultConfidence, Headroom: &DefaultHeadroom}, Rounds)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

// TestOverfull: what is not packed would take more GPUs than there are.
func TestOverfull(t *testing.T) {
	pl := planned(t, &fleet.Fleet{Version: "v1", Pools: []fleet.Pool{{Name: "p", GPU: "A100-SXM4-80GB", Count: 2}}, Workloads: []fleet.Workload{{
		Name: "w", Kind: fleet.KindNotebook, Replicas: fleet.Replicas{Max: 40}, Memory: fleet.Some(8 * sharing.GiB),
		GPUBusy: fleet.Some(0.05), Isolation: fleet.Isolation{Memory: sharing.LevelHardware}}}})
	key, g := GroupKey{0, sharing.MechanismMIG}, pl.newGrid([]int{0})
	for point := range g.size {
		group, err := pl.pack(key, nil, g.members(point))
		if over := pl.overfull(g, key, point); err != nil || over && group.GPUs() <= 2 || over != (point > 16) {
			t.Errorf("%d replicas: overfull %v, on %d GPUs, %v", point, over, group.GPUs(), err)
		}
	}
}

// lacking are the workloads that have not all their replicas placed.
func (pl *Planner) lacking() (ws []int) {
	for w := range pl.Workloads {
		if pl.Placed[w] < pl.Wanted[w] && len(pl.Choices[w]) > 0 {
			ws = append(ws, w)
		}
	}
	return ws
}

// TestSearchFindsWhatIsBest: from nothing, the search places as many replicas for
// as little as comparing all arrangements does, and never more.
func TestSearchFindsWhatIsBest(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rng := rand.New(rand.NewPCG(41, 42))
	short := 0
	for i := range nightly.Cases(10, 40) {
		f := smallFleet(rng)
		if i%2 == 1 {
			runShort(rng, f)
		}
		for p := range f.Pools {
			if each := 1 << rng.IntN(4); i%4 < 2 && each > 1 {
				f.Pools[p].GPUsPerNode = fleet.Some(each)
			}
		}
		pl := planned(t, f)
		if pl.Search != SearchAll {
			continue
		}
		exact, cost := pl.placementOf(pl.Placed), pl.cost()
		if len(pl.Workloads) > pl.Asked || len(pl.lacking()) > 0 {
			short++
		}
		pl.clear()
		if err := errors.Join(pl.improve(pl.order()), pl.spill()); err != nil {
			t.Fatal(err)
		}
		if found, least := pl.placementOf(pl.Placed), pl.cost(); found != exact || compareCosts(least, cost) != 0 {
			t.Errorf("%d replicas for %.3f, found %d for %.3f", exact, cost, found, least)
		}
		for p := range pl.Pools {
			if used, _ := pl.Used(p); used > pl.Pools[p].Pool.Count {
				t.Errorf("%d GPUs of %d in use", used, pl.Pools[p].Pool.Count)
			}
		}
	}
	if short < nightly.Cases(2, 8) {
		t.Errorf("GPUs ran short in %d fleets", short)
	}
}

// TestWholeNodesFill: a workload that is placed counts its part of a node that later ones may fill, and the search then
// counts the nodes.
func TestWholeNodesFill(t *testing.T) {
	price := func(micros int64) fleet.Optional[cost.Money] {
		m, _ := cost.FromMicros(micros, "USD")
		return fleet.Some(m)
	}
	f := &fleet.Fleet{Version: "v1", Pools: []fleet.Pool{
		{Name: "big", GPU: "A100-SXM4-80GB", Count: 48, GPUsPerNode: fleet.Some(8), PricePerGPUHour: price(900_000)},
		{Name: "small", GPU: "L4", Count: 48, PricePerGPUHour: price(1_000_000)}}}
	for i := range 45 {
		f.Workloads = append(f.Workloads, fleet.Workload{Name: fmt.Sprintf("w%d", i), Kind: fleet.KindNotebook, Memory: fleet.Some(16 * sharing.GiB), GPUBusy: fleet.Some(0.9)})
	}
	for rounds, want := range []int{48, 40} {
		pl, err := PlanFleet(f, Options{Confidence: DefaultConfidence, Headroom: &DefaultHeadroom}, rounds)
		if err != nil {
			t.Fatal(err)
		}
		used, _ := pl.Used(0)
		if paid := pl.Pools[0].Paid(used, 0).GPUs(); paid != want {
			t.Errorf("after %d rounds %d GPUs of whole nodes are paid for, want %d", rounds, paid, want)
		}
	}
}

// TestSearchOfWholeNodes: for workloads that want whole GPUs, of pools that are bought in whole nodes, one round of the
// search finds what a dynamic program over the GPUs in use finds.
func TestSearchOfWholeNodes(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rng := rand.New(rand.NewPCG(61, 62))
	for range nightly.Cases(8, 60) {
		f := &fleet.Fleet{Version: "v1"}
		prices := map[string]int{}
		var each, most [3]int
		for p, gpu := range []string{"A100-SXM4-80GB", "A10", "L4"} {
			each[p] = [...]int{8, 4, 1}[p]
			most[p] = each[p] * (16 + rng.IntN(8)) * [...]int{1, 1, 4}[p]
			prices[gpu] = [...]int{1300, 1100, 1000}[p] + rng.IntN(400)
			m, _ := cost.FromMicros(int64(prices[gpu])*1000, "USD")
			f.Pools = append(f.Pools, fleet.Pool{Name: gpu, GPU: gpu, Count: most[p], GPUsPerNode: fleet.Some(each[p]), PricePerGPUHour: fleet.Some(m)})
		}
		reached := map[[3]int]bool{{}: true} // GPUs in use by pool
		for i := range 60 {
			n, large := 1+rng.IntN(5), rng.IntN(4) == 0
			w := fleet.Workload{Name: fmt.Sprintf("w%d", i), Kind: fleet.KindNotebook, Replicas: fleet.Replicas{Max: n}, Memory: fleet.Some(16 * sharing.GiB), GPUBusy: fleet.Some(0.9)}
			if large {
				w.Memory = fleet.Some(60 * sharing.GiB)
			}
			next := map[[3]int]bool{}
			for used := range reached {
				for p := range used {
					more := used
					if more[p] += n; more[p] <= most[p] && (p == 0 || !large) {
						next[more] = true
					}
				}
			}
			f.Workloads, reached = append(f.Workloads, w), next
		}
		least := math.MaxInt
		for used := range reached {
			bill := 0
			for p, n := range used {
				bill += (n + each[p] - 1) / each[p] * each[p] * prices[f.Pools[p].Name]
			}
			least = min(least, bill)
		}
		pl, err := PlanFleet(f, Options{Confidence: DefaultConfidence, Headroom: &DefaultHeadroom}, 1)
		if err != nil {
			t.Fatal(err)
		}
		bill := 0
		for p, cp := range pl.Pools {
			bill += pl.Paid(p).GPUs() * prices[cp.Pool.Name]
		}
		if len(pl.lacking()) > 0 || bill != least {
			t.Errorf("%d for all but %d, and all could have their places for %d", bill, len(pl.lacking()), least)
		}
	}
}
