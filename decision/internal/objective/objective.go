// SPDX-License-Identifier: Apache-2.0

// Package objective makes package filter's reasons for objectives that predictions meet, miss or leave open.
package objective

import (
	"cmp"
	"math"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Of makes an objective of limits as workloads state them.
func Of(slo *profile.SLO) layout.Objective {
	limit := func(o sharing.Optional[profile.Duration]) time.Duration { return time.Duration(o.Or(0)) }
	return layout.Objective{TTFTP99: limit(slo.TTFTP99), TPOTP50: limit(slo.TPOTP50),
		TPOTP99: limit(slo.TPOTP99), E2EP99: limit(slo.E2EP99)}
}

// Against holds a prediction, nil where there is none, against the limits of latencies and of the slowdown by
// neighbours: a pass where all are kept or there are none, else the first that is missed, else the first that is open.
func Against(o *layout.Objective, p *predict.Prediction) filter.Reason {
	if *o == (layout.Objective{}) {
		return filter.Pass()
	}
	worst := filter.Pass()
	hold := func(why filter.Reason) bool {
		if why.Verdict.Severity() > worst.Verdict.Severity() {
			worst = why
		}
		return worst.Verdict != filter.VerdictReject
	}
	p = cmp.Or(p, &predict.Prediction{})
	if o.Slowdown > 0 && !hold(predictedReason(codes.Slowdown, 1000*o.Slowdown, p.Slowdown, p.Slowdown.Value > 0)) {
		return worst
	}
	limits := [...]time.Duration{o.TTFTP99, o.TPOTP99, o.E2EP99, o.TPOTP50}
	for i, l := range codes.Limits {
		if limits[i] <= 0 {
			continue
		}
		v, known := p.Get(l.Metric)
		why := predictedReason(filter.Code(l.Code), float64(limits[i])/1000, v, known)
		if known {
			why.Metric = l.Metric
		}
		if !hold(why) {
			break
		}
	}
	return worst
}

// predictedReason holds one prediction, in milliseconds or as a factor, against a limit in thousandths of it.
func predictedReason(c filter.Code, limit float64, v profile.Interval, known bool) filter.Reason {
	if !known {
		return filter.Reason{Verdict: filter.VerdictUnknown, Code: codes.SlowdownUnknown}
	}
	v = profile.Interval{Value: 1000 * v.Value, Low: 1000 * v.Low, High: 1000 * v.High}
	why := filter.Reason{Verdict: filter.VerdictUnknown, Code: c, Need: int64(limit), Have: int64(math.Round(v.Value)),
		Low: int64(math.Round(v.Low))}
	if !math.IsInf(v.High, 1) {
		why.High = int64(math.Round(v.High))
	}
	switch v.Below(limit) {
	case sharing.AnswerYes:
		return filter.Pass()
	case sharing.AnswerNo:
		why.Verdict = filter.VerdictReject
	}
	return why
}

// Missed is the reason of a choice that misses a latency's limit (TTFT, TPOT, E2E as 0, 1, 2), or may. Figures are in
// seconds.
func Missed(latency int, v profile.Interval, limit float64) filter.Reason {
	l := codes.Limits[latency]
	v = profile.Interval{Value: 1e3 * v.Value, Low: 1e3 * v.Low, High: 1e3 * v.High}
	r := open(predictedReason(filter.Code(l.Code), 1e6*limit, v, true))
	r.Metric = l.Metric
	return r
}

// open is a reason against a choice; a pass, which only another limit can have led to, is unknown.
func open(r filter.Reason) filter.Reason {
	if r.Verdict == filter.VerdictPass {
		r.Verdict = filter.VerdictUnknown
	}
	return r
}

// Impossible is the reason against hardware on which a latency (TTFT, TPOT, E2E as 0, 1, 2) takes longer than its limit
// even without neighbours. Figures are in seconds.
func Impossible(latency int, least, limit float64) filter.Reason {
	micros := func(s float64) int64 { return int64(math.Round(1e6 * s)) }
	return filter.Reason{Code: codes.Floor, Verdict: filter.VerdictReject, Metric: codes.Limits[latency].Metric,
		Need: micros(limit), Have: micros(least)}
}

// Slowed is the reason of a choice under which work without latency objectives keeps less of its isolated rate than it
// must, or may. Figures are parts of that rate, above 0.
func Slowed(rate profile.Interval, must float64) filter.Reason {
	slowdown := profile.Interval{Value: 1 / rate.Value, Low: 1 / rate.High, High: 1 / rate.Low}
	return predictedReason(codes.Slowdown, 1000/must, slowdown, true)
}

// Late is the reason of a choice under which work misses its deadline, or may. Figures are in seconds.
func Late(time profile.Interval, deadline float64) filter.Reason {
	hours := profile.Interval{Value: time.Value / 3600, Low: time.Low / 3600, High: time.High / 3600}
	return open(predictedReason(codes.Deadline, 1000*(deadline/3600), hours, true))
}

// Overloaded is the reason of a choice under which a load can't be served: the work takes longer than there is time, or
// may do so. busy is the share of the time that it takes; without a bound it is not reported.
func Overloaded(busy float64) filter.Reason {
	r := filter.Reason{Code: codes.Overloaded, Verdict: filter.VerdictReject}
	if !math.IsInf(busy, 1) {
		r.Have = int64(math.Round(1000 * busy))
	}
	return r
}
