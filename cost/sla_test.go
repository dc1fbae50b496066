// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"
	"math"
	"testing"
	"time"
)

// sourceRevenueLoss is the latency article's assess_business_impact: a rate for each 100 ms is
// multiplied by milliseconds, of a base latency that is itself assumed.
func sourceRevenueLoss(impact float64) float64 {
	const baseLatencyMS, lossPer100ms = 100, 0.01
	return impact * baseLatencyMS * lossPer100ms
}

// The latency article's calculator gives all revenue as lost; by its units it is 1%.
func TestROICalculator(t *testing.T) {
	s, err := newSaving(money(t, "4.48 USD"), money(t, "2.24 USD"))
	if err != nil || s.Monthly.Decimal() != "1635.20" || s.Annual.Decimal() != "19622.40" || s.Fraction != 50*Percent {
		t.Errorf("%+v, %v", s, err)
	}
	theirs := sourceRevenueLoss(1.0)
	ours, err := RevenueLoss(100*time.Millisecond, 1*Percent)
	if theirs != 1.0 || err != nil || ours != 1*Percent {
		t.Errorf("source %v, ours %v, %v; want 1 and 1%%", theirs, ours, err)
	}
}

// The latency that the article measured, with its loss of 1% to 3% per 100 ms.
func TestMeasuredSLAImpact(t *testing.T) {
	saving := money(t, "1518.40 USD") // of the article's nodes
	for _, c := range []struct {
		added     time.Duration
		rate      PPM
		loss      string
		breakEven string // of revenue a month, shown to the cent
	}{
		{618 * time.Millisecond, 1 * Percent, "6.18%", "24569.58"},
		{618 * time.Millisecond, 3 * Percent, "18.54%", "8189.86"},
		{643 * time.Millisecond, 1 * Percent, "6.43%", "23614.31"},
		{643 * time.Millisecond, 3 * Percent, "19.29%", "7871.44"},
	} {
		loss, err := RevenueLoss(c.added, c.rate)
		if err != nil || loss.String() != c.loss {
			t.Errorf("%v at %s: %v, %v; want %s", c.added, c.rate, loss, err, c.loss)
		}
		at, err := BreakEvenRevenue(saving, loss)
		if err != nil || at.Round(2).Decimal() != c.breakEven {
			t.Errorf("break-even at %v: %v, %v; want %s", loss, at, err, c.breakEven)
		}
	}
}

func TestRevenueLossEdges(t *testing.T) {
	for _, c := range []struct {
		added time.Duration
		rate  PPM
		want  PPM
	}{
		{-time.Second, Percent, 0}, {0, Percent, 0}, {10 * time.Second, 10 * Percent, Whole}, {math.MaxInt64, Whole, Whole},
		{time.Hour, 0, 0}, {50 * time.Nanosecond, Whole, 1}, {49 * time.Nanosecond, Whole, 0},
	} {
		if got, err := RevenueLoss(c.added, c.rate); err != nil || got != c.want {
			t.Errorf("RevenueLoss(%v, %s) = %v, %v; want %v", c.added, c.rate, got, err, c.want)
		}
	}
	for _, rate := range []PPM{-1, Whole + 1} {
		if _, err := RevenueLoss(time.Second, rate); !errors.Is(err, errInput) {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}

func TestBreakEven(t *testing.T) {
	usd := func(s string) Money { return money(t, s+" USD") }
	for _, c := range []struct {
		saving Money
		loss   PPM
		want   error
	}{{usd("1"), 0, ErrNoBreakEven}, {usd("0"), Percent, ErrNoBreakEven}, {usd("-1"), Percent, ErrNoBreakEven}, {usd("1"), -1, errInput}, {usd("1"), Whole + 1, errInput}} {
		if m, err := BreakEvenRevenue(c.saving, c.loss); !errors.Is(err, c.want) {
			t.Errorf("BreakEvenRevenue(%v, %v) = %v, %v; want %v", c.saving, c.loss, m, err, c.want)
		}
	}
}
