// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// unseenWidths are half-widths of the 90% intervals of uncalibrated tenants: of times and rates, of tails, of the first
// token and of its tail. In quadrature come shares of the distance of the simulation from the measured response and of
// the tenant's own doubts; servers of calibrated engines have narrower ones, by the factor seen. They are conformal:
// of each engine or kind of tenant left out of decision/predict/testdata they hold 82 to 97%.
type unseenWidths struct{ times, tails, first, firstTail, apart, doubt, seen float64 }

var unseenByMechanism = map[sharing.Mechanism]unseenWidths{
	sharing.MechanismTimeSlicing: {0.14, 0.2, 0.29, 0.46, 0.5, 0.75, 0.8},
	sharing.MechanismMPS:         {0.12, 0.18, 0.25, 0.43, 0.75, 1.25, 1},
}

func (w *unseenWidths) of(m profile.Metric) float64 {
	switch m {
	case profile.MetricTTFTP50:
		return w.first
	case profile.MetricTTFTP99:
		return w.firstTail
	case profile.MetricTPOTP99, profile.MetricE2EP99, profile.MetricStepP99:
		return w.tails
	}
	return w.times
}

func (p *Predictor) fill(by sharing.Mechanism, t *tenantModel, out *Prediction, values *profile.Figures) {
	*out = Prediction{Mechanism: by, Calibrated: t.level == calibrated, Basis: sharing.BasisPrior, Notes: t.notes}
	of := t.kind.MainMetric()
	unseen := unseenByMechanism[by]
	for m := range profile.Metric(profile.MetricCount) {
		r := p.residuals(by)[m]
		extra := t.widen
		if t.level != calibrated {
			own := unseen.of(m)
			if t.kind == profile.KindServer && t.seen && !t.gaps {
				own *= unseen.seen
			}
			r = Residual{HalfWidth: math.Hypot(own, unseen.apart*t.apart)}
			extra *= unseen.doubt
			if l := t.learned; l != nil { // its width includes the doubt and the distance of its rows
				r.Points, r.HalfWidth = l.Points, l.HalfWidth*unseen.of(m)/unseen.times
				extra *= table.Fit.PriorWeight.Value / (table.Fit.PriorWeight.Value + float64(l.Points))
			}
		}
		if r.Points > 0 {
			out.Basis = sharing.BasisFitted
		}
		if t.transferred {
			out.Basis = sharing.BasisTransferred
		}
		if m == profile.MetricTokensPerSecond && !t.closed {
			extra = math.Hypot(extra, t.offered)
		}
		v, width := values[m], math.Hypot(r.HalfWidth, extra)
		if m == profile.MetricStepsPerSecond && t.kind == profile.KindBurster { // it mostly thinks, whatever its steps take
			step := values[profile.MetricStepP50]
			v = t.isolated[m] * (t.step + t.think) / (step + t.think)
			width *= step / (step + t.think)
		}
		out.setCoLocated(m, v, width, t.isolated[m], math.Hypot(extra, stats.Z90*costs.Priors[costs.IsolatedError].Sigma))
	}
	out.isolatedRate = t.isolated[profile.MetricStepsPerSecond]
	if v, ok := out.Get(of); ok {
		out.Slowdown = profile.Interval{Value: v.Value / t.reference, Low: v.Low / t.reference, High: v.High / t.reference}
	}
	if by == sharing.MechanismTimeSlicing {
		sliceCount, other, _ := p.slicesOf(t)
		out.Slices = sharing.Some(sliceCount)
		if other > 0 {
			out.OtherSlices = sharing.Some(other)
		}
	}
}
