package predict_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

func TestFitSlice(t *testing.T) {
	// Amdahl: 2 ms that do not scale and 8 ms that do.
	latency := func(f float64) time.Duration { return time.Duration((2 + 8/f) * 1e6) }
	points := []predict.SlicePoint{{SMFraction: 1, Latency: latency(1)}, {SMFraction: 3.0 / 7, Latency: latency(3.0 / 7)}}
	c, err := predict.FitSlice(points)
	if err != nil || c.Basis != sharing.BasisFitted {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, f := range []float64{1, 4.0 / 7, 1.0 / 7} {
		if e := math.Abs(float64(c.Latency(f))/float64(latency(f)) - 1); e > 1e-6 {
			t.Errorf("at %.2f: %v, want %v", f, c.Latency(f), latency(f))
		}
	}
	// One size: a prior, which holds the measured A100 slice.
	c, err = predict.FitSlice([]predict.SlicePoint{{SMFraction: 1, Latency: 88150 * time.Microsecond}})
	if err != nil || c.Basis != sharing.BasisPrior {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := c.Latency(14.0 / 108); math.Abs(float64(got)/float64(342*time.Millisecond)-1) > 0.01 {
		t.Errorf("1g.10gb: %v", got)
	}
	// Faster on fewer SMs: nothing scales.
	c, err = predict.FitSlice([]predict.SlicePoint{{SMFraction: 1, Latency: 10 * time.Millisecond}, {SMFraction: 0.5, Latency: 9 * time.Millisecond}})
	if err != nil || c.Scaling != 0 || c.Fixed < 9*time.Millisecond || c.Fixed > 10*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = predict.FitSlice([]predict.SlicePoint{{SMFraction: 1.5, Latency: 1}, {SMFraction: math.NaN(), Latency: -1}})
	for _, want := range []string{"points[0].sm_fraction", "points[1].sm_fraction", "points[1].latency"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestBreakEven(t *testing.T) {
	ps := profilesOf(t, colocation(t))
	s, err := ps.Solo(profile.Server{Model: "1b"}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64})
	if err != nil {
		t.Fatal(err)
	}
	p := predict.NewPredictor()
	got, err := p.BreakEven(s, 4)
	if err != nil {
		t.Fatal(err)
	}
	// Alone MPS costs 15%; beside a second copy it is faster, as measured.
	var from []int
	var better []sharing.Mechanism
	for _, g := range got {
		from, better = append(from, g.Tenants), append(better, g.Better)
	}
	if diff := cmp.Diff([]int{1, 2}, from); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS}, better); diff != "" {
		t.Error(diff)
	}
}
