// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// hourly counts the GPUs and nodes of a pool that are paid for, with their price in micro-units an hour.
type hourly struct {
	gpus, nodes int
	micros      int64
}

func (h hourly) plus(o hourly) hourly {
	return hourly{h.gpus + o.gpus, h.nodes + o.nodes, h.micros + o.micros}
}

// count is the number of GPUs of a pool, with their nodes where it states how many GPUs these have.
func count(p *score.CompiledPool, gpus int) hourly {
	perNode, known := p.Pool.GPUsPerNode.Get()
	if !known {
		return hourly{gpus: gpus}
	}
	return hourly{gpus: gpus, nodes: (gpus + perNode - 1) / perNode}
}

// pay prices GPUs of a pool that are paid for.
func pay(p *score.CompiledPool, paid score.Paid) (hourly, error) {
	h, perNode := count(p, paid.GPUs()), p.Pool.GPUsPerNode.Or(1)
	if !p.Priced {
		return h, nil
	}
	full, err := p.Price.Mul(int64(paid.OnDemand))
	if node, stated := p.Pool.NodePricePerHour.Get(); stated && paid.OnDemand%perNode == 0 {
		full, err = node.Mul(int64(paid.OnDemand / perNode)) // exact, where a GPU's part is rounded
	}
	cheap, err1 := p.Spot.PricePerGPUHour.Mul(int64(paid.Spot))
	kept, err2 := p.Reserved.PricePerGPUHour.Mul(int64(paid.Reserved))
	h.micros = full.Micros() + cheap.Micros() + kept.Micros()
	if err = errors.Join(err, err1, err2); err != nil {
		err = fmt.Errorf("decision: pool %q: %w", p.Pool.Name, err)
	}
	return h, err
}

// account is a pool's money by the hour.
type account struct {
	today, after                            hourly
	unshared, sharing, idle, unplaced, more int64
}

func (a *account) add(o *account) {
	a.today, a.after, a.unshared = a.today.plus(o.today), a.after.plus(o.after), a.unshared+o.unshared
	a.sharing, a.idle = a.sharing+o.sharing, a.idle+o.idle
	a.unplaced, a.more = a.unplaced+o.unplaced, a.more+o.more
}

// account splits the cost of a pool. Nodes that placed replicas would need without sharing, or use today, and that the
// layout does not need, are freed by sharing. The other unused nodes are idle, except those
// that unplaced replicas may hold.
func (pl *answers) account(p int, after *layout.PoolCost) (a account, err error) {
	cp := pl.Pools[p]
	each := cp.Pool.GPUsPerNode.Or(1)
	price := func(nodes int) hourly {
		// As bought today: the stated count of spot GPUs, the rest on demand; without a count all of it.
		paid := score.Paid{Reserved: cp.Reserved.Count, OnDemand: max(0, nodes*each-cp.Reserved.Count)}
		if s := cp.Pool.Spot; s != nil {
			paid.Spot = min(s.Count, cp.Spot.Count, paid.OnDemand)
			paid.OnDemand -= paid.Spot
		}
		h, failed := pay(cp, paid)
		err = errors.Join(err, failed)
		return h
	}
	a.after = count(cp, after.GPUs+after.ReservedIdle)
	a.after.micros = after.PerHour.Micros()
	before, held := pl.Before(p)
	if a.unshared = price(before).micros; !cp.Pool.Owned.Or(true) {
		a.more = a.after.micros
		return a, err
	}
	most := (cp.Pool.Count + each - 1) / each
	a.today = price(most)
	if on, known := pl.nodesToday(p); known {
		before, held = on[0], on[1]
	}
	before = min(most, max(before, after.Used))
	used, kept := price(before), price(min(most, before+held))
	a.sharing, a.unplaced, a.idle = used.micros-a.after.micros, kept.micros-used.micros, a.today.micros-kept.micros
	if a.sharing < 0 {
		a.sharing, a.more = 0, -a.sharing
	}
	return a, err
}

// nodesToday counts the nodes of a pool on which replicas run today that have a place, and those on which only others
// do. It is known where the fleet says where its replicas run.
func (pl *answers) nodesToday(p int) (nodes [2]int, known bool) {
	if pl.fleet.Today == nil {
		return nodes, false
	}
	placed := map[string]bool{}
	for w, cw := range pl.Workloads {
		placed[cw.Workload().Name] = pl.Placed[w] > 0
	}
	with := map[string]bool{} // whether a replica with a place runs there
	for i := range pl.fleet.Today.Nodes {
		n := &pl.fleet.Today.Nodes[i]
		for k := range n.Assignments {
			if n.Pool == pl.Pools[p].Pool.Name {
				with[n.Name] = with[n.Name] || placed[n.Assignments[k].Workload.Name]
			}
		}
	}
	for _, placed := range with {
		if placed {
			nodes[0]++
		} else {
			nodes[1]++
		}
	}
	return nodes, true
}

// costs fills in the costs.
func (a *account) costs(currency string) (Costs, error) {
	b := Costs{GPUsToday: a.today.gpus, GPUsAfter: a.after.gpus, NodesToday: a.today.nodes, NodesAfter: a.after.nodes}
	if currency == "" {
		return b, nil
	}
	var s sums
	month := func(micros int64) string { return s.monthly(micros, currency).Decimal() }
	part := func(micros int64) string {
		if micros == 0 {
			return ""
		}
		return month(micros)
	}
	b.MonthlyToday, b.MonthlyAfter = month(a.today.micros), month(a.after.micros)
	b.MonthlyFreed = month(a.sharing + a.idle - a.more)
	b.MonthlyFreedBySharing, b.MonthlyFreedIdle = part(a.sharing), part(a.idle)
	b.MonthlyAdded, b.MonthlyUnplaced = part(a.more), part(a.unplaced)
	return b, s.err
}

// total prices the layout's pools and sums them up.
func (pl *answers) total(r *Result) (err error) {
	t := &r.Totals
	t.HoursPerMonth, t.WorkloadsTotal = cost.HoursPerMonth, len(pl.Workloads)
	for w := range pl.Workloads {
		if pl.Placed[w] == 0 {
			t.Unplaced++
		}
		t.UnsharedGPUs += pl.Placed[w] * pl.Workloads[w].Workload().GPUCount()
	}
	var all account
	for p, cp := range pl.Pools {
		one, err := pl.account(p, pl.costs[p])
		if err != nil {
			return err
		}
		if cp.Priced {
			t.Currency = cp.Price.Currency()
		} else if one.today.gpus+one.after.gpus > 0 {
			t.UnpricedPools = append(t.UnpricedPools, cp.Pool.Name)
		}
		if r.Pools[p].Costs, err = one.costs(cp.Price.Currency()); err != nil {
			return err
		}
		all.add(&one)
	}
	if len(t.UnpricedPools) > 0 {
		t.Currency = ""
	}
	if t.Costs, err = all.costs(t.Currency); err == nil && t.Currency != "" {
		var s sums
		t.MonthlyUnshared = s.monthly(all.unshared, t.Currency).Decimal()
		if micros := int64(math.Round(1e6 * pl.Longer())); micros > 0 {
			t.MonthlyLonger = s.monthly(micros, t.Currency).Decimal()
		}
		err = s.err
	}
	return err
}

// shares divides each GPU's price among its tenants, exact to the micro-unit: by their use of an unsliced GPU, by
// placement units under MIG.
func (pl *answers) shares() ([]workloadShare, error) {
	pl.byPlace = make([][]workloadShare, len(pl.Workloads))
	for w := range pl.byPlace {
		pl.byPlace[w] = make([]workloadShare, len(pl.Places[w]))
	}
	left := make([]score.Paid, len(pl.Pools))
	for p, c := range pl.costs {
		left[p] = score.Paid{Spot: c.Spot, Reserved: c.Reserved + c.ReservedIdle, OnDemand: c.OnDemand}
	}
	var failed error
	for _, key := range pl.GroupKeys() {
		for _, g := range pl.Groups[key] {
			h, err := pay(pl.Pools[key.Pool], take(&left[key.Pool], g.Size, g.Spot))
			failed = errors.Join(failed, err)
			units := g.Units()
			for _, m := range g.Members {
				if !traits.Of(key.Mechanism).Sliced {
					units = append(units, m.Replicas*pl.use(m.Workload, key))
				}
			}
			pl.divide(&g, h.micros, units)
		}
	}
	all := make([]workloadShare, len(pl.Workloads))
	for w := range all {
		for _, o := range pl.byPlace[w] {
			all[w].micros, all[w].fullest = all[w].micros+o.micros, max(all[w].fullest, o.fullest)
		}
	}
	return all, failed
}

// use returns a replica's use of a GPU's time or memory, whichever is more, in thousandths.
func (pl *answers) use(w int, key plan.GroupKey) int {
	busy := pl.Workloads[w].Demand().Busy
	alone := plan.Site{GroupKey: plan.GroupKey{Pool: key.Pool, Mechanism: sharing.MechanismExclusive}}
	p := pl.Predict(alone, []plan.Member{{Workload: w, Replicas: 1}}).Outcomes
	if pl.Serves(pl.Workloads[w].Workload()) && len(p) > 0 {
		busy = p[0].Busy.Value
	}
	memory := float64(pl.MemoryOf(w, key.Mechanism)) / float64(max(1, pl.Pools[key.Pool].Memory))
	return max(1, int(1000*min(1, max(busy, memory))))
}

// take takes n GPUs, which may be spot or not, of those that are left of a pool's.
func take(left *score.Paid, n int, spot bool) (one score.Paid) {
	if spot {
		one.Spot = min(n, left.Spot)
	}
	one.Reserved = min(n-one.Spot, left.Reserved)
	one.OnDemand = n - one.Spot - one.Reserved
	left.Spot, left.Reserved = left.Spot-one.Spot, left.Reserved-one.Reserved
	return one
}

// divide splits a GPU's price, in micro-units, by weight; the rounding remainder goes to the first members.
func (pl *answers) divide(g *plan.GPU, price int64, weights []int) {
	weight, tenants := 0, 0
	shares := make([]*workloadShare, len(g.Members))
	for k, m := range g.Members {
		weight, tenants = weight+weights[k], tenants+m.Replicas
		at := slices.IndexFunc(pl.Places[m.Workload], func(p plan.Place) bool { return p.GroupKey == g.GroupKey })
		shares[k] = &pl.byPlace[m.Workload][at]
	}
	left := price
	for k, s := range shares {
		part := int64(0)
		if weight > 0 {
			part = price * int64(weights[k]) / int64(weight) // at most 1e12 micro-units times 1e5: the product fits
		}
		left -= part
		s.micros, s.dearest = s.micros+part, max(s.dearest, price/int64(g.Size))
		s.fullest = max(s.fullest, tenants)
	}
	for k := 0; left > 0 && len(shares) > 0; k, left = (k+1)%len(shares), left-1 {
		shares[k].micros++
	}
}

// sums computes with money and keeps the first error.
type sums struct{ err error }

func (s *sums) of(m cost.Money, err error) cost.Money {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("decision: %w", err)
	}
	return m
}

// monthly converts micro-units an hour to the price of a month.
func (s *sums) monthly(micros int64, currency string) cost.Money {
	return s.of(cost.Monthly(s.of(cost.FromMicros(micros, currency))))
}

// exclusiveMicros prices an hour of GPUs of its own for a workload, in micro-units: no less than the price of one that
// it shares, since others may have the reserved ones.
func (pl *answers) exclusiveMicros(w int) (micros int64) {
	wl := pl.Workloads[w].Workload()
	for k, at := range pl.Places[w] {
		share := pl.byPlace[w][k]
		if at.Mechanism == sharing.MechanismExclusive {
			micros += share.micros
			continue
		}
		rate := pl.Rate(w, pl.Pools[at.Pool]).Micros()
		if !wl.Spot {
			rate = max(rate, share.dearest)
		}
		micros += rate * int64(at.Replicas*wl.GPUCount())
	}
	return micros
}

// price states the cost of a workload, and the money that depends on the measurement of a provisional answer.
func (pl *answers) price(w int, d *Decision, currency string, share workloadShare) error {
	var s sums
	alone, hour := s.of(cost.FromMicros(pl.exclusiveMicros(w), currency)), s.of(cost.FromMicros(share.micros, currency))
	each := s.of(hour.MulFrac(1, int64(d.Placed)))
	d.Cost = &CostResult{PerWorkloadHour: hour.Decimal(), PerReplicaHour: each.Decimal(), ExclusiveHour: alone.Decimal(),
		Currency: currency}
	if d.Measurement != nil && d.Mechanism != sharing.MechanismExclusive {
		d.Measurement.MonthlyAtStake = s.of(cost.Monthly(s.of(alone.Sub(hour)))).Decimal()
	}
	return s.err
}
