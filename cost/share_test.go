// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

// "Why Share GPUs?" puts four teams on one GPU and prints 9,490 and 2,373.
func TestFourTeams(t *testing.T) {
	shared, err := Monthly(money(t, "3.25 USD"))
	if err != nil || shared.Decimal() != "2372.50" || shared.Round(0).Decimal() != "2373.00" {
		t.Errorf("shared: %v, %v", shared, err)
	}
	exclusive, err := shared.Mul(4)
	if err != nil || exclusive.Decimal() != "9490.00" {
		t.Errorf("exclusive: %v, %v", exclusive, err)
	}
	four, _ := money(t, "3.25 USD").Mul(4)
	if s, err := newSaving(four, money(t, "3.25 USD")); err != nil || s.Fraction != 75*Percent || s.Before != exclusive || s.After != shared {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestPerWorkloadHour(t *testing.T) {
	for _, c := range []struct {
		price    string
		tenants  int
		overhead PPM
		want     string
	}{
		{"3.25 USD", 4, 0, "0.8125"}, {"1 USD", 3, 0, "0.333333"}, {"2 USD", 3, 0, "0.666667"}, {"0 USD", 1, 0, "0.00"}, {"3.50 USD", 4, 1, "0.875001"},
	} {
		if m, err := PerWorkloadHour(money(t, c.price), c.tenants, c.overhead); err != nil || m.Decimal() != c.want {
			t.Errorf("%s among %d + %s = %v, %v; want %s", c.price, c.tenants, c.overhead, m, err, c.want)
		}
	}
	_, err := PerWorkloadHour(money(t, "-1 USD"), 0, -1)
	for _, path := range []string{"price: ", "tenants: ", "overhead: "} {
		if !errors.Is(err, errInput) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name %q", err, path)
		}
	}
	for _, tenants := range []int{0, -1, math.MaxInt} {
		if _, err := PerWorkloadHour(money(t, "1 USD"), tenants, 0); !errors.Is(err, errInput) || !strings.Contains(err.Error(), "tenants: ") {
			t.Errorf("%d tenants: %v", tenants, err)
		}
	}
	if m, err := PerWorkloadHour(money(t, "4000000000000 USD"), 1, maxOverhead); !errors.Is(err, errOverflow) {
		t.Errorf("%v, %v", m, err)
	}
}

func TestOverheadRange(t *testing.T) {
	for _, c := range []struct {
		o         sharing.Overhead
		low, high PPM
		ok        bool
	}{
		{sharing.InfoFor(sharing.MechanismTimeSlicing).Overhead, 1 * Percent, 11 * Percent, true},
		{sharing.InfoFor(sharing.MechanismMPS).Overhead, 0, 40 * Percent, true},
		{sharing.InfoFor(sharing.MechanismExclusive).Overhead, 0, 0, true},
		{sharing.InfoFor(sharing.MechanismHAMi).Overhead, 0, 0, false},
		{sharing.Overhead{}, 0, 0, false},
		{sharing.Overhead{Known: true, Low: math.NaN()}, 0, 0, false},
		{sharing.Overhead{Known: true, High: math.Inf(1)}, 0, 0, false},
		{sharing.Overhead{Known: true, Low: 0.2, High: 0.1}, 0, 0, false},
		{sharing.Overhead{Known: true, Low: -0.2, High: 0.1}, 0, 0, false},
	} {
		if low, high, ok := OverheadRange(c.o); low != c.low || high != c.high || ok != c.ok {
			t.Errorf("%+v: %v to %v, %v; want %v to %v, %v", c.o, low, high, ok, c.low, c.high, c.ok)
		}
	}
}

func TestPerUnits(t *testing.T) {
	if m, err := PerUnits(money(t, "3.60 USD"), 1_000_000, 2500); err != nil || m.Decimal() != "0.40" {
		t.Errorf("a million tokens: %v, %v; want 0.40", m, err)
	}
	if m, err := PerUnits(money(t, "4 USD"), math.MaxInt64, 1e-9); !errors.Is(err, errOverflow) {
		t.Errorf("%v, %v", m, err)
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := PerUnits(money(t, "1 USD"), -1, rate)
		if !errors.Is(err, errInput) || !strings.Contains(err.Error(), "units: ") || !strings.Contains(err.Error(), "ratePerSecond: ") {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}

func BenchmarkPerWorkloadHour(b *testing.B) {
	price := money(b, "3.50 USD")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := PerWorkloadHour(price, 4, 8*Percent); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPerMillionTokens(t *testing.T) {
	hour := money(t, "3.60 USD")
	c, err := PerMillionTokens(hour, 3, TokenRates{Input: 500})
	if m, ok := c.Input.Get(); err != nil || !ok || m.Micros() != 666_667 || !c.Output.IsZero() || !c.Good.IsZero() {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []struct {
		tenants int
		rates   TokenRates
		want    string
	}{{0, TokenRates{Input: 1}, "tenants"}, {1, TokenRates{Good: -1}, "good tokens"}, {1, TokenRates{Output: math.NaN()}, "output tokens"}} {
		if c, err := PerMillionTokens(hour, bad.tenants, bad.rates); !errors.Is(err, errInput) || !strings.Contains(err.Error(), bad.want) || c != (TokenCosts{}) {
			t.Errorf("%+v: %+v, %v", bad, c, err)
		}
	}
}

// TestApportion: parts are whole, add up, keep the order of the weights, and none is off by a unit or more.
func TestApportion(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		weights, sum := make([]int64, 1+r.IntN(6)), int64(0)
		for i := range weights {
			weights[i] = r.Int64N(1<<r.IntN(50)) - 3
			sum += max(weights[i], 0)
		}
		total := r.Int64N(1 << r.IntN(60))
		left := total
		for i, part := range Apportion(total, weights) {
			left -= part
			exact := float64(total) * float64(max(weights[i], 0)) / float64(max(sum, 1))
			if math.Abs(float64(part)-exact) > 1+1e-9*exact {
				t.Fatalf("%d of %d by %v is %d", total, i, weights, part)
			}
		}
		if left != 0 && sum > 0 {
			t.Fatalf("%d of %d by %v are left", left, total, weights)
		}
	}
}
