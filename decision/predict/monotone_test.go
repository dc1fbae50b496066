// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
)

// tenant draws a model server, another server or work without requests.
func tenant(rng *rand.Rand, m predict.Machine, workload int) predict.Tenant {
	d := predict.Tenant{Workload: workload}
	switch rng.IntN(3) {
	case 0:
		models := [][4]float64{{494e6, 24, 2, 64}, {1.24e9, 16, 8, 64}, {3.2e9, 28, 8, 128}, {8e9, 32, 8, 128}, {14.8e9, 48, 8, 128}}
		lengths := [][2]float64{{128, 64}, {512, 128}, {900, 235}, {2048, 32}, {300, 600}}
		v, l := models[rng.IntN(len(models))], lengths[rng.IntN(len(lengths))]
		s := &predict.Serving{Input: l[0], Output: l[1], Weights: 2 * v[0], Parameters: v[0], Layers: v[1], KVPerToken: 4 * v[1] * v[2] * v[3]}
		step := s.Weights/(m.Bandwidth*0.75) + 7e-5*s.Layers
		s.PerS = 0.6 * rng.Float64() * rng.Float64() / (max(5e-4*s.Layers, 2*s.Parameters*s.Input/(m.FLOPs*0.45)) + step*l[1]/8)
		if rng.IntN(2) == 0 {
			s.LengthSigma = 0.1 + 0.9*rng.Float64()
		}
		d.Serving, d.Limits = s, [predict.LatencyCount]float64{1, 1, 1}
	case 1:
		d.Busy, d.Isolated, d.Limits[predict.LatencyE2E] = 0.6*rng.Float64(), [predict.LatencyCount]float64{predict.LatencyE2E: 0.05}, 1
	default:
		d.Busy = rng.Float64()
	}
	return d
}

// TestAskingMoreNeverLooksBetter: with more load, more or busier neighbours, a smaller share or longer answers no
// latency, bound or load falls, and no rate rises.
func TestAskingMoreNeverLooksBetter(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 3))
	worse := map[string]int{}
	var none *predict.Evaluator // nobody was measured
	for range nightly.Cases(300, 2000) {
		g := must.Get(sharing.LookupGPU([]string{"A100-SXM4-80GB", "L4", "H100 80GB HBM3", "L40S"}[rng.IntN(4)]))(t)
		m := predict.MachineOf(g)
		share := predict.Share{Mechanism: []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismMPS, sharing.MechanismTimeSlicing}[rng.IntN(3)], SMs: 1, Bandwidth: 1}
		n := 1
		if share.Mechanism != sharing.MechanismExclusive {
			n += rng.IntN(3)
		}
		var tenants []predict.Tenant
		for k := range n {
			tenants = append(tenants, tenant(rng, m, k))
		}
		more := append([]predict.Tenant(nil), tenants...)
		other, name := share, ""
		k := rng.IntN(n)
		switch rng.IntN(4) {
		case 0, 1:
			name = "more load"
			if s := more[k].Serving; s != nil {
				c := *s
				c.PerS *= 1.07
				more[k].Serving = &c
			} else {
				more[k].Busy = min(1, more[k].Busy*1.07)
			}
		case 2:
			name = "longer answers"
			if s := more[k].Serving; s != nil {
				c := *s
				c.Output *= 1.1
				more[k].Serving = &c
			}
		default:
			if share.Mechanism == sharing.MechanismExclusive {
				name = "a smaller share"
				other.SMs, other.Bandwidth = 0.5, 0.5
			} else {
				name = "a neighbour more"
				more = append(more, tenant(rng, m, n))
			}
		}
		before, after := none.Evaluate(m, share, tenants, 0.97), none.Evaluate(m, other, more, 0.97)
		for i := range before {
			fell := func(what string, was, is float64) {
				least := 0.99
				if strings.HasSuffix(what, "low") || strings.HasSuffix(what, "high") {
					least = 0.97 // near saturation the sum of effects falls
				}
				if is < least*was {
					worse[name+": "+what]++
					if worse[name+": "+what] < 4 {
						t.Logf("%s (of %d, asked of %d): %s falls from %.5g to %.5g: %+v %+v busy %v", name, i, k, what, was, is, share, more[i].Serving, more[i].Busy)
					}
				}
			}
			for j := range predict.LatencyCount {
				was, is := before[i].P99[j], after[i].P99[j]
				if name == "longer answers" && i == k && j != predict.LatencyE2E {
					continue // a long prompt weighs less in them
				}
				fell(predict.LatencyName(j), was.Value, is.Value)
				if was.High < 3*was.Value && is.High < 3*is.Value { // near saturation the good side is far off
					fell(predict.LatencyName(j)+" low", was.Low, is.Low)
				}
				fell(predict.LatencyName(j)+" high", was.High, is.High)
			}
			if was, is := before[i].Rate, after[i].Rate; is.Value > 1.01*was.Value || is.Low > 1.05*was.Low {
				worse[name+": rate"]++
			}
			fell("busy", before[i].Busy.Value, after[i].Busy.Value)
			fell("busy high", before[i].Busy.High, after[i].Busy.High)
		}
	}
	if len(worse) > 0 {
		t.Errorf("%v", worse)
	}
}

// TestNeighboursMakeNothingBetter: of workloads measured in isolation, no figure is better co-located, no interval is
// without width, and a neighbour more makes nobody faster.
func TestNeighboursMakeNothingBetter(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 4))
	var all []profile.Solo
	for _, file := range []string{"h200-mixes.json", "h200-tenants-7.json", "h200-foreign.json", "h200-foreign-4.json", "h200-engines-7.json"} {
		ps := profilesOf(t, rowsOf(t, file))
		for p := range ps.All() {
			if s, err := ps.Solo(p.Server, p.Load); err == nil && s.TimeSlicing != nil && s.MPS != nil {
				all = append(all, s)
			}
		}
	}
	p := predict.NewPredictor()
	closed := nightly.Cases(300, 2000)
	for n := range closed + nightly.Cases(8, 200) {
		method := predict.MethodClosedForm
		if n >= closed {
			method = predict.MethodSimulated
		}
		m := profile.Mechanisms[rng.IntN(2)]
		var group []profile.Solo
		for range 2 + rng.IntN(3) {
			group = append(group, all[rng.IntN(len(all))])
		}
		fewer := must.Get(p.Predict(m, group[:len(group)-1], method))(t)
		more := must.Get(p.Predict(m, group, method))(t)
		for i := range more {
			before := must.Get(p.Predict(m, group[i:i+1], method))(t)[0]
			if i < len(fewer) {
				before = fewer[i]
			}
			for metric, v := range more[i].All() {
				if !(v.Low < v.Value && v.Value < v.High) {
					t.Errorf("%s, %s: %+v", m, metric, v)
				}
				most := 1.01
				if method == predict.MethodSimulated {
					most = 1.02 // other requests end in longer simulations
				}
				was, _ := before.Get(metric)
				better := was.Value / v.Value
				if metric == profile.MetricTokensPerSecond || metric == profile.MetricStepsPerSecond {
					better = 1 / better
				}
				if better > most {
					t.Errorf("%s, %s, %s of %s: %.4g, and %.4g in %d", m, method, metric, group[i].Server, was.Value, v.Value, len(more))
				}
			}
		}
	}
}

// TestLongerRoundsHurryNoPrefill: a prefill that needs a little more than the time between two of its slices takes no
// fewer of them, and ends no earlier, where a third tenant makes that time longer.
func TestLongerRoundsHurryNoPrefill(t *testing.T) {
	solo := func(file, model string, l profile.Load) profile.Solo {
		ps := profilesOf(t, rowsOf(t, file))
		return must.Get(ps.Solo(profile.Server{Model: model}, l))(t)
	}
	train := solo("h200-foreign.json", "jaxtrain", profile.Load{})
	server := solo("h200-mixes.json", "160m", profile.Load{Rate: 10, Prompt: 128, Output: 64})
	p := predict.NewPredictor()
	was := 0.0
	for _, group := range [][]profile.Solo{{server}, {server, train}, {server, train, server}, {server, train, train}} {
		v, _ := must.Get(p.Predict(sharing.MechanismTimeSlicing, group, predict.MethodSimulated))(t)[0].Get(profile.MetricTTFTP50)
		if v.Value < 1.1*was {
			t.Errorf("of %d: %.4g ms, %.4g before", len(group), v.Value, was)
		}
		was = v.Value
	}
}
