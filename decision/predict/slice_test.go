package predict_test

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

func TestFitSlice(t *testing.T) {
	// Half of the SMs are enough for 10 ms.
	latency := func(f float64) time.Duration { return time.Duration(10e6 * max(1, 0.5/f)) }
	points := []predict.SlicePoint{{SMFraction: 1, Latency: latency(1)}, {SMFraction: 2.0 / 7, Latency: latency(2.0 / 7)}}
	c, err := predict.FitSlice(points)
	if err != nil || c.Basis != sharing.BasisFitted {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, f := range []float64{1, 4.0 / 7, 1.0 / 7} {
		if e := math.Abs(float64(c.Latency(f))/float64(latency(f)) - 1); e > 1e-6 {
			t.Errorf("at %.2f: %v, want %v", f, c.Latency(f), latency(f))
		}
	}
	// Faster on fewer SMs: they are enough, and below them it scales.
	c, err = predict.FitSlice([]predict.SlicePoint{{SMFraction: 1, Latency: 10 * time.Millisecond}, {SMFraction: 0.5, Latency: 9 * time.Millisecond}})
	if err != nil || c.Latency(1) != c.Latency(0.5) || c.Fixed < 9*time.Millisecond || c.Fixed > 10*time.Millisecond ||
		c.Latency(0.25) < 2*c.Fixed-10 {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = predict.FitSlice([]predict.SlicePoint{{SMFraction: 1.5, Latency: 1}, {SMFraction: math.NaN(), Latency: -1}})
	for _, want := range []string{"points[0].sm_fraction", "points[1].sm_fraction", "points[1].latency"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestPublishedSlices holds the curve, and the constants behind the priors, to work that others measured on the slices
// of A100s.
func TestPublishedSlices(t *testing.T) {
	f, err := os.Open("../../examples/predict/testdata/njit-a100-mig.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 17 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	works := map[string][]predict.SlicePoint{"YOLOS-small": { // nos-a100-sharing.csv
		{SMFraction: 14.0 / 108, Latency: 342366 * time.Microsecond}, {SMFraction: 1, Latency: 88150 * time.Microsecond}}}
	for _, r := range rows[1:] {
		sms, err1 := strconv.ParseFloat(r[1], 64)
		rate, err2 := strconv.ParseFloat(r[2], 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		works[r[0]] = append(works[r[0]], predict.SlicePoint{SMFraction: sms / 108, Latency: time.Duration(1e12 / rate)})
	}
	fills := map[string]float64{}
	for work, points := range works {
		c, err := predict.FitSlice(points)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			if e := float64(c.Latency(p.SMFraction))/float64(p.Latency) - 1; math.Abs(e) > 0.06 {
				t.Errorf("%s on %.0f SMs: %.1f%% off", work, 108*p.SMFraction, 100*e)
			}
		}
		fills[work] = float64(c.Scaling) / float64(c.Fixed)
	}
	products := (fills["matrix products FP16"] + fills["matrix products TF32"]) / 2
	if want := costs.Value("slice_prefill"); math.Abs(products-want) > 0.02 {
		t.Errorf("prefills: %.3f of the SMs, %v in the table", products, want)
	}
	var logs []float64
	for _, v := range []float64{fills["GROMACS"], fills["YOLOS-small"], fills["QLoRA of Qwen 1.5B"]} {
		logs = append(logs, math.Log(v))
	}
	other, sigma := costs.Named("slice_other"), stat.StdDev(logs, nil)*math.Sqrt(1+1.0/3)
	if median := fills["YOLOS-small"]; math.Abs(median-other.Value) > 0.02 || math.Abs(sigma-other.Sigma) > 0.03 {
		t.Errorf("other work: %.3f of the SMs with %.3f, %v with %v in the table", median, sigma, other.Value, other.Sigma)
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
