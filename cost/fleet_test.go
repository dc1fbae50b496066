// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// The economics article does not print how many tenants its calculator takes, nor what it adds for time-slicing: of 2
// to 10 tenants and 0 to 30%, 4 tenants with 8% give its three figures.
func TestEconomicsArticle(t *testing.T) {
	price := money(t, "3.50 USD")
	got, err := PerWorkloadHour(price, 4, 8*Percent)
	if err != nil || got.Decimal() != "0.945" {
		t.Fatalf("%v, %v; want exactly 0.945", got, err)
	}
	if printed := got.Round(2).Decimal(); printed != "0.95" {
		t.Errorf("shown as %s, the article printed 0.95", printed)
	}
	saved, err := newSaving(price, got)
	if err != nil || saved.Fraction != 73*Percent {
		t.Errorf("saving %v, %v; the article printed 73%%", saved.Fraction, err)
	}
}

func TestRecoveredHours(t *testing.T) {
	for _, c := range []struct {
		tenants        int
		use            float64
		capacity, work float64
	}{
		{4, 0.25, 180, 180}, // as the article printed
		{4, 0.5, 180, 120},  // a GPU cannot be more than busy
		{4, 0.125, 180, 90}, // four that keep an eighth busy add three
		{4, 1, 180, 0},      // a full GPU gains nothing
		{1, 0.5, 0, 0},      // one tenant frees nothing
	} {
		f, err := SharedFleet{GPUs: 10, PricePerGPUHour: money(t, "3.50 USD"), Tenants: c.tenants, Utilisation: c.use}.Figures()
		if err != nil || f.CapacityHours != c.capacity || f.UtilisationHours != c.work {
			t.Errorf("%d tenants of %v: %v and %v hours, %v", c.tenants, c.use, f.CapacityHours, f.UtilisationHours, err)
		}
	}
	for _, u := range []float64{math.NaN(), math.Inf(1), -0.1, 1.1} {
		_, err := SharedFleet{GPUs: -1, PricePerGPUHour: money(t, "1 USD"), Utilisation: u}.Figures()
		for _, path := range []string{"gpus: ", "tenants: ", "utilisation: "} {
			if !errors.Is(err, errInput) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name %q", err, path)
			}
		}
	}
}

func TestSharedFleet(t *testing.T) {
	f := SharedFleet{GPUs: 10, PricePerGPUHour: money(t, "3.50 USD"), Tenants: 4, Utilisation: 0.25, Overhead: 8 * Percent}
	got, err := f.Figures()
	if err != nil || got.PerWorkloadHour.Decimal() != "0.945" || got.Saving.Fraction != 73*Percent || got.CapacityHours != 180 || got.UtilisationHours != 180 {
		t.Errorf("%+v, %v", got, err)
	}
	f.Tenants = 8
	if got, err := f.Figures(); err != nil || got.Needed != 2 {
		t.Errorf("eight of a quarter need %v of a GPU, %v", got.Needed, err)
	}
	_, err = SharedFleet{GPUs: -1, PricePerGPUHour: money(t, "-1 USD"), Utilisation: 2, Overhead: -1}.Figures()
	for _, path := range []string{"gpus: ", "price: ", "tenants: ", "utilisation: ", "overhead: "} {
		if !errors.Is(err, errInput) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%v does not name %q once", err, path)
		}
	}
	f.PricePerGPUHour = Money{}
	if _, err := f.Figures(); !errors.Is(err, errInput) || !strings.Contains(err.Error(), "price: ") {
		t.Errorf("%v", err)
	}
}
