// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// queue answers a trial as a server of the given capacity would: below it nearly
// every request keeps the SLO, above it hardly any.
func queue(capacity float64, n int64, rng *rand.Rand) trialFunc {
	return func(_ context.Context, rate float64) (*Summary, error) {
		p := 0.999
		if rate > capacity {
			p = 0.6
		}
		met := int64(0)
		for range n {
			if rng.Float64() < p {
				met++
			}
		}
		return summaryOf(n, met, true), nil
	}
}

// summaryOf is a run with so many requests of which some kept the SLO.
func summaryOf(requests, met int64, valid bool) *Summary {
	return &Summary{Tenants: []TenantSummary{{Measures: Measures{Counts: Counts{Total: requests}, Goodput: &Goodput{Met: met}}}}, ClientHealth: ClientHealth{Valid: valid}}
}

func TestSearch(t *testing.T) {
	for _, capacity := range []float64{3.3, 17, 42, 99} {
		s := Search{Low: 1, High: 100}
		r, err := s.Run(t.Context(), queue(capacity, 1000, rand.New(rand.NewPCG(1, 2))))
		if err != nil {
			t.Fatal(err)
		}
		passes, fails := r.PassesPerS.Or(0), r.FailsPerS.Or(0)
		if passes > capacity || fails < capacity || fails-passes > 0.05*fails || len(r.Rates) > s.MaxTrials() {
			t.Errorf("capacity %v: between %v and %v in %d trials of %d", capacity, passes, fails, len(r.Rates), s.MaxTrials())
		}
		for _, v := range r.Rates {
			if !v.Shown || !(v.Lower <= v.Attainment && v.Attainment <= v.Upper) {
				t.Errorf("%+v", v)
			}
		}
	}
	r, err := Search{Low: 10, High: 20}.Run(t.Context(), queue(5, 1000, rand.New(rand.NewPCG(1, 2))))
	if !errors.Is(err, ErrNoRate) || r.FailsPerS != optional.Of(10.0) {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = Search{Low: 10, High: 20}.Run(t.Context(), queue(50, 1000, rand.New(rand.NewPCG(1, 2))))
	if err != nil || r.PassesPerS != optional.Of(20.0) || !r.FailsPerS.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSearchIsHonest: a verdict that so few requests cannot support is marked, and invalid trials decide nothing.
func TestSearchIsHonest(t *testing.T) {
	all := func(n int64) trialFunc {
		return func(context.Context, float64) (*Summary, error) { return summaryOf(n, n, true), nil }
	}
	for n, shown := range map[int64]bool{20: false, 267: false, 268: true} {
		r, err := Search{Low: 1, High: 2}.Run(t.Context(), all(n))
		if err != nil || r.PassesPerS != optional.Of(2.0) || r.Rates[1].Shown != shown {
			t.Errorf("%d: %+v, %v", n, r, err)
		}
	}
	trials := 0
	r, err := Search{Low: 1, High: 1}.Run(t.Context(), func(context.Context, float64) (*Summary, error) {
		trials++
		return summaryOf(100, 100, trials > spoiledTrials), nil
	})
	if err != nil || r.PassesPerS != optional.Of(1.0) || trials != spoiledTrials+1 {
		t.Errorf("%d trials: %+v, %v", trials, r, err)
	}
	spoiled := func(context.Context, float64) (*Summary, error) { return summaryOf(9, 9, false), nil }
	if r, err := (Search{Low: 1, High: 2}).Run(t.Context(), spoiled); !errors.Is(err, ErrNoRate) || len(r.Rates) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	boom := errors.New("boom")
	if r, err := (Search{Low: 1, High: 2}).Run(t.Context(), func(context.Context, float64) (*Summary, error) { return nil, boom }); !errors.Is(err, boom) || r == nil {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Search{Low: 1, High: 2}).Run(ctx, all(9)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, bad := range []Search{{}, {Low: 2, High: 1}, {Low: 1, High: math.Inf(1)}, {Low: 1, High: 2, Attainment: 1}, {Low: 1, High: 2, Limit: -1}} {
		if _, err := bad.Run(t.Context(), all(9)); err == nil || bad.MaxTrials() != 1+spoiledTrials {
			t.Errorf("%+v accepted", bad)
		}
	}
}

// TestSearchEnds: the limit cuts the running trial, and the result until then is kept.
func TestSearchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, err := Search{Low: 1, High: 100, Limit: 25 * time.Second}.Run(t.Context(), func(ctx context.Context, rate float64) (*Summary, error) {
			if err := sleep(ctx, 10*time.Second); err != nil {
				return nil, err
			}
			return summaryOf(1000, map[bool]int64{true: 1000}[rate < 50], true), nil
		})
		if took := time.Since(began); err != nil || !r.CutOff || len(r.Rates) != 2 || r.PassesPerS != optional.Of(1.0) || took != 25*time.Second {
			t.Errorf("%v: %+v, %v", took, r, err)
		}
	})
}

func TestSearchRefusesWhatWasNotMeasured(t *testing.T) {
	r, err := Search{Low: 1, High: 2}.Run(t.Context(), func(context.Context, float64) (*Summary, error) {
		s := summaryOf(300, 0, true)
		s.Tenants[0].Goodput.Unknown = 300
		return s, nil
	})
	if !errors.Is(err, errUnknownSLO) || len(r.Rates) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWilson holds the bounds against published values (Newcombe 1998, 81 of 263, two-sided 95%).
func TestWilson(t *testing.T) {
	lo, hi := wilson(81, 263, 0.975)
	if math.Abs(lo-0.2553) > 5e-5 || math.Abs(hi-0.3662) > 5e-5 {
		t.Errorf("%v, %v", lo, hi)
	}
}
