// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

func decideText(t *testing.T, text string) *Result {
	t.Helper()
	f, err := ParseFleet([]byte("version: v1\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return decide(t, f)
}

// TestNothingIsSavedThatNobodyBought: a fleet owns 8 GPUs, and its 20 replicas share a few of them. Only GPUs that are
// paid for can be freed.
func TestNothingIsSavedThatNobodyBought(t *testing.T) {
	r := decideText(t, `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 8, price_per_gpu_hour: "1.80 USD"}]
workloads: [{name: n, kind: notebook, replicas: 20, memory: 4GiB, gpu_busy: 0.05, tenant: t}]
`)
	used := r.Pools[0].GPUsNeeded
	if r.Decisions[0].Placed != 20 || used >= 8 {
		t.Fatalf("%d placed on %d GPUs", r.Decisions[0].Placed, used)
	}
	// 1.80 an hour for 730 hours is 1314 a month and GPU.
	after := []string{"", "1314.00", "2628.00", "3942.00"}[used]
	freed := []string{"", "9198.00", "7884.00", "6570.00"}[used]
	want := Costs{GPUsToday: 8, GPUsAfter: used, MonthlyToday: "10512.00", MonthlyAfter: after, MonthlyFreed: freed, MonthlyFreedBySharing: freed}
	if diff := cmp.Diff(want, r.Totals.Costs); diff != "" || r.Totals.UnsharedGPUs != 20 || r.Totals.MonthlyUnshared != "26280.00" {
		t.Errorf("%s, alone %d GPUs for %s", diff, r.Totals.UnsharedGPUs, r.Totals.MonthlyUnshared)
	}
}

// TestNodesArePaidWhole: GPUs of a node that is half used cost as much as used ones.
func TestNodesArePaidWhole(t *testing.T) {
	r := decideText(t, `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 16, gpus_per_node: 8, node_price_per_hour: "10.00 USD"}]
workloads: [{name: t, kind: training, replicas: 3, memory: 60GiB, gpu_busy: 0.9, tenant: t}]
`)
	want := Costs{GPUsToday: 16, GPUsAfter: 8, NodesToday: 2, NodesAfter: 1, MonthlyToday: "14600.00", MonthlyAfter: "7300.00", MonthlyFreed: "7300.00", MonthlyFreedIdle: "7300.00"}
	if diff := cmp.Diff(want, r.Totals.Costs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, r.Pools[0].Costs); diff != "" {
		t.Error(diff)
	}
	var text strings.Builder
	if err := r.WriteText(&text, TextOptions{}); err != nil || !strings.Contains(text.String(), "1 of 2 nodes, 5 GPUs unused") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestUnusedGPUsOfNodes: free GPUs of a node that is bought whole cost nothing more, so that pinning workloads to it
// saves nothing.
func TestUnusedGPUsOfNodes(t *testing.T) {
	const text = `
pools:
  - {name: big, gpu: H100 80GB HBM3, count: 8, gpus_per_node: 8, node_price_per_hour: "28.00 USD", owned: false}
  - {name: small, gpu: L4, count: 8, price_per_gpu_hour: "0.80 USD", owned: false}
workloads:
  - {name: train, kind: training, replicas: 5, memory: 60GiB, gpu_busy: 0.9, tenant: t}
  - {name: rank, kind: notebook, replicas: 2, memory: 16GiB, gpu_busy: 0.9, tenant: t}
`
	want := Costs{GPUsAfter: 8, NodesAfter: 1, MonthlyToday: "0.00", MonthlyAfter: "20440.00", MonthlyFreed: "-20440.00", MonthlyAdded: "20440.00"}
	pinned := strings.Replace(text, "memory: 16GiB", "pool: big, memory: 16GiB", 1)
	for _, text := range []string{text, pinned} {
		if diff := cmp.Diff(want, decideText(t, text).Totals.Costs); diff != "" {
			t.Error(diff)
		}
	}
	// What finds no room in it goes where it is cheapest, and no second node is bought.
	r := decideText(t, strings.Replace(strings.Replace(text, "count: 8, gpus", "count: 16, gpus", 1), "replicas: 2", "replicas: 3", 1)+
		"  - {name: more, kind: notebook, replicas: 4, memory: 16GiB, gpu_busy: 0.9, tenant: t}\n")
	if b := r.Totals.Costs; b.NodesAfter != 1 || b.MonthlyAfter != "22776.00" || b.GPUsAfter != 12 {
		t.Errorf("%+v", b)
	}
}

// TestMoreGPUsAreBought: GPUs that are missing come in whole nodes and for the price on demand, which tell the pool
// where they cost least.
func TestMoreGPUsAreBought(t *testing.T) {
	const nodes, single = `{name: nodes, gpu: A100-SXM4-80GB, count: 8, gpus_per_node: 8, price_per_gpu_hour: "2.00 USD"}`, `{name: single, gpu: A100-SXM4-80GB, count: 8, price_per_gpu_hour: "3.00 USD"%s}`
	few := strings.Replace(nodes, "count: 8, gpus_per_node: 8", "count: 4", 1)
	reserved := fmt.Sprintf(single, `, reserved: {price_per_gpu_hour: "0.10 USD"}`)
	const first = "{name: first, kind: training, replicas: 7, memory: 60GiB, gpu_busy: 0.9, tenant: t, pool: single, priority: 9}, "
	for _, c := range []struct {
		pools, before string
		replicas      int
		want          MoreGPUs
	}{
		{nodes, "", 9, MoreGPUs{"nodes", 8}},
		{nodes, "", 17, MoreGPUs{"nodes", 16}},
		{nodes + ", " + fmt.Sprintf(single, ""), "", 17, MoreGPUs{"single", 1}},
		{nodes + ", " + fmt.Sprintf(single, ""), "", 23, MoreGPUs{"nodes", 8}},
		{few + ", " + reserved, first, 7, MoreGPUs{"nodes", 2}},
	} {
		r := decideText(t, fmt.Sprintf("pools: [%s]\nworkloads: [%s{name: t, kind: training, replicas: %d, memory: 60GiB, gpu_busy: 0.9, tenant: t}]\n", c.pools, c.before, c.replicas))
		if m := r.Decision("t").MoreGPUs; m == nil || *m != c.want {
			t.Errorf("%s, %d replicas: %+v more", c.pools, c.replicas, m)
		}
	}
}

// TestSpotNodes: no node is spot in part, and reserved GPUs come before purchased ones.
func TestSpotNodes(t *testing.T) {
	pool := `
pools: [{name: p, gpu: L4, count: 16, gpus_per_node: 4, price_per_gpu_hour: "1.00 USD", spot: {price_per_gpu_hour: "0.25 USD"}%s}]
workloads:
  - {name: firm, kind: training, replicas: 3, memory: 18GiB, gpu_busy: 0.9, tenant: t}
  - {name: any, kind: training, replicas: 3, memory: 18GiB, gpu_busy: 0.9, tenant: t, spot: true}
`
	for reserved, want := range map[string]struct {
		monthly    string
		gpus, spot int
	}{
		"": {"3650.00", 8, 3}, // a node on demand and one of spot GPUs
		`, reserved: {count: 4, price_per_gpu_hour: "0.50 USD"}`: {"2190.00", 8, 3},
		`, reserved: {count: 8, price_per_gpu_hour: "0.50 USD"}`: {"2920.00", 8, 0}, // of which two stay free
	} {
		r := decideText(t, fmt.Sprintf(pool, reserved))
		if p := r.Pools[0]; p.Costs.MonthlyAfter != want.monthly || p.Costs.GPUsAfter != want.gpus || p.SpotGPUs != want.spot {
			t.Errorf("%q: %+v, %d spot", reserved, p.Costs, p.SpotGPUs)
		}
	}
}

// TestPinningSavesNothing: pinning a workload to a pool places no more replicas, nor as many for less, in small
// fleets with pools bought in whole nodes, reserved, or spot in part. GPUs that are paid for in any case count a
// thousandth, and may cost that much more.
func TestPinningSavesNothing(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rng := rand.New(rand.NewPCG(51, 52))
	tried, worse := 0, 0
	for range nightly.Cases(24, 400) {
		f := smallFleet(rng)
		for i := range f.Pools {
			p := &f.Pools[i]
			if each := 1 << rng.IntN(4); each > 1 {
				p.GPUsPerNode, p.Count = sharing.Some(each), each*(1+rng.IntN(3))
			}
			discount(rng, p)
		}
		for i := range f.Workloads {
			f.Workloads[i].Spot = rng.IntN(3) == 0
		}
		free := decide(t, f)
		best := outcomeOf(t, f, free)
		for w := range f.Workloads {
			for p := range f.Pools {
				g := clone(f)
				g.Workloads[w].Pool = f.Pools[p].Name
				pinned := decide(t, g)
				tried++
				is := outcomeOf(t, g, pinned)
				is.monthly /= 0.999 // nothing is proved where not every division is compared
				if is.compare(&best) <= 0 || crowds(pinned) {
					continue
				}
				// A pin may leave a workload only places where it may miss its objectives.
				if slices.ContainsFunc(pinned.Decisions, func(d Decision) bool {
					return slices.Index(statuses, d.Status) > slices.Index(statuses, free.Decision(d.Workload).Status)
				}) {
					worse++
					continue
				}
				t.Errorf("%s pinned to %s: %v becomes %v\n%sbecomes\n%s", f.Workloads[w].Name, f.Pools[p].Name, best, is, shown(f, free), shown(g, pinned))
			}
		}
	}
	if tried < nightly.Cases(80, 1500) || worse > tried/50 {
		t.Errorf("%d pins, %d of them to places where objectives may be missed", tried, worse)
	}
}

// TestPoolsToBuy: GPUs that are not owned cost nothing today, and add to the cost where they are used.
func TestPoolsToBuy(t *testing.T) {
	const buy = `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 8, price_per_gpu_hour: "2.00 USD", owned: false}]
workloads: [{name: t, kind: training, replicas: 3, memory: 60GiB, gpu_busy: 0.9, tenant: t}]
`
	r := decideText(t, buy)
	want := Costs{GPUsAfter: 3, MonthlyToday: "0.00", MonthlyAfter: "4380.00", MonthlyFreed: "-4380.00", MonthlyAdded: "4380.00"}
	if diff := cmp.Diff(want, r.Totals.Costs); diff != "" || r.Totals.UnsharedGPUs != 3 {
		t.Errorf("%s, alone %d GPUs", diff, r.Totals.UnsharedGPUs)
	}
	var text strings.Builder
	if err := r.WriteText(&text, TextOptions{}); err != nil || !strings.Contains(text.String(), "Buy 3 GPUs: 4,380 USD a month more (0 today, 4,380 after)") ||
		!strings.Contains(text.String(), "3 of 8 A100-SXM4-80GB, to be bought for 4,380 a month") {
		t.Errorf("%v: %s", err, text.String())
	}
	_, err := ParseFleet([]byte("version: v1\n" + strings.Replace(buy, "owned: false", `owned: false, reserved: {price_per_gpu_hour: "1.00 USD"}`, 1)))
	if err == nil || !strings.Contains(err.Error(), "pools[0].reserved") {
		t.Errorf("reserved GPUs that nobody owns: %v", err)
	}
}

// TestUnusedPools: an unused pool adds as much to the cost of today as to the freed one and changes nothing else, in
// each of the experts' fleets with prices.
func TestUnusedPools(t *testing.T) {
	race.Long(t)
	cases, tried := readCorpus(t), 0
	for i := range cases {
		f := cases[i].Fleet
		if p := f.Pools[0]; len(f.Pools) > 1 || p.PricePerGPUHour.Or(cost.Money{}).Currency() != "USD" {
			continue
		}
		for k := range f.Workloads {
			f.Workloads[k].Pool = f.Pools[0].Name
		}
		before := decide(t, &f)
		f.Pools = append(f.Pools, Pool{Name: "unused", GPU: "T4", Count: 3, PricePerGPUHour: sharing.Some(price(t, "1.00 USD"))})
		after := decide(t, &f)
		tried++
		b, a := before.Totals, after.Totals
		if a.GPUsToday != b.GPUsToday+3 || a.GPUsAfter != b.GPUsAfter || a.MonthlyAfter != b.MonthlyAfter || a.UnsharedGPUs != b.UnsharedGPUs {
			t.Errorf("%s: %+v became %+v", cases[i].Name, b, a)
		}
		plus := price(t, "2190.00 USD")
		for _, m := range [][2]string{{b.MonthlyToday, a.MonthlyToday}, {b.MonthlyFreed, a.MonthlyFreed}} {
			if sum, err := price(t, m[0]+" USD").Add(plus); err != nil || sum.Decimal() != m[1] {
				t.Errorf("%s: %s became %s, not %s more (%v)", cases[i].Name, m[0], m[1], plus, err)
			}
		}
		for k := range before.Decisions {
			x, y := &before.Decisions[k], &after.Decisions[k]
			if x.Pool != y.Pool || x.Mechanism != y.Mechanism || x.Placed != y.Placed || x.Status != y.Status {
				t.Errorf("%s: %s went from %s on %s to %s on %s", cases[i].Name, x.Workload, x.Mechanism, x.Pool, y.Mechanism, y.Pool)
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d fleets have prices", tried)
	}
}

// TestBillsWithoutPrices: GPUs are counted, and no sum is there.
func TestBillsWithoutPrices(t *testing.T) {
	r := decideText(t, `
pools: [{name: p, gpu: L4, count: 4}]
workloads: [{name: n, kind: notebook, memory: 4GiB, gpu_busy: 0.05}]
`)
	if diff := cmp.Diff(Costs{GPUsToday: 4, GPUsAfter: 1}, r.Totals.Costs); diff != "" {
		t.Error(diff)
	}
}

// TestExclusiveCostsWhatItCosts: whoever has GPUs of its own has them at the price of GPUs of its own, however many of
// the reserved ones others have.
func TestExclusiveCostsWhatItCosts(t *testing.T) {
	r := decideText(t, `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 6, price_per_gpu_hour: "1.75 USD", reserved: {count: 3, price_per_gpu_hour: "1.05 USD"}}]
workloads:
  - {name: two, kind: distributed-training, gpus: 2, memory: 55GiB, gpu_busy: 0.9, tenant: c}
  - {name: four, kind: distributed-training, gpus: 4, memory: 10GiB, gpu_busy: 0.9, tenant: c}
`)
	for _, d := range r.Decisions {
		if d.Cost.PerWorkloadHour != d.Cost.ExclusiveHour || strings.Contains(d.Why, "exclusive") {
			t.Errorf("%s: %+v: %s", d.Workload, d.Cost, d.Why)
		}
	}
}
