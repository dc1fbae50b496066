// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/sharing"
)

// workloadShare is a workload's part of its pools' GPUs, or of those of one of its places.
type workloadShare struct {
	micros  int64 // of its GPUs' price for an hour
	dearest int64 // of one of its GPUs
	fullest int   // tenants on the fullest of its GPUs
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
