// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"fmt"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// fourTenants are a 1B server at 4 clients, at 1, at 16 and with long prompts.
func fourTenants(tb testing.TB) []profile.Solo {
	tb.Helper()
	ps := profilesOf(tb, colocation(tb))
	var out []profile.Solo
	for _, l := range []profile.Load{
		{Concurrency: 4, Prompt: 128, Output: 64}, {Concurrency: 1, Prompt: 128, Output: 64},
		{Concurrency: 16, Prompt: 128, Output: 64}, {Concurrency: 4, Prompt: 768, Output: 16},
	} {
		s := must.Get(ps.Solo(profile.Server{Model: "1b"}, l))(tb)
		out = append(out, s)
	}
	return out
}

func BenchmarkPredict(b *testing.B) {
	four := fourTenants(b)
	p := predict.NewPredictor()
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		for _, method := range []predict.Method{predict.MethodClosedForm, predict.MethodSimulated} {
			for _, group := range [][]profile.Solo{four[:2], four} {
				b.Run(fmt.Sprintf("%s/%s/%d", m, method, len(group)), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := p.Predict(m, group, method); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkEvaluate evaluates measured tenants, of a group that was evaluated before, and tenants without any
// measurement, alike and not.
func BenchmarkEvaluate(b *testing.B) {
	gpu := must.Get(sharing.LookupGPU("H200"))(b)
	p := predict.NewPredictor()
	ps := profilesOf(b, colocation(b))
	var measured []predict.Tenant
	for _, s := range fourTenants(b) {
		d, _ := predict.FromProfile(&s, gpu, gpu, true, 2)
		measured = append(measured, d)
	}
	share := predict.Share{Mechanism: sharing.MechanismMPS, SMs: 1, Bandwidth: 1}
	unlike := []predict.Tenant{chat(1), chat(2), chat(1.5), chat(0.5)}
	for i := range unlike {
		unlike[i].Workload = i
	}
	for name, tenants := range map[string][]predict.Tenant{"measured/2": measured[:2], "measured/4": measured,
		"alike/2": {chat(1), chat(1)}, "alike/4": {chat(1), chat(1), chat(1), chat(1)}, "priors/2": unlike[:2], "priors/4": unlike} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			e := predict.EvaluatorOf(ps, &p)
			for b.Loop() {
				e.Evaluate(predict.MachineOf(gpu), share, tenants, 0.95)
			}
		})
	}
}

// A predictor that was not made predicts nothing.
func TestEmptyPredictor(t *testing.T) {
	if _, err := new(predict.Predictor).Predict(sharing.MechanismTimeSlicing, fourTenants(t), predict.MethodClosedForm); err == nil {
		t.Error("an empty predictor predicts")
	}
}
