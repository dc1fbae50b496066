// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// PerWorkloadHour returns the price of an hour for one of the tenants that share a GPU: price / tenants * (1 +
// overhead), exact inside and rounded once. The economics article's calculator agrees: 3.50 among 4 with 8% is 0.945,
// printed as 0.95. The overhead makes a tenant's figure comparable with an exclusive GPU's: it counts the capacity that
// sharing itself uses up. It does not allocate, so that schedulers can call it.
func PerWorkloadHour(price Money, tenants int, overhead PPM) (Money, error) {
	if price.micros < 0 || tenants < 1 || tenants > maxTenants || overhead < 0 || overhead > maxOverhead {
		var l problem.List
		notNegative(&l, "price", price)
		l.If(tenants < 1 || tenants > maxTenants, "tenants", fmt.Sprintf("give 1 to %d", maxTenants),
			"a GPU is not shared by %d", tenants)
		inRange(&l, "overhead", overhead, maxOverhead)
		return Money{}, inputErr(&l)
	}
	return price.MulFrac(int64(Whole+overhead), int64(tenants)*int64(Whole))
}

const (
	maxTenants  = 1_000_000_000 // with maxOverhead, keeps the products within 64 bits
	maxOverhead = 1000 * Whole
)

// OverheadRange returns a sharing.Overhead's bracket for use with money, its ends rounded to parts per million, and
// false where no source gives one, which does not mean that there is no overhead. sharing.InfoFor(m).Overhead is the
// bracket to plan with until you measure.
func OverheadRange(o sharing.Overhead) (low, high PPM, ok bool) {
	if !o.Known || !(0 <= o.Low && o.Low <= o.High && o.High <= float64(maxOverhead)/float64(Whole)) {
		return 0, 0, false
	}
	return PPM(math.Round(o.Low * float64(Whole))), PPM(math.Round(o.High * float64(Whole))), true
}

// PerUnits returns the cost of a number of units of work on a GPU (or a share of one) with an hourly price that does
// ratePerSecond units each second: for example a million tokens at 2500 tokens/s. It is as exact as the rate.
func PerUnits(hourly Money, units int64, ratePerSecond float64) (Money, error) {
	var l problem.List
	l.If(units < 0, "units", "give 0 or more", "%d is below zero", units)
	l.If(!(ratePerSecond > 0) || math.IsInf(ratePerSecond, 0), "ratePerSecond", "give a finite rate above 0",
		"%v is no rate", ratePerSecond)
	if err := inputErr(&l); err != nil {
		return Money{}, err
	}
	micros := math.Round(float64(units) * float64(hourly.micros) / (ratePerSecond * 3600))
	if !(math.Abs(micros) <= maxMicros) {
		return Money{}, errOverflow
	}
	return Money{int64(micros), hourly.currency}, nil
}

// TokenRates are the tokens per second that a server reads and generates. 0 means none, or unknown.
type TokenRates struct {
	Input, Output float64
	// Good counts the output tokens of requests that met their objective.
	Good float64
}

// TokenCosts holds the cost of a million tokens, by kind. Each kind bears the whole price: they are alternatives and
// must not be added. A kind without tokens, or with an unknown number of them, is missing.
type TokenCosts struct {
	Input  sharing.Optional[Money] `json:"cost_per_million_input_tokens,omitzero"`
	Output sharing.Optional[Money] `json:"cost_per_million_output_tokens,omitzero"`
	Good   sharing.Optional[Money] `json:"cost_per_million_good_tokens,omitzero"`
}

// PerMillionTokens returns the cost of a million tokens of each kind for one of the tenants that share a GPU with an
// hourly price equally.
func PerMillionTokens(hourly Money, tenants int, rates TokenRates) (TokenCosts, error) {
	var c TokenCosts
	if tenants < 1 {
		var l problem.List
		l.Addf("tenants", "give 1 or more", "there are %d", tenants)
		return c, inputErr(&l)
	}
	for _, kind := range []struct {
		name string
		rate float64
		to   *sharing.Optional[Money]
	}{{"input", rates.Input, &c.Input}, {"output", rates.Output, &c.Output}, {"good", rates.Good, &c.Good}} {
		if kind.rate == 0 {
			continue
		}
		m, err := PerUnits(hourly, 1e6, kind.rate*float64(tenants))
		if err != nil {
			return TokenCosts{}, fmt.Errorf("%s tokens: %w", kind.name, err)
		}
		*kind.to = optional.Of(m)
	}
	return c, nil
}

// Apportion divides a total of 0 or more by weights in whole units that add up to it, by Hamilton's method of largest
// remainders: each part is rounded down, and the rest goes to the largest remainders, ties to the first. A weight below
// 0 counts as 0; without a positive weight all parts are 0. The weights' sum must be below 2^63.
func Apportion(total int64, weights []int64) []int64 {
	out := make([]int64, len(weights))
	var sum uint64
	for _, w := range weights {
		sum += uint64(max(w, 0))
	}
	if total <= 0 || sum == 0 {
		return out
	}
	rest, order := make([]uint64, len(weights)), make([]int, len(weights))
	left := total
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(total), uint64(max(w, 0)))
		q, r := bits.Div64(hi, lo, sum) // hi < sum, since w <= sum and total < 2^63
		out[i], rest[i], order[i] = int64(q), r, i
		left -= int64(q)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}
