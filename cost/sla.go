package cost

import (
	"fmt"
	"math/big"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// RevenueLoss returns the part of revenue that a rule of the form "each 100 ms
// of added latency loses so much" takes away: added / 100ms * lossPer100ms,
// rounded half away from zero and at most Whole. The calculator of
// myitbasics-eks-sharing multiplies a rate per 100 ms by milliseconds and so
// arrives at 100 % for 100 ms (trap loss-per-100-ms); the answer is 1 %. Latency that became shorter gives 0, since the rule
// says nothing about gains.
//
// The rate is yours to bring: the same article quotes 1 % to 3 % per 100 ms,
// without a measurement.
func RevenueLoss(added time.Duration, lossPer100ms PPM) (PPM, error) {
	if lossPer100ms < 0 || lossPer100ms > Whole {
		return 0, badInput("lossPer100ms: %s is out of range (give 0%% to 100%%)", lossPer100ms)
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

// NetSaving returns what a monthly saving leaves when sharing also loses part
// of a monthly revenue: saving - revenue * loss. It is below zero where sharing
// loses money.
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

// BreakEvenRevenue returns the revenue above which losing the part loss of it
// costs more than the saving: saving / loss. Without a loss, or without
// a saving, there is no such revenue: ErrNoBreakEven.
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
	if revenue.Sign() < 0 {
		l.Addf("revenue", "give 0 or more", "%s is below zero", revenue)
	}
	if loss < 0 || loss > Whole {
		l.Addf("loss", "give 0% to 100%", "%s is out of range", loss)
	}
	return inputErr(&l)
}

// BreakEvenTenants returns the smallest number of tenants at which a part of a
// shared GPU costs less than an exclusive GPU of another kind: the smallest n
// with shared / n * (1 + overhead) < exclusive. It answers whether four on an
// A100 beat a T4 each.
func BreakEvenTenants(sharedPerHour, exclusivePerHour Money, overhead PPM) (int64, error) {
	if _, err := sharedPerHour.match(exclusivePerHour); err != nil {
		return 0, err
	}
	var l problem.List
	for _, p := range []struct {
		name string
		m    Money
	}{{"shared", sharedPerHour}, {"exclusive", exclusivePerHour}} {
		if p.m.Sign() < 0 {
			l.Addf(p.name, "give 0 or more", "%s is below zero", p.m)
		}
	}
	if overhead < 0 || overhead > maxOverhead {
		l.Addf("overhead", fmt.Sprintf("give 0%% to %s", maxOverhead), "%s is out of range", overhead)
	}
	if err := inputErr(&l); err != nil {
		return 0, err
	}
	if exclusivePerHour.Sign() == 0 {
		return 0, fmt.Errorf("%w: nothing costs less than a free GPU", ErrNoBreakEven)
	}
	num := new(big.Int).Mul(big.NewInt(sharedPerHour.micros), big.NewInt(int64(Whole+overhead)))
	den := new(big.Int).Mul(big.NewInt(exclusivePerHour.micros), big.NewInt(int64(Whole)))
	n := num.Quo(num, den)
	if !n.IsInt64() || n.Int64() >= maxShares {
		return 0, fmt.Errorf("%w: not below %d tenants", ErrNoBreakEven, maxShares)
	}
	return n.Int64() + 1, nil
}

// PaybackMonths returns after how many months a one-off cost (the migration)
// is earned back by a monthly saving. Without a saving there is no payback:
// ErrNoBreakEven.
func PaybackMonths(oneOff, monthlySaving Money) (float64, error) {
	if _, err := oneOff.match(monthlySaving); err != nil {
		return 0, err
	}
	if oneOff.Sign() < 0 {
		return 0, badInput("oneOff: %s is below zero (give 0 or more)", oneOff)
	}
	if monthlySaving.Sign() <= 0 {
		return 0, fmt.Errorf("%w: nothing is saved (%s a month)", ErrNoBreakEven, monthlySaving)
	}
	return float64(oneOff.micros) / float64(monthlySaving.micros), nil
}
