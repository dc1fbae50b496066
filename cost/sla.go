package cost

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// RevenueLoss returns the part of revenue that a rule of the form "each 100 ms of added latency loses so much"
// takes away: added / 100ms * lossPer100ms, rounded half away from zero and at most Whole. The latency article's
// calculator multiplies a rate per 100 ms by milliseconds and so arrives at 100% for 100 ms; the answer is 1%.
// Latency that became shorter gives 0, since the rule says nothing about gains.
//
// The rate is yours to bring: the article quotes 1% to 3% per 100 ms, without a measurement.
func RevenueLoss(added time.Duration, lossPer100ms PPM) (PPM, error) {
	var l problem.List
	inRange(&l, "lossPer100ms", lossPer100ms, Whole)
	if err := inputErr(&l); err != nil {
		return 0, err
	}
	if added <= 0 {
		return 0, nil
	}
	q, ok := mulDiv(uint64(added), uint64(lossPer100ms), uint64(100*time.Millisecond))
	if !ok || q > uint64(Whole) {
		return Whole, nil
	}
	return PPM(q), nil
}

// NetSaving returns what a monthly saving leaves when sharing also loses part of a monthly revenue: saving -
// revenue * loss. It is below zero where sharing loses money.
func NetSaving(saving, revenue Money, loss PPM) (Money, error) {
	if err := lossErr(revenue, loss); err != nil {
		return Money{}, err
	}
	lost, err := revenue.Times(loss)
	if err != nil {
		return Money{}, err
	}
	return saving.Sub(lost)
}

// BreakEvenRevenue returns the revenue above which losing the part loss of it costs more than the saving: saving /
// loss. Without a loss, or without a saving, there is no such revenue: ErrNoBreakEven.
func BreakEvenRevenue(saving Money, loss PPM) (Money, error) {
	if err := lossErr(Money{}, loss); err != nil {
		return Money{}, err
	}
	switch {
	case loss == 0:
		return Money{}, fmt.Errorf("%w: no revenue is lost, the saving stands at any revenue", ErrNoBreakEven)
	case saving.Sign() <= 0:
		return Money{}, fmt.Errorf("%w: nothing is saved (%s)", ErrNoBreakEven, saving)
	}
	return saving.MulFrac(int64(Whole), int64(loss))
}

func lossErr(revenue Money, loss PPM) error {
	var l problem.List
	notNegative(&l, "revenue", revenue)
	inRange(&l, "loss", loss, Whole)
	return inputErr(&l)
}

// Contention is the mean latency of one closed-loop workload alone on a GPU and beside its neighbours.
type Contention struct {
	Alone, Shared time.Duration // both above 0
}

// LatencyImpact returns Shared/Alone - 1, rounded half away from zero: 101.4778%
// for 0.609 s and 1.227 s, which the latency article prints cut off as 101.4.
func (c Contention) LatencyImpact() (PPM, error) { return c.change(c.Alone, c.Shared) }

// ThroughputImpact returns Alone/Shared - 1, rounded half away from zero. In a closed loop it says nothing that
// LatencyImpact does not: a client that waits for each answer sends 1/latency.
func (c Contention) ThroughputImpact() (PPM, error) { return c.change(c.Shared, c.Alone) }

func (c Contention) change(from, to time.Duration) (PPM, error) {
	var l problem.List
	l.If(c.Alone <= 0, "alone", "give a time above 0", "%v is no latency", c.Alone)
	l.If(c.Shared <= 0, "shared", "give a time above 0", "%v is no latency", c.Shared)
	if err := inputErr(&l); err != nil {
		return 0, err
	}
	return ratio(int64(to-from), int64(from))
}
