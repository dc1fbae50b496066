// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
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
	group := fourTenants(b)
	p := predict.NewPredictor()
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		for _, method := range []predict.Method{predict.MethodClosedForm, predict.MethodSimulated} {
			b.Run(m.String()+"/"+method.String(), func(b *testing.B) {
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

// A predictor that was not made predicts nothing.
func TestEmptyPredictor(t *testing.T) {
	if _, err := new(predict.Predictor).Predict(sharing.MechanismTimeSlicing, fourTenants(t), predict.MethodClosedForm); err == nil {
		t.Error("an empty predictor predicts")
	}
}
