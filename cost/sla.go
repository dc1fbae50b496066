// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// RevenueLoss returns the fraction of revenue lost by the rule "each 100 ms of added latency loses lossPer100ms": added
// / 100ms * lossPer100ms, rounded half away from zero and at most Whole. The latency article's calculator multiplies a
// rate per 100 ms by milliseconds and so arrives at 100% for 100 ms; the answer is 1%. Latency that became shorter
// gives 0, since the rule says nothing about gains.
//
// Supply your own rate: the article quotes 1% to 3% per 100 ms, without a measurement.
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

// BreakEvenRevenue returns the revenue above which losing the fraction loss of it costs more than the saving: saving /
// loss. Without a loss or a saving the error is ErrNoBreakEven.
func BreakEvenRevenue(saving Money, loss PPM) (Money, error) {
	var l problem.List
	if inRange(&l, "loss", loss, Whole); l.Len() > 0 {
		return Money{}, inputErr(&l)
	}
	switch {
	case loss == 0:
		return Money{}, fmt.Errorf("%w: no revenue is lost, the saving holds at any revenue", ErrNoBreakEven)
	case saving.Sign() <= 0:
		return Money{}, fmt.Errorf("%w: nothing is saved (%s)", ErrNoBreakEven, saving)
	}
	return saving.MulFrac(int64(Whole), int64(loss))
}

// Payback returns the day, counted from start, by which a monthly saving has paid for an investment; a month is 365/12
// days. Without a saving the error is ErrNoBreakEven. More than a hundred years is an error.
func Payback(investment, monthly Money, start time.Time) (time.Time, error) {
	var l problem.List
	notNegative(&l, "investment", investment)
	if err := inputErr(&l); err != nil {
		return time.Time{}, err
	}
	if _, err := investment.Add(monthly); err != nil {
		return time.Time{}, err
	}
	if monthly.Sign() <= 0 {
		return time.Time{}, fmt.Errorf("%w: nothing is saved (%s a month)", ErrNoBreakEven, monthly)
	}
	days := math.Ceil(float64(investment.micros) / float64(monthly.micros) * 365 / 12)
	if days > 36_525 {
		return time.Time{}, errOverflow
	}
	return start.AddDate(0, 0, int(days)), nil
}
