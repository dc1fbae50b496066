// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// TestAnyProfile predicts from profiles that no GPU would show: an answer with
// sane intervals, or an error, and neither takes long.
func TestAnyProfile(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	wild := func(low, high float64) sharing.Optional[float64] {
		return sharing.Some(low * math.Pow(high/low, rng.Float64()))
	}
	maybe := func(v sharing.Optional[float64]) sharing.Optional[float64] {
		if rng.IntN(3) == 0 {
			return sharing.Optional[float64]{}
		}
		return v
	}
	share := func() sharing.Optional[float64] { return maybe(sharing.Some(rng.Float64())) }
	random := func(m sharing.Mechanism) *profile.SoloProfile {
		p := &profile.SoloProfile{Version: 1, Mechanism: m, Server: profile.Server{Model: "x"},
			Load:        profile.Load{Concurrency: 1 + rng.IntN(1<<rng.IntN(16)), Prompt: 1 + rng.IntN(1e5), Output: 2 + rng.IntN(1<<rng.IntN(20))},
			Utilization: profile.Utilization{GPUBusyFraction: share(), SMFraction: share()}}
		near := func(v float64) sharing.Optional[float64] { return sharing.Some(v * wild(0.02, 50).Or(0)) } // else it is refused
		p.ITL.P50 = wild(1e-5, 1e4)
		p.TPOT = profile.LatencyMS{P50: near(p.ITL.P50.Or(0)), Mean: maybe(wild(1e-6, 1e6))}
		p.E2E = profile.LatencyMS{P50: near(float64(p.Load.Output) * p.TPOT.P50.Or(0)), P99: maybe(sharing.Some(1e9))}
		p.TokensPerS = near(1e3 * float64(p.Load.Concurrency*p.Load.Output) / p.E2E.P50.Or(0))
		if rng.IntN(2) == 0 {
			p.Load.Concurrency, p.Load.Rate = 0, wild(1e-3, 1e5).Or(0)
			p.TokensPerS = near(p.Load.Rate * float64(p.Load.Output))
		}
		if c := p.Load.Concurrency; c > 0 && rng.IntN(5) > 0 { // add up
			step := p.ITL.P50.Or(0)
			prefill := step * wild(0.1, 50).Or(0)
			cycle := float64(p.Load.Output-1)*step + float64(c)*prefill + 1
			p.TokensPerS = sharing.Some(1e3 * float64(c) * float64(p.Load.Output) / cycle)
			p.E2E.P50 = sharing.Some(cycle)
		}
		p.TokensPerS = sharing.Some(min(1e9, p.TokensPerS.Or(0)))
		p.E2E.P50 = sharing.Some(min(1e9, p.E2E.P50.Or(0)))
		return p
	}
	p := predict.NewPredictor()
	answers := 0
	for range nightly.Cases(12, 40) {
		var group []profile.Solo
		for range 1 + rng.IntN(3) {
			ts, mps := random(sharing.MechanismTimeSlicing), random(sharing.MechanismMPS)
			for ts.Validate() != nil || mps.Validate() != nil {
				ts, mps = random(sharing.MechanismTimeSlicing), random(sharing.MechanismMPS)
			}
			group = append(group, profile.Solo{Server: ts.Server, Load: ts.Load, TimeSlicing: ts, MPS: mps, Siblings: []*profile.SoloProfile{ts, mps}})
		}
		for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
			for _, method := range []predict.Method{predict.MethodClosedForm, predict.MethodSimulated} {
				start := time.Now()
				out, err := p.Predict(m, group, method)
				// 1.5 s at most, but 27 under the race detector, and more beside others.
				if d := time.Since(start); d > time.Minute && !race.Enabled {
					t.Errorf("a prediction took %v", d)
				}
				if (out == nil) == (err == nil) {
					t.Fatalf("%v, %v", out, err)
				}
				for i := range out {
					for metric := range profile.Metric(profile.MetricCount) {
						v, ok := out[i].Get(metric)
						if !ok {
							continue
						}
						answers++
						if !(v.Low > 0 && v.Low <= v.Value && v.Value <= v.High) || math.IsInf(v.High, 0) {
							t.Errorf("%s by %s, %s: %+v", m, method, metric, v)
						}
					}
				}
			}
		}
	}
	if answers < nightly.Cases(10, 30) {
		t.Errorf("%d answers only", answers)
	}
}
