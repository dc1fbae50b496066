package predict

import (
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// BreakEvenStep is a number of copies of a workload on one GPU from which a mechanism is predicted to be the better.
type BreakEvenStep struct {
	Tenants int               `json:"tenants"`
	Better  sharing.Mechanism `json:"better"`
	// TimeSlicing and MPS are the predicted TPOT P50 in milliseconds.
	TimeSlicing profile.Interval `json:"time_slicing_tpot_ms_p50"`
	MPS         profile.Interval `json:"mps_tpot_ms_p50"`
	// Sure says that the intervals do not overlap.
	Sure bool `json:"sure"`
}

// BreakEven predicts copies of a workload under time-slicing and MPS, from one copy to limit, and lists where the
// mechanism with the lower TPOT changes: "MPS pays from 2 tenants on", with the figures.
func (p *Predictor) BreakEven(s profile.Solo, limit int) ([]BreakEvenStep, error) {
	var out []BreakEvenStep
	for n := 1; n <= min(limit, MaxGroup); n++ {
		group := slices.Repeat([]profile.Solo{s}, n)
		at := BreakEvenStep{Tenants: n, Better: sharing.MechanismTimeSlicing}
		for i, to := range []*profile.Interval{&at.TimeSlicing, &at.MPS} {
			predictions, err := p.Predict(profile.Mechanisms[i], group, MethodClosedForm)
			if err != nil {
				return nil, err
			}
			*to, _ = predictions[0].Get(profile.MetricTPOTP50)
		}
		if at.MPS.Value < at.TimeSlicing.Value {
			at.Better = sharing.MechanismMPS
		}
		at.Sure = at.MPS.High < at.TimeSlicing.Low || at.TimeSlicing.High < at.MPS.Low
		if len(out) == 0 || out[len(out)-1].Better != at.Better {
			out = append(out, at)
		}
	}
	return out, nil
}
