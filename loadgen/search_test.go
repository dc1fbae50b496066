// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// queue answers a trial as a server of the given capacity would: below it nearly
// every request keeps the SLO, above it hardly any.
func queue(capacity float64, n int64, rng *rand.Rand) func(context.Context, float64) (Trial, error) {
	return func(_ context.Context, rate float64) (Trial, error) {
		p := 0.999
		if rate > capacity {
			p = 0.6
		}
		t := Trial{RatePerS: rate, Requests: n, Valid: true}
		for range n {
			if rng.Float64() < p {
				t.Met++
			}
		}
		return t, nil
	}
}

func TestSearch(t *testing.T) {
	for _, capacity := range []float64{3.3, 17, 42, 99} {
		s := Search{Low: 1, High: 100}
		r, err := s.Run(t.Context(), queue(capacity, 1000, rand.New(rand.NewPCG(1, 2))))
		if err != nil {
			t.Fatal(err)
		}
		passes, fails := r.PassesPerS.Or(0), r.FailsPerS.Or(0)
		if passes > capacity || fails < capacity || fails-passes > 0.05*fails || len(r.Trials) > s.MaxRates() {
			t.Errorf("capacity %v: between %v and %v in %d trials of %d", capacity, passes, fails, len(r.Trials), s.MaxRates())
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
	all := func(n int64) func(context.Context, float64) (Trial, error) {
		return func(_ context.Context, rate float64) (Trial, error) {
			return Trial{RatePerS: rate, Requests: n, Met: n, Valid: true}, nil
		}
	}
	for n, shown := range map[int64]bool{20: false, 267: false, 268: true} {
		r, err := Search{Low: 1, High: 2}.Run(t.Context(), all(n))
		if err != nil || r.PassesPerS != optional.Of(2.0) || r.Rates[1].Shown != shown {
			t.Errorf("%d: %+v, %v", n, r, err)
		}
		var b strings.Builder
		if err := r.WriteText(&b); err != nil || strings.Contains(b.String(), "268 are needed") == shown {
			t.Errorf("%d: %v\n%s", n, err, b.String())
		}
	}
	trials := 0
	r, err := Search{Low: 1, High: 1}.Run(t.Context(), func(_ context.Context, rate float64) (Trial, error) {
		trials++
		return Trial{RatePerS: rate, Requests: 100, Met: 100, Valid: trials > SpoiledTrials}, nil
	})
	if err != nil || r.PassesPerS != optional.Of(1.0) || trials != SpoiledTrials+1 {
		t.Errorf("%d trials: %+v, %v", trials, r, err)
	}
	spoiled := func(_ context.Context, rate float64) (Trial, error) {
		return Trial{RatePerS: rate, Requests: 9, Met: 9}, nil
	}
	if r, err := (Search{Low: 1, High: 2}).Run(t.Context(), spoiled); !errors.Is(err, ErrNoRate) || len(r.Rates) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	boom := errors.New("boom")
	if r, err := (Search{Low: 1, High: 2}).Run(t.Context(), func(context.Context, float64) (Trial, error) { return Trial{}, boom }); !errors.Is(err, boom) || r == nil {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Search{Low: 1, High: 2}).Run(ctx, all(9)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, bad := range []Search{{}, {Low: 2, High: 1}, {Low: 1, High: math.Inf(1)}, {Low: 1, High: 2, Attainment: 1}, {Low: 1, High: 2, Confidence: 95}, {Low: 1, High: 2, Limit: -1}, {Low: 1, High: 2, Resolution: 2}} {
		if _, err := bad.Run(t.Context(), all(9)); err == nil || bad.MaxRates() != 1 {
			t.Errorf("%+v accepted", bad)
		}
	}
}

// TestSearchEnds: the limit cuts the running trial, and the result until then is kept.
func TestSearchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, err := Search{Low: 1, High: 100, Limit: 25 * time.Second}.Run(t.Context(), func(ctx context.Context, rate float64) (Trial, error) {
			if err := sleep(ctx, 10*time.Second); err != nil {
				return Trial{}, err
			}
			return Trial{RatePerS: rate, Requests: 1000, Met: map[bool]int64{true: 1000}[rate < 50], Valid: true}, nil
		})
		if took := time.Since(began); err != nil || !r.CutOff || len(r.Rates) != 2 || r.PassesPerS != optional.Of(1.0) || took != 25*time.Second {
			t.Errorf("%v: %+v, %v", took, r, err)
		}
	})
}

func TestSearchRefusesWhatWasNotMeasured(t *testing.T) {
	r, err := Search{Low: 1, High: 2}.Run(t.Context(), func(_ context.Context, rate float64) (Trial, error) {
		s := &Summary{Tenants: []TenantSummary{{Measures: Measures{Counts: Counts{Total: 300}, Goodput: &Goodput{Unknown: 300}}}}, ClientHealth: ClientHealth{Valid: true}}
		return TrialOf(rate, s), nil
	})
	if !errors.Is(err, errUnknownSLO) || len(r.Trials) != 1 {
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

func TestSlopeTest(t *testing.T) {
	// x = 1..5, y = 2, 4, 5, 4, 5: slope 0.6, t = 2.1213 with 3 degrees of freedom.
	slope, p := slopeTest([]float64{1, 2, 3, 4, 5}, []float64{2, 4, 5, 4, 5})
	if math.Abs(slope-0.6) > 1e-12 || math.Abs(p-0.0620) > 5e-4 {
		t.Errorf("slope %v, p %v", slope, p)
	}
	if _, p := slopeTest([]float64{1, 2}, []float64{1, 2}); p != 1 {
		t.Errorf("two points prove nothing: %v", p)
	}
}

func TestSaturated(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	series := func(n int, flight, ttft func(float64) float64) (at, f, l []float64) {
		for i := range n {
			x := float64(i+1) / 2
			at, f, l = append(at, x), append(f, flight(x)), append(l, ttft(x))
		}
		return
	}
	steady := func(mean, noise float64) func(float64) float64 {
		return func(float64) float64 { return mean + noise*rng.NormFloat64() }
	}
	rising := func(slope float64) func(float64) float64 {
		return func(x float64) float64 { return 10 + slope*x + rng.NormFloat64() }
	}
	none := func(float64) float64 { return math.NaN() }
	for _, tc := range []struct {
		name         string
		n            int
		flight, ttft func(float64) float64
		want         bool
	}{
		{"backlog and TTFT rise", 40, rising(5), rising(0.5), true},
		{"nothing ends any more", 40, rising(5), none, true},
		{"too early", 15, rising(5), rising(0.5), false},
		{"steady", 60, steady(20, 3), steady(0.05, 0.01), false},
		{"backlog rises, TTFT doesn't: long answers", 40, rising(5), steady(0.05, 0.001), false},
		{"only TTFT rises", 40, steady(20, 3), rising(0.5), false},
		{"grows by a sliver", 60, rising(0.05), rising(0.5), false},
	} {
		at, f, l := series(tc.n, tc.flight, tc.ttft)
		if why, got := saturated(at, f, l); got != tc.want {
			t.Errorf("%s: %v %s", tc.name, got, why)
		}
	}
	// Chance: a steady server is hardly ever accused.
	accused := 0
	for range 500 {
		at, f, l := series(60, steady(20, 5), steady(0.05, 0.02))
		if _, yes := saturated(at, f, l); yes {
			accused++
		}
	}
	if accused > 5 {
		t.Errorf("%d of 500 steady runs accused", accused)
	}
}
