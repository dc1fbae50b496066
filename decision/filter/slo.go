// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// checkSLO compares the latencies without neighbours, times the slowdown by neighbours or a slice, with the limits.
func (t *Target) checkSLO(d *Demand, r *Report) {
	if d.SLO == (profile.SLO{}) {
		return
	}
	if d.Predicted {
		r.compare(VerdictPass, codes.SLOPredicted, 0, int64(r.Tenants))
		return
	}
	by := r.Slowdown
	if r.slice >= 0 {
		by.High *= t.slices[r.slice].SlowdownBound
	}
	unmeasured, bounded := false, true
	for i := range codes.Limits {
		limit, demanded := d.SLO.At(codes.Limits[i].Metric).Get()
		solo, measured := d.Solo.At(codes.Limits[i].Metric).Get()
		switch {
		case !demanded:
			continue
		case !measured:
			unmeasured = true
		case float64(solo)*by.Low > float64(limit):
			r.compare(VerdictReject, codes.SLOMissed, int64(limit)/1000,
				int64(float64(solo)*by.Low)/1000).metric = codes.Limits[i].Metric
		case float64(solo)*by.High > float64(limit):
			r.compare(VerdictUnknown, codes.SLOOpen, int64(limit)/1000,
				int64(float64(solo)*by.High)/1000).metric = codes.Limits[i].Metric
		default:
			continue
		}
		bounded = false
	}
	turns := traits.Of(r.Mechanism).TimeSlices
	switch {
	case turns && d.LatencyBound && !bounded:
		r.say(VerdictUnknown, codes.SLOTurns)
	case !unmeasured || r.Mechanism == sharing.MechanismExclusive:
	case turns:
		r.compare(VerdictUnknown, codes.SLOUnmeasured, 0, int64(r.Tenants))
	default:
		r.compare(VerdictPass, codes.SLOUnmeasured, 0, int64(r.Tenants))
	}
}

// predicted puts an evaluated objective into words.
func predicted(r *Reason) string {
	what, unit, limit := "slowdown", "", "objective"
	if r.Code == codes.Deadline {
		what, unit, limit = "time to finish", " h", "deadline"
	} else if r.Code != codes.Slowdown {
		what, unit = codes.ObjectiveName(r.Metric), " ms"
	}
	is := func(micros int64) string { return plaintext.Digits(millis(micros)) }
	bounds := is(r.Low) + " to " + is(r.High)
	if r.High == 0 {
		bounds = is(r.Low) + " or more, without bound"
	}
	text := fmt.Sprintf("the predicted %s is %s%s (%s), the %s %s%s", what, is(r.Have), unit, bounds, limit, is(r.Need),
		unit)
	if r.Verdict == VerdictUnknown {
		text += ": only a measurement decides it"
	}
	return text
}

// overloaded puts the reason into words; busy is in thousandths.
func overloaded(busy int64) string {
	switch {
	case busy <= 0:
		return "its load is more than it can serve there"
	case busy < 1000:
		return fmt.Sprintf("would be %d%% busy there, and may not keep up", busy/10)
	}
	return fmt.Sprintf("would be %d%% busy there: it could not keep up", busy/10)
}
