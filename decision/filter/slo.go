// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// limits are the latencies that objectives are about: the P99s in the order of an outcome, then the median.
var limits = [...]struct {
	metric profile.Metric
	code   Code
	name   string
}{{profile.MetricTTFTP99, codeTTFT, "TTFT P99"}, {profile.MetricTPOTP99, CodeTPOT, "TPOT P99"},
	{profile.MetricE2EP99, codeE2E, "E2E P99"}, {profile.MetricTPOTP50, CodeTPOT, "TPOT P50"}}

// ObjectiveName names a metric as objectives do.
func ObjectiveName(m profile.Metric) string {
	for i := range limits {
		if limits[i].metric == m {
			return limits[i].name
		}
	}
	return m.String()
}

// checkSLO compares the latencies without neighbours, times the slowdown by neighbours or a slice, with the limits.
func (t *Target) checkSLO(d *Demand, r *Report) {
	if d.SLO == (profile.SLO{}) {
		return
	}
	if d.Predicted {
		r.compare(VerdictPass, codeSLOPredicted, 0, int64(r.Tenants))
		return
	}
	by := r.Slowdown
	if r.slice >= 0 {
		by.High *= t.slices[r.slice].SlowdownBound
	}
	unmeasured, bounded := false, true
	for i := range limits {
		limit, demanded := d.SLO.At(limits[i].metric).Get()
		solo, measured := d.Solo.At(limits[i].metric).Get()
		switch {
		case !demanded:
			continue
		case !measured:
			unmeasured = true
		case float64(solo)*by.Low > float64(limit):
			r.compare(VerdictReject, codeSLOMissed, int64(limit)/1000,
				int64(float64(solo)*by.Low)/1000).metric = limits[i].metric
		case float64(solo)*by.High > float64(limit):
			r.compare(VerdictUnknown, codeSLOOpen, int64(limit)/1000,
				int64(float64(solo)*by.High)/1000).metric = limits[i].metric
		default:
			continue
		}
		bounded = false
	}
	turns := traits[r.Mechanism].Turns
	switch {
	case turns && d.LatencyBound && !bounded:
		r.say(VerdictUnknown, codeSLOTurns)
	case !unmeasured || r.Mechanism == sharing.MechanismExclusive:
	case turns:
		r.compare(VerdictUnknown, CodeSLOUnmeasured, 0, int64(r.Tenants))
	default:
		r.compare(VerdictPass, CodeSLOUnmeasured, 0, int64(r.Tenants))
	}
}

// Objectives holds a prediction, nil where there is none, against the limits of latencies and of the slowdown by
// neighbours, 0 = none: a pass where all are kept or there are none, else the first that is missed, else the first
// that is open.
func Objectives(slo *profile.SLO, maxSlowdown float64, p *predict.Prediction) Reason {
	worst := Pass()
	hold := func(why Reason) bool {
		if why.Verdict.Severity() > worst.Verdict.Severity() {
			worst = why
		}
		return worst.Verdict != VerdictReject
	}
	p = cmp.Or(p, &predict.Prediction{})
	if maxSlowdown > 0 && !hold(predictedReason(CodeSlowdown, 1000*maxSlowdown, p.Slowdown, p.Slowdown.Value > 0)) {
		return worst
	}
	for _, l := range limits {
		limit, demanded := slo.At(l.metric).Get()
		if !demanded {
			continue
		}
		v, known := p.Get(l.metric)
		why := predictedReason(l.code, float64(limit)/1000, v, known)
		if known {
			why.Metric = l.metric
		}
		if !hold(why) {
			break
		}
	}
	return worst
}

// predictedReason holds one prediction, in milliseconds or as a factor, against a limit in thousandths of it.
func predictedReason(c Code, limit float64, v profile.Interval, known bool) Reason {
	if !known {
		return Reason{Verdict: VerdictUnknown, Code: CodeSlowdownUnknown}
	}
	v = profile.Interval{Value: 1000 * v.Value, Low: 1000 * v.Low, High: 1000 * v.High}
	why := Reason{Verdict: VerdictUnknown, Code: c, Need: int64(limit), Have: int64(math.Round(v.Value)),
		Low: int64(math.Round(v.Low))}
	if !math.IsInf(v.High, 1) {
		why.High = int64(math.Round(v.High))
	}
	switch v.Below(limit) {
	case sharing.AnswerYes:
		return Pass()
	case sharing.AnswerNo:
		why.Verdict = VerdictReject
	}
	return why
}

// predicted puts a judged objective into words.
func predicted(r *Reason) string {
	what, unit, limit := "slowdown", "", "objective"
	if r.Code == CodeDeadline {
		what, unit, limit = "time to finish", " h", "deadline"
	} else if r.Code != CodeSlowdown {
		what, unit = ObjectiveName(r.Metric), " ms"
	}
	is := func(micros int64) string { return plaintext.Digits(millis(micros)) }
	bounds := is(r.Low) + " to " + is(r.High)
	if r.High == 0 {
		bounds = is(r.Low) + " or more, without bound"
	}
	text := fmt.Sprintf("the predicted %s is %s%s (%s), the %s %s%s", what, is(r.Have), unit, bounds, limit, is(r.Need),
		unit)
	if r.Verdict == VerdictUnknown {
		text += ": only a measurement settles it"
	}
	return text
}

// Missed is the reason of a choice that misses a latency's limit (TTFT, TPOT,
// E2E as 0, 1, 2), or may. Figures are in seconds.
func Missed(latency int, value, low, high, limit float64) Reason {
	l := limits[latency]
	r := predictedReason(l.code, 1e6*limit, profile.Interval{Value: 1e3 * value, Low: 1e3 * low, High: 1e3 * high}, true)
	r.Metric = l.metric
	return r.open()
}

// open is a reason against a choice; a pass, which only another limit can have led to, is unknown.
func (r Reason) open() Reason {
	if r.Verdict == VerdictPass {
		r.Verdict = VerdictUnknown
	}
	return r
}

// Impossible is the reason against hardware on which a latency (TTFT, TPOT, E2E
// as 0, 1, 2) takes longer than its limit even without neighbours. Figures are in seconds.
func Impossible(latency int, least, limit float64) Reason {
	l := limits[latency]
	micros := func(s float64) int64 { return int64(math.Round(1e6 * s)) }
	return Reason{Code: codeFloor, Verdict: VerdictReject, Metric: l.metric, Need: micros(limit), Have: micros(least)}
}

// Slowed is the reason of a choice under which work without latency objectives keeps less of its rate alone than it
// must, or may. Figures are parts of that rate, above 0.
func Slowed(value, low, high, must float64) Reason {
	return predictedReason(CodeSlowdown, 1000/must, profile.Interval{Value: 1 / value, Low: 1 / high, High: 1 / low}, true)
}

// Late is the reason of a choice under which work misses its deadline, or may. Figures are in hours.
func Late(value, low, high, deadline float64) Reason {
	return predictedReason(CodeDeadline, 1000*deadline, profile.Interval{Value: value, Low: low, High: high}, true).open()
}

// Overloaded is the reason of a choice under which a load can't be served: the work takes longer than there is time, or
// may do so. The figure is the share of the time that it takes; 0 = not known, but too much.
func Overloaded(busy float64) Reason {
	return Reason{Code: codeOverloaded, Verdict: VerdictReject, Have: thousandths(busy)}
}

// thousandths of a share; 0 of one that has no bound.
func thousandths(share float64) int64 {
	if math.IsInf(share, 1) {
		return 0
	}
	return int64(math.Round(1000 * share))
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
