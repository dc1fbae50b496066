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
	capacity, err := CapacityHours(10, 4)
	if err != nil || capacity != 180 {
		t.Errorf("capacity-hours %v, %v; the article printed 180", capacity, err)
	}
	use, err := UtilisationHours(10, 4, 0.25)
	if err != nil || use != 180 {
		t.Errorf("utilisation-hours %v, %v; the article printed 180", use, err)
	}
}

func TestRecoveredHours(t *testing.T) {
	if h, err := UtilisationHours(10, 4, 0.5); err != nil || h != 120 {
		t.Errorf("a GPU cannot be more than busy: %v, %v", h, err)
	}
	if h, err := UtilisationHours(10, 4, 0.125); err != nil || h != 90 {
		t.Errorf("four that keep an eighth busy add three: %v, %v", h, err)
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
