// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
)

// TestLayoutIsWhatIsPlanned: in random fleets of every delivery the nodes are such as it can set up, there are as many,
// their price is that of the totals, and each placed replica is on one of them.
func TestLayoutIsWhatIsPlanned(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(61, 62))
	modes := map[sharing.Mechanism]int{}
	for i := range nightly.Cases(300, 3000) {
		f := smallFleet(rng)
		for len(f.Pools) < 1+rng.IntN(6) {
			f.Pools = append(f.Pools, smallFleet(rng).Pools[0])
		}
		for p := range f.Pools {
			f.Pools[p].Name = fmt.Sprintf("p%d", p)
			nodePool(rng, &f.Pools[p])
		}
		for len(f.Workloads) < rng.IntN(12) {
			w := smallFleet(rng).Workloads[0]
			w.Name = fmt.Sprintf("more%d", len(f.Workloads))
			f.Workloads = append(f.Workloads, w)
		}
		for w := range f.Workloads {
			if w := &f.Workloads[w]; rng.IntN(5) == 0 {
				w.Kind, w.GPUs, w.SLO, w.Solo, w.Load = KindDistributedTraining, 1+rng.IntN(4), profile.SLO{}, profile.SLO{}, nil
			}
			f.Workloads[w].Spot = rng.IntN(3) == 0
		}
		if f.Validate() != nil {
			t.Fatal(f.Validate())
		}
		opt := Options{}
		if all := sharing.Mechanisms(); rng.IntN(3) == 0 { // as if it were installed
			if m := all[rng.IntN(len(all))]; (&Options{Allow: []sharing.Mechanism{m}}).Check() == nil {
				opt.Allow = []sharing.Mechanism{m}
			}
		}
		r, err := Decide(t.Context(), f, opt)
		if err != nil {
			t.Fatalf("fleet %d: %v: %v", i, opt.Allow, err)
		}
		checkNodes(t, f, r)
		for n := range r.Layout.Nodes() {
			for d := range n.Devices {
				modes[n.Devices[d].Mode]++
			}
		}
		if t.Failed() {
			t.Fatalf("fleet %d: %s", i, shown(f, r))
		}
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismMIG, sharing.MechanismHAMi} {
		if modes[m] < 10 {
			t.Errorf("%d GPUs under %v", modes[m], m)
		}
	}
}

// nodePool gives a pool nodes, a delivery, and now and then reserved or spot GPUs.
func nodePool(rng *rand.Rand, p *Pool) {
	if each := 1 + rng.IntN(8); rng.IntN(4) > 0 {
		p.GPUsPerNode, p.Count = sharing.Some(each), each*(1+rng.IntN(3))
	}
	deliveries := sharing.Deliveries()
	if p.Delivery = deliveries[rng.IntN(len(deliveries))]; p.Delivery == sharing.DeliveryVGPUManager {
		p.Delivery, p.VGPU = sharing.DeliveryBare, true
	}
	if all := sharing.Mechanisms(); rng.IntN(4) == 0 {
		for range 3 {
			if m := all[rng.IntN(len(all))]; !slices.Contains(p.Mechanisms, m) {
				p.Mechanisms = append(p.Mechanisms, m)
			}
		}
	}
	p.Standalone = p.Delivery == sharing.DeliveryBare && rng.IntN(2) == 0
	discount(rng, p)
}

// discount reserves a node of one pool in six, and has one in six run on spot GPUs, for half of the price.
func discount(rng *rand.Rand, p *Pool) {
	price, _ := p.PricePerGPUHour.Get()
	half, _ := price.MulFrac(1, 2)
	switch rng.IntN(6) {
	case 0:
		p.Reserved = &fleet.Pricing{Count: p.GPUsPerNode.Or(1), PricePerGPUHour: half}
	case 1:
		p.Spot = &fleet.Pricing{PricePerGPUHour: half}
	}
}

// checkNodes holds a result's layout against its fleet and its other figures.
func checkNodes(t *testing.T, f *Fleet, r *Result) {
	t.Helper()
	if err := layout.Err(r.Layout.Check()); err != nil {
		t.Error(err)
	}
	if all, err := r.Layout.Cost(score.Prices(planned(t, f).Pools)); err != nil {
		t.Error(err)
	} else if month, err := cost.Monthly(all.PerHour); err != nil || month.Decimal() != r.Totals.MonthlyAfter {
		t.Errorf("the layout costs %v a month, the totals %s: %v", month, r.Totals.MonthlyAfter, err)
	}
	keys := map[string]bool{}
	placed, nodes, gpus := map[string]int{}, map[string]int{}, map[string]int{}
	for n := range r.Layout.Nodes() {
		nodes[n.Pool]++
		used := map[int16]bool{}
		for _, a := range n.Assignments {
			if !keys[a.Key] {
				placed[a.Workload.Name]++
			}
			keys[a.Key], used[a.Device] = true, true
			d := n.Devices[a.Device]
			if total := d.GPU.Memory; a.Memory > total || d.Limit > 0 && a.Memory > d.Limit {
				t.Errorf("%s has %v on a GPU of %v, limited to %v", a.Key, a.Memory, total, d.Limit)
			}
		}
		gpus[n.Pool] += len(used)
	}
	for _, d := range r.Decisions {
		if placed[d.Workload] != d.Placed {
			t.Errorf("%s: %d assigned, %d placed", d.Workload, placed[d.Workload], d.Placed)
		}
	}
	for i := range f.Pools {
		p := &f.Pools[i]
		most := (p.Count + p.GPUsPerNode.Or(1) - 1) / p.GPUsPerNode.Or(1)
		if n := nodes[p.Name]; n > most || p.Owned.Or(true) && !p.GPUsPerNode.IsZero() && n != most {
			t.Errorf("pool %s: %d nodes of %d", p.Name, n, most)
		}
		for _, pr := range r.Pools {
			if pr.Pool == p.Name && pr.GPUsNeeded != gpus[p.Name] {
				t.Errorf("pool %s: %d GPUs hold somebody, %d needed", p.Name, gpus[p.Name], pr.GPUsNeeded)
			}
		}
	}
}

// planned is a planner that has not planned yet.
func planned(t *testing.T, f *Fleet) *plan.Planner {
	t.Helper()
	pl, err := plan.NewPlan(f, plan.Options{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}
