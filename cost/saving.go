package cost

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
)

// HoursPerMonth is the month that cloud price lists and the articles count with.
const HoursPerMonth = 730

// Monthly returns a month of an hourly amount: 730 hours.
func Monthly(hourly Money) (Money, error) { return hourly.Mul(HoursPerMonth) }

// Saving compares what a fleet costs before and after a change.
type Saving struct {
	Before  Money `json:"before_per_month"` // of 730 hours
	After   Money `json:"after_per_month"`  // of 730 hours
	Monthly Money `json:"saving_per_month"` // Before - After; below zero where the change costs more
	Annual  Money `json:"saving_per_year"`  // 12 * Monthly
	// Fraction is Monthly / Before, rounded half away from zero.
	Fraction PPM `json:"saving_fraction"`
}

// NewSaving returns the saving of a change between two hourly costs of one
// currency. Before must be above zero, since no part of nothing can be saved.
func NewSaving(beforePerHour, afterPerHour Money) (Saving, error) {
	var l problem.List
	l.If(beforePerHour.Sign() <= 0, "before", "give what is paid now", "%s leaves nothing to save", beforePerHour)
	notNegative(&l, "after", afterPerHour)
	if err := inputErr(&l); err != nil {
		return Saving{}, err
	}
	diff, err := beforePerHour.Sub(afterPerHour)
	if err != nil {
		return Saving{}, err
	}
	var s Saving
	for _, part := range []struct {
		to     *Money
		hourly Money
		hours  int64
	}{
		{&s.Before, beforePerHour, HoursPerMonth}, {&s.After, afterPerHour, HoursPerMonth},
		{&s.Monthly, diff, HoursPerMonth}, {&s.Annual, diff, 12 * HoursPerMonth},
	} {
		if *part.to, err = part.hourly.Mul(part.hours); err != nil {
			return Saving{}, fmt.Errorf("a month of %s: %w", part.hourly, err)
		}
	}
	if s.Fraction, err = ratio(diff.micros, beforePerHour.micros); err != nil {
		return Saving{}, err
	}
	return s, nil
}
