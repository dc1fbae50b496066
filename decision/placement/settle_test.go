package placement

import (
	"testing"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// open predicts a slowdown of 1.5 to 2.5, and counts simulations.
type open struct{ simulations int }

func (o *open) Predict(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string) []*predict.Prediction {
	for range group {
		out = append(out, &predict.Prediction{Slowdown: profile.Interval{Value: 2, Low: 1.5, High: 2.5}})
	}
	return out
}

func (o *open) simulate(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string) []*predict.Prediction {
	o.simulations++
	return append(out, make([]*predict.Prediction, len(group))...)
}

// TestSettleLast: a limit that the closed form leaves open costs no simulation where another's refuses the request, and
// a simulation that knows nothing leaves it open for the reason that it had.
func TestSettleLast(t *testing.T) {
	for limit, want := range map[float64]gate.Verdict{1.2: gate.VerdictReject, 3: gate.VerdictUnknown} {
		s, err := NewSnapshot([]Node{{Name: "n", GPUs: []GPU{{Mechanism: sharing.MechanismMPS}}, Running: []Running{
			{Request: &Request{Name: "a", GPUs: 1, Milli: 300, MaxSlowdown: 2}, GPUs: []int{0}}}}})
		if err != nil {
			t.Fatal(err)
		}
		var o open
		f := s.Fit(0, &Request{Name: "b", GPUs: 1, Milli: 300, MaxSlowdown: limit}, &o)
		if f.Verdict != want || f.Code != gate.CodeSlowdown || (o.simulations > 0) != (want == gate.VerdictUnknown) {
			t.Errorf("limit %v: %v, %d simulations", limit, f, o.simulations)
		}
	}
}
