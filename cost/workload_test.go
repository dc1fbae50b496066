package cost

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// The calculator of asleekgeek-sharing, with the inputs that enumeration found.
func TestTenantCalculator(t *testing.T) {
	price := money(t, "3.50 USD")
	got, err := PerWorkloadHour(price, 4, 8*Percent)
	if err != nil || got.Decimal() != "0.945" {
		t.Fatalf("%v, %v; want exactly 0.945", got, err)
	}
	if printed := got.Round(2).Decimal(); printed != "0.95" {
		t.Errorf("shown as %s, the article printed 0.95", printed)
	}
	saved, err := NewSaving(price, got)
	if err != nil || saved.Fraction != 73*Percent {
		t.Errorf("saving %v, %v; the article printed 73%%", saved.Fraction, err)
	}
	capacity, err := CapacityHours(10, 4)
	if err != nil || capacity != 180 {
		t.Errorf("capacity-hours %v, %v; the article printed 180", capacity, err)
	}
	use, err := UtilisationHours(10, 4, 0.25)
	if err != nil || use != 180 {
		t.Errorf("utilisation-hours %v, %v; the article printed 180", use, err)
	}
}

// The four teams of lucaberton-sharing, which printed 9,490 and 2,373.
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
	if s, err := NewSaving(four, money(t, "3.25 USD")); err != nil || s.Fraction != 75*Percent || s.Before != exclusive || s.After != shared {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestPerShareHour(t *testing.T) {
	for _, c := range []struct {
		price       string
		part, whole int64
		overhead    PPM
		want        string
	}{
		{"7 USD", 3, 7, 0, "3.00"}, {"3.25 USD", 2, 8, 0, "0.8125"}, {"1 USD", 1, 3, 0, "0.333333"}, {"2 USD", 1, 3, 0, "0.666667"},
		{"0 USD", 1, 1, 0, "0.00"}, {"3.50 USD", 1, 4, 1, "0.875001"},
	} {
		if m, err := PerShareHour(money(t, c.price), c.part, c.whole, c.overhead); err != nil || m.Decimal() != c.want {
			t.Errorf("%s * %d / %d + %s = %v, %v; want %s", c.price, c.part, c.whole, c.overhead, m, err, c.want)
		}
	}
	_, err := PerShareHour(money(t, "-1 USD"), 3, 2, -1)
	for _, path := range []string{"price: ", "part: ", "overhead: "} {
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name %q", err, path)
		}
	}
	for _, tenants := range []int{0, -1, math.MaxInt} {
		if _, err := PerWorkloadHour(money(t, "1 USD"), tenants, 0); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "tenants: ") {
			t.Errorf("%d tenants: %v", tenants, err)
		}
	}
	if m, err := PerWorkloadHour(money(t, "4000000000000 USD"), 1, maxOverhead); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v, %v", m, err)
	}
}

func TestRecoveredHours(t *testing.T) {
	if h, err := UtilisationHours(10, 4, 0.5); err != nil || h != 120 {
		t.Errorf("a GPU cannot be more than busy: %v, %v", h, err)
	}
	if h, err := UtilisationHours(10, 4, 1); err != nil || h != 0 {
		t.Errorf("a full GPU gains nothing: %v, %v", h, err)
	}
	if h, err := CapacityHours(10, 1); err != nil || h != 0 {
		t.Errorf("one tenant frees nothing: %v, %v", h, err)
	}
	for _, u := range []float64{math.NaN(), math.Inf(1), -0.1, 1.1} {
		_, err := UtilisationHours(-1, 0, u)
		for _, path := range []string{"gpus: ", "tenants: ", "utilisation: "} {
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name %q", err, path)
			}
		}
	}
}

func TestPerUnits(t *testing.T) {
	if m, err := PerUnits(money(t, "3.60 USD"), 1_000_000, 2500); err != nil || m.Decimal() != "0.40" {
		t.Errorf("a million tokens: %v, %v; want 0.40", m, err)
	}
	if m, err := PerUnits(money(t, "4 USD"), math.MaxInt64, 1e-9); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v, %v", m, err)
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := PerUnits(money(t, "1 USD"), -1, rate)
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "units: ") || !strings.Contains(err.Error(), "ratePerSecond: ") {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}

func TestSharedFleet(t *testing.T) {
	f := SharedFleet{GPUs: 10, PricePerGPUHour: money(t, "3.50 USD"), Tenants: 4, Utilisation: 0.25, Overhead: 8 * Percent}
	got, err := f.Figures()
	if err != nil || got.PerWorkloadHour.Decimal() != "0.945" || got.Saving.Fraction != 73*Percent || got.CapacityHours != 180 || got.UtilisationHours != 180 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = SharedFleet{GPUs: -1, PricePerGPUHour: money(t, "-1 USD"), Utilisation: 2, Overhead: -1}.Figures()
	for _, path := range []string{"gpus: ", "price: ", "tenants: ", "utilisation: ", "overhead: "} {
		if !errors.Is(err, ErrInput) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%v does not name %q once", err, path)
		}
	}
	f.PricePerGPUHour = Money{}
	if _, err := f.Figures(); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "price: ") {
		t.Errorf("%v", err)
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
