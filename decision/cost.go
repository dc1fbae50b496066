// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
)

// hourly counts the GPUs and nodes of a pool that are paid for, with their price in micro-units an hour.
type hourly struct {
	gpus, nodes int
	micros      int64
}

func (h *hourly) add(o hourly) {
	h.gpus, h.nodes, h.micros = h.gpus+o.gpus, h.nodes+o.nodes, h.micros+o.micros
}

// pay prices GPUs of a pool that are paid for.
func pay(p *score.CompiledPool, paid score.Paid) (h hourly, err error) {
	h.count(p, paid.GPUs())
	perNode := p.Pool.GPUsPerNode.Or(1)
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

func (h *hourly) count(p *score.CompiledPool, gpus int) {
	h.gpus = gpus
	if perNode, known := p.Pool.GPUsPerNode.Get(); known {
		h.nodes = (gpus + perNode - 1) / perNode
	}
}

// onDemand prices a number of nodes of a pool at today's purchase: the stated count of spot GPUs, the rest on demand.
// A pool with a spot price but no spot count buys everything on demand.
func onDemand(p *score.CompiledPool, nodes int) (hourly, error) {
	paid := score.Paid{Reserved: p.Reserved.Count, OnDemand: max(0, nodes*p.Pool.GPUsPerNode.Or(1)-p.Reserved.Count)}
	if s := p.Pool.Spot; s != nil {
		paid.Spot = min(s.Count, p.Spot.Count, paid.OnDemand)
		paid.OnDemand -= paid.Spot
	}
	return pay(p, paid)
}

// account is a pool's money by the hour.
type account struct {
	today, after, alone           hourly
	sharing, idle, unplaced, more int64
}

func (a *account) add(o *account) {
	a.today.add(o.today)
	a.after.add(o.after)
	a.alone.add(o.alone)
	a.sharing, a.idle = a.sharing+o.sharing, a.idle+o.idle
	a.unplaced, a.more = a.unplaced+o.unplaced, a.more+o.more
}

// account splits the cost of a pool. Nodes that placed replicas would need without sharing, or use today, and that the
// layout does not need, are freed by sharing. The other unused nodes are idle, except those
// that unplaced replicas may hold.
func (pl *answers) account(p int, after *layout.PoolCost) (a account, err error) {
	cp := pl.Pools[p]
	price := func(nodes int) (h hourly) {
		h, failed := onDemand(cp, nodes)
		err = errors.Join(err, failed)
		return h
	}
	a.after.micros = after.PerHour.Micros()
	a.after.count(cp, after.GPUs+after.ReservedIdle)
	before, held := pl.Before(p)
	alone := price(before)
	if a.alone = alone; !cp.Pool.Owned.Or(true) {
		a.more = a.after.micros
		return a, err
	}
	most := (cp.Pool.Count + cp.Pool.GPUsPerNode.Or(1) - 1) / cp.Pool.GPUsPerNode.Or(1)
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
		t.AloneGPUs += pl.Placed[w] * pl.Workloads[w].Workload().GPUCount()
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
		t.MonthlyAlone = s.monthly(all.alone.micros, t.Currency).Decimal()
		if micros := int64(math.Round(1e6 * pl.Longer())); micros > 0 {
			t.MonthlyLonger = s.monthly(micros, t.Currency).Decimal()
		}
		err = s.err
	}
	return err
}
