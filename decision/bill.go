package decision

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/cost"
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

// pay prices n GPUs in whole nodes, spot of which are bought as spot.
func pay(p *CompiledPool, n, spot int) (h hourly, err error) {
	perNode, known := p.Pool.GPUsPerNode.Get()
	if known {
		h.nodes = (n + perNode - 1) / perNode
		n = h.nodes * perNode
	}
	reserved, reservedPrice := p.ReservedOf()
	_, spotPrice := p.SpotOf()
	spot = min(spot, max(0, n-reserved))
	rest := max(0, n-spot-reserved)
	h.gpus = spot + reserved + rest
	if known {
		h.nodes = (h.gpus + perNode - 1) / perNode
	}
	if !p.Priced {
		return h, nil
	}
	full, err := p.Price.Mul(int64(rest))
	if node, stated := p.Pool.NodePricePerHour.Get(); stated && rest%perNode == 0 {
		full, err = node.Mul(int64(rest / perNode)) // exact, where a GPU's part is rounded
	}
	cheap, err1 := spotPrice.Mul(int64(spot))
	kept, err2 := reservedPrice.Mul(int64(reserved))
	h.micros = full.Micros() + cheap.Micros() + kept.Micros()
	return h, errors.Join(err, err1, err2)
}

// paidToday prices a pool as it is: nothing where it is not owned, and as spot what
// is stated to be. Of a pool that says only what spot would cost all is on demand.
func paidToday(p *CompiledPool) (hourly, error) {
	if !p.Pool.Owned.Or(true) {
		return hourly{}, nil
	}
	spot := 0
	if s := p.Pool.Spot; s != nil {
		n, _ := p.SpotOf()
		spot = min(n, s.Count, p.Pool.Count)
	}
	return pay(p, p.Pool.Count, spot)
}

// billed fills in a bill from what is paid by the hour.
func billed(today, after hourly, currency string) (Bill, error) {
	b := Bill{GPUsToday: today.gpus, GPUsAfter: after.gpus, NodesToday: today.nodes, NodesAfter: after.nodes}
	if currency == "" {
		return b, nil
	}
	var s sums
	before, then := s.monthly(today.micros, currency), s.monthly(after.micros, currency)
	freed := s.of(before.Sub(then))
	b.MonthlyToday, b.MonthlyAfter, b.MonthlyFreed = before.Decimal(), then.Decimal(), freed.Decimal()
	return b, s.err
}

// bill prices the pools and sums them up.
func (pl *answers) bill(r *Result) error {
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
		now, err := paidToday(cp)
		if err != nil {
			return fmt.Errorf("decision: pool %q: %w", cp.Pool.Name, err)
		}
		var then hourly
		if cp.Pool.Owned.Or(true) || pool.GPUsNeeded > 0 {
			if then, err = pay(cp, pool.GPUsNeeded, pool.SpotGPUs); err != nil {
				return fmt.Errorf("decision: pool %q: %w", cp.Pool.Name, err)
			}
		}
		currency := ""
		if cp.Priced {
			currency = cp.Price.Currency()
			t.Currency = currency
		} else if now.gpus+then.gpus > 0 {
			t.UnpricedPools = append(t.UnpricedPools, cp.Pool.Name)
		}
		if pool.Bill, err = billed(now, then, currency); err != nil {
			return err
		}
		today = hourly{today.gpus + now.gpus, today.nodes + now.nodes, today.micros + now.micros}
		after = hourly{after.gpus + then.gpus, after.nodes + then.nodes, after.micros + then.micros}
		t.GPUsNotBought += max(0, alone[p]-max(now.gpus, then.gpus))
	}
	if len(t.UnpricedPools) > 0 {
		t.Currency = ""
	}
	var err error
	t.Bill, err = billed(today, after, t.Currency)
	return err
}
