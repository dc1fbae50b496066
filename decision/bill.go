package decision

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/score"
)

// Bill compares what GPUs cost today with what they cost once the answer is applied. Nodes are paid for whole where
// the pool states gpus_per_node, and reserved GPUs whether they are used or not.
type Bill struct {
	GPUsToday  int `json:"gpus_today"`
	GPUsAfter  int `json:"gpus_after"`
	NodesToday int `json:"nodes_today,omitempty"` // of pools that state gpus_per_node
	NodesAfter int `json:"nodes_after,omitempty"`
	// MonthlyToday, MonthlyAfter and their difference MonthlyFreed are exact decimals, absent without a price.
	// MonthlyFreed is negative where the answer needs more than there is.
	MonthlyToday string `json:"monthly_today,omitempty"`
	MonthlyAfter string `json:"monthly_after,omitempty"`
	MonthlyFreed string `json:"monthly_freed,omitempty"`
}

// hourly counts the GPUs and nodes of a pool that are paid for, with their price in micro-units an hour.
type hourly struct {
	gpus, nodes int
	micros      int64
}

// pay prices GPUs of a pool that are paid for.
func pay(p *CompiledPool, paid score.Paid) (h hourly, err error) {
	perNode, known := p.Pool.GPUsPerNode.Get()
	if h.gpus = paid.GPUs(); known {
		h.nodes = (h.gpus + perNode - 1) / perNode
	}
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

// paidToday prices a pool as it is: nothing where it is not owned, and as spot what
// is stated to be. Of a pool that says only what spot would cost all is on demand.
func paidToday(p *CompiledPool) (hourly, error) {
	if !p.Pool.Owned.Or(true) {
		return hourly{}, nil
	}
	paid := p.Paid(p.Pool.Count, 0)
	if s := p.Pool.Spot; s != nil {
		paid.Spot = min(s.Count, p.Spot.Count, paid.OnDemand)
		paid.OnDemand -= paid.Spot
	}
	return pay(p, paid)
}

// billed fills in a bill from what is paid by the hour.
func billed(today, after hourly, currency string) (Bill, error) {
	b := Bill{GPUsToday: today.gpus, GPUsAfter: after.gpus, NodesToday: today.nodes, NodesAfter: after.nodes}
	if currency == "" {
		return b, nil
	}
	var s sums
	before, then := s.monthly(today.micros, currency), s.monthly(after.micros, currency)
	b.MonthlyToday, b.MonthlyAfter = before.Decimal(), then.Decimal()
	b.MonthlyFreed = s.of(before.Sub(then)).Decimal()
	return b, s.err
}

// bill prices the pools and sums them up.
func (pl *answers) bill(r *Result) (err error) {
	t := &r.Totals
	t.HoursPerMonth, t.WorkloadsTotal = cost.HoursPerMonth, len(pl.Workloads)
	alone := make([]int, len(pl.Pools)) // GPUs, were each replica on GPUs of its own
	for w, c := range pl.Chosen {
		if c == nil {
			t.Unplaced++
			continue
		}
		alone[c.Pool] += pl.Placed[w] * pl.Workloads[w].Workload().GPUCount()
	}
	var today, after hourly
	for p, cp := range pl.Pools {
		pool := &r.Pools[p]
		now, err1 := paidToday(cp)
		then, err2 := pay(cp, cp.Paid(pl.Used(p)))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if cp.Priced {
			t.Currency = cp.Price.Currency()
		} else if now.gpus+then.gpus > 0 {
			t.UnpricedPools = append(t.UnpricedPools, cp.Pool.Name)
		}
		if pool.Bill, err = billed(now, then, cp.Price.Currency()); err != nil {
			return err
		}
		today = hourly{today.gpus + now.gpus, today.nodes + now.nodes, today.micros + now.micros}
		after = hourly{after.gpus + then.gpus, after.nodes + then.nodes, after.micros + then.micros}
		t.GPUsNotBought += max(0, alone[p]-max(now.gpus, then.gpus))
	}
	if len(t.UnpricedPools) > 0 {
		t.Currency = ""
	}
	t.Bill, err = billed(today, after, t.Currency)
	return err
}
