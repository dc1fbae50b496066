package predict_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// TestNos holds the saturated curves against the A100 rows of nos:
// time-slicing with one overhead within 1%, MPS fitted on 1, 3 and 7 predicts 5
// within 1%, MIG is constant.
func TestNos(t *testing.T) {
	ts, err := predict.FitSaturated(sharing.MechanismTimeSlicing, nos(t, "time-slicing"))
	if err != nil || ts.WorstErrorFraction > 0.01 || ts.Points != 4 {
		t.Errorf("time-slicing: %+v, %v", ts, err)
	}
	var three []timeslice.SaturatedPoint
	var five timeslice.SaturatedPoint
	for _, p := range nos(t, "mps") {
		if p.Tenants == 5 {
			five = p
		} else {
			three = append(three, p)
		}
	}
	mps, err := predict.FitSaturated(sharing.MechanismMPS, three)
	if err != nil {
		t.Fatal(err)
	}
	if e := math.Abs(float64(mps.Latency(5))/float64(five.Latency) - 1); e > 0.01 {
		t.Errorf("MPS at 5 pods: %v, measured %v, off by %.2f%%", mps.Latency(5), five.Latency, 100*e)
	}
	mig, err := predict.FitSaturated(sharing.MechanismMIG, nos(t, "mig-1g.10gb"))
	if err != nil || mig.WorstErrorFraction > 0.01 || mig.Latency(1) != mig.Latency(7) {
		t.Errorf("MIG: %+v, %v", mig, err)
	}
	// MPS beats time-slicing from the second tenant, a MIG slice up to the
	// seventh.
	got := predict.Crossings(ts, mps, 7)
	if len(got) == 0 || got[len(got)-1].Faster != sharing.MechanismMPS || got[len(got)-1].Tenants > 2 {
		t.Errorf("time-slicing against MPS: %+v", got)
	}
	got = predict.Crossings(mig, mps, 12)
	if len(got) != 2 || got[0].Faster != sharing.MechanismMPS || got[1].Faster != sharing.MechanismMIG || got[1].Tenants != 8 {
		t.Errorf("MIG against MPS: %+v", got)
	}
}

func TestFitSaturatedRefuses(t *testing.T) {
	p := func(n int, ms float64) timeslice.SaturatedPoint {
		return timeslice.SaturatedPoint{Tenants: n, Latency: time.Duration(ms * 1e6)}
	}
	for _, c := range []struct {
		name   string
		m      sharing.Mechanism
		points []timeslice.SaturatedPoint
		want   string
	}{
		{"no curve", sharing.MechanismVGPU, nil, "vgpu"},
		{"two points", sharing.MechanismMPS, []timeslice.SaturatedPoint{p(1, 1), p(3, 2)}, "too few for a line"},
		{"nonsense", sharing.MechanismMPS, []timeslice.SaturatedPoint{p(1, 1), p(0, 2), p(3, -1), p(1, 2)}, "points[3]: is a second measurement"},
		{"falling", sharing.MechanismMPS, []timeslice.SaturatedPoint{p(1, 1), p(3, 3), p(7, 2)}, "not saturated"},
		{"nothing", sharing.MechanismMIG, nil, "are missing"},
		{"time-slicing", sharing.MechanismTimeSlicing, nil, "alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := predict.FitSaturated(c.m, c.points); err == nil || !strings.Contains(err.Error(), c.want) || got != (predict.SaturatedCurve{}) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

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

// TestGroupTenants holds the grouping against every division of the tenants.
func TestGroupTenants(t *testing.T) {
	ps := profilesOf(t, colocation(t))
	loads := []predict.Load{{Concurrency: 1, Prompt: 128, Output: 64}, {Concurrency: 4, Prompt: 128, Output: 64}, {Concurrency: 16, Prompt: 128, Output: 64}}
	rng := rand.New(rand.NewPCG(1, 2))
	p := predict.NewPredictor()
	for range 4 {
		var tenants []predict.Solo
		for range 5 {
			s, err := ps.Solo(predict.Server{Model: []string{"1b", "8b"}[rng.IntN(2)]}, loads[rng.IntN(3)])
			if err != nil {
				t.Fatal(err)
			}
			tenants = append(tenants, s)
		}
		for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
			got, err := p.GroupTenants(m, tenants, 2, 3)
			if err != nil {
				t.Fatal(err)
			}
			if want := bruteForce(t, &p, m, tenants, 3); math.Abs(got.Cost-want) > 1e-9 {
				t.Errorf("%s: cost %v, best is %v", m, got.Cost, want)
			}
			seen := 0
			for _, g := range got.Groups {
				seen += len(g)
				if len(g) > 3 {
					t.Errorf("a group of %d", len(g))
				}
			}
			if seen != 5 || len(got.Groups) > 2 {
				t.Errorf("groups %v", got.Groups)
			}
		}
	}
	for _, c := range []struct{ gpus, per int }{{0, 1}, {1, 2}} {
		if _, err := p.GroupTenants(sharing.MechanismMPS, fourTenants(t), c.gpus, c.per); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if _, err := p.GroupTenants(sharing.MechanismMPS, nil, 1, 1); err == nil {
		t.Error("nobody is grouped")
	}
}

func bruteForce(t *testing.T, p *predict.Predictor, m sharing.Mechanism, tenants []predict.Solo, perGPU int) float64 {
	t.Helper()
	best := math.Inf(1)
	for set := range 1 << len(tenants) {
		var sides [2][]predict.Solo
		for i, s := range tenants {
			side := set >> i & 1
			sides[side] = append(sides[side], s)
		}
		sum := 0.0
		for _, g := range sides {
			if len(g) == 0 {
				continue
			}
			if len(g) > perGPU {
				sum = math.Inf(1)
				break
			}
			out, err := p.Predict(m, g, predict.MethodClosedForm)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range out {
				sum += o.Slowdown.Value
			}
		}
		best = min(best, sum/float64(len(tenants)))
	}
	return best
}

func TestBreakEven(t *testing.T) {
	ps := profilesOf(t, colocation(t))
	s, err := ps.Solo(predict.Server{Model: "1b"}, predict.Load{Concurrency: 4, Prompt: 128, Output: 64})
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
