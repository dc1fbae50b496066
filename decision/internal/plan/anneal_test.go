// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
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
		f.Pools = append(f.Pools, fleet.Pool{Name: fmt.Sprintf("p%d", i), GPU: gpus[rng.IntN(len(gpus))], Count: 1 + rng.IntN(16), PricePerGPUHour: sharing.Some(m)})
	}
	kinds := []fleet.Kind{"training", "online-inference", "batch", "notebook", "hpc"}
	for i := range 1 + rng.IntN(3) {
		w := fleet.Workload{Name: fmt.Sprintf("w%d", i), Kind: kinds[rng.IntN(len(kinds))], Replicas: fleet.Replicas{Max: 1 + rng.IntN(3)},
			Memory: sharing.Some(sharing.Bytes(1+rng.IntN(14)) * sharing.GiB), Tenant: fmt.Sprintf("t%d", rng.IntN(2)),
			GPUBusy: sharing.Some(float64(1+rng.IntN(16)) / 20)}
		if rng.IntN(4) == 0 {
			w.Isolation = fleet.Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
		}
		if w.Kind == "online-inference" && rng.IntN(3) > 0 {
			w.SLO.E2EP99 = sharing.Some(profile.Duration(1e9))
			w.Solo.E2EP99 = sharing.Some(profile.Duration(float64(1+rng.IntN(8)) * 1e8))
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f
}

func runShort(rng *rand.Rand, f *fleet.Fleet) {
	for i := range f.Pools {
		f.Pools[i].Count = 1 + rng.IntN(2)
	}
}

// planned is a fleet's planner with everything arranged.
func planned(t *testing.T, f *fleet.Fleet) *Planner {
	t.Helper()
	pl, err := PlanFleet(f, Options{Confidence: 0.97, Driver: 0.025, Fragmentation: 0.08}, Rounds)
	if err != nil {
		t.Fatal(err)
	}
	return pl
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

// exhaustive tries every place of every replica, one GPU or instance after another, and returns the best arrangement's
// replicas and cost.
func exhaustive(s *search) (most placement, least float64) {
	seen := map[string]bool{}
	var visit func(w, left int, wholes map[Member]int, gpus [][]*filling, placed []int, longer float64)
	visit = func(w, left int, wholes map[Member]int, gpus [][]*filling, placed []int, longer float64) {
		key := fmt.Sprint(w, left, wholes, placed, longer)
		for i := range gpus {
			slices.SortFunc(gpus[i], func(a, b *filling) int {
				return cmp.Compare(fmt.Sprint(a.Members), fmt.Sprint(b.Members))
			})
			for _, f := range gpus[i] {
				key += fmt.Sprint(i, f.Members)
			}
		}
		if seen[key] {
			return
		}
		seen[key] = true
		loads, cost := make([]load, len(s.pl.Pools)), longer
		for m, n := range wholes { // by workload and pool
			loads[m.Replicas] = s.withWhole(&loads[m.Replicas], m.Workload, m.Replicas, n)
		}
		for _, h := range s.sites {
			s.spans = s.spans[:0]
			for i, f := range gpus[h.index] {
				s.spans = append(s.spans, f.span(i))
			}
			part := s.partOf(h, int32(len(s.spans)), 0)
			loads[h.key.Pool] = loads[h.key.Pool].swapped(&load{}, &part)
		}
		for p := range loads {
			if !s.pl.sites[p].fits(&loads[p]) {
				return
			}
			cost += s.costs[p].of(&loads[p])
		}
		if n := s.pl.placementOf(placed); n.compare(&most) > 0 || n == most && cost < least {
			most, least = n, cost
		}
		if left == 0 {
			if w++; w == len(s.pl.Workloads) {
				return
			}
			left = s.pl.Wanted[w]
		}
		visit(w, 0, wholes, gpus, placed, longer) // the others have no place
		for _, v := range s.ways[w] {
			next := slices.Clone(placed)
			if v.site == nil {
				next[w]++
				more := maps.Clone(wholes)
				more[Member{w, v.c.Pool}]++
				visit(w, left-1, more, gpus, next, longer+v.c.Longer)
				continue
			}
			n := min(v.site.each, left)
			next[w] += n
			at := gpus[v.site.index]
			for i, f := range append(slices.Clone(at), v.site.empty) {
				if room, err := s.roomIn(f, w); err != nil || room == 0 {
					continue
				}
				other := slices.Clone(gpus)
				other[v.site.index] = append(slices.Clone(at[:i]), s.with(f, w, 1))
				other[v.site.index] = append(other[v.site.index], at[min(i+1, len(at)):]...)
				visit(w, left-n, wholes, other, next, longer+v.c.Longer*float64(n))
			}
		}
	}
	visit(0, s.pl.Wanted[0], map[Member]int{}, make([][]*filling, len(s.sites)), make([]int, len(s.pl.Workloads)), 0)
	return most, least
}

// TestSearchFindsWhatIsBest: the search places as many replicas for as little as the best of all arrangements.
func TestSearchFindsWhatIsBest(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rng := rand.New(rand.NewPCG(41, 42))
	short := 0
	for i := range nightly.Cases(12, 100) {
		f := smallFleet(rng)
		if i%2 == 1 {
			runShort(rng, f)
		}
		for p := range f.Pools {
			if each := 1 << rng.IntN(4); i%4 < 2 && each > 1 {
				f.Pools[p].GPUsPerNode, f.Pools[p].Delivery = sharing.Some(each), sharing.DeliveryDRA
			}
		}
		pl := planned(t, f)
		placed, cost := pl.placementOf(pl.Placed), pl.Longer()
		for p := range pl.Pools {
			weight, _ := pl.weight(p)
			cost += weight
		}
		if len(pl.lacking()) > 0 {
			short++
		}
		if most, least := exhaustive(pl.newSearch()); placed != most || compareCosts(least, cost) != 0 {
			t.Errorf("fleet %d: %v replicas for %.3f, and the best are %v for %.3f", i, placed, cost, most, least)
		}
	}
	if short < nightly.Cases(1, 10) {
		t.Errorf("GPUs ran short in %d fleets", short)
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
			f.Pools = append(f.Pools, fleet.Pool{Name: gpu, GPU: gpu, Count: most[p], GPUsPerNode: sharing.Some(each[p]), PricePerGPUHour: sharing.Some(m)})
		}
		reached := map[[3]int]bool{{}: true} // GPUs in use by pool
		for i := range 60 {
			n, large := 1+rng.IntN(5), rng.IntN(4) == 0
			w := fleet.Workload{Name: fmt.Sprintf("w%d", i), Kind: "notebook", Replicas: fleet.Replicas{Max: n}, Memory: sharing.Some(16 * sharing.GiB), GPUBusy: sharing.Some(0.9)}
			if large {
				w.Memory = sharing.Some(60 * sharing.GiB)
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
			charged := 0
			for p, n := range used {
				charged += (n + each[p] - 1) / each[p] * each[p] * prices[f.Pools[p].Name]
			}
			least = min(least, charged)
		}
		pl, err := PlanFleet(f, Options{Confidence: 0.97, Driver: 0.025, Fragmentation: 0.08}, 1)
		if err != nil {
			t.Fatal(err)
		}
		charged := 0
		for p, cp := range pl.Pools {
			charged += pl.Charged(p).GPUs() * prices[cp.Pool.Name]
		}
		if len(pl.lacking()) > 0 || charged != least {
			t.Errorf("%d for all but %d, and all could have their places for %d", charged, len(pl.lacking()), least)
		}
	}
}
