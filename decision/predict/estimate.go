// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Estimate holds the figures of a tenant, with bounds at the confidence of the evaluation.
type Estimate struct {
	P99   [LatencyCount]profile.Interval // seconds; zero where not known
	Rate  profile.Interval               // fraction of its isolated rate, for work without latency objectives
	Busy  profile.Interval               // utilization of its part of the GPU; 1 or more means overload
	Floor [LatencyCount]float64          // lower bound of each latency there in seconds, see [Machine.Floor]
	// Predicted is the underlying prediction if all tenants of the GPU were measured; else nil.
	Predicted *Prediction
}

// held ranges over the figures that have objectives, each with its maximum: the limited latencies, the utilization of a
// server, which must keep up, and the end of work with a deadline. Other work has no objective. Unknown figures have
// the bounds 0 and infinity.
func (o *Estimate) held(d *Tenant, see func(b profile.Interval, most float64)) {
	for k, limit := range d.Limits {
		if limit > 0 && o.P99[k].Value > 0 {
			see(o.P99[k], limit)
		} else if limit > 0 {
			see(profile.Interval{Value: math.Inf(1), High: math.Inf(1)}, limit)
		}
	}
	if d.Serves() {
		see(o.Busy, math.Nextafter(1, 0))
	} else if d.Deadline > 0 {
		see(o.Finish(d), d.Deadline)
	}
}

// Finish returns the run time of finite work in seconds: its isolated time over its rate, with independent
// uncertainties.
func (o *Estimate) Finish(d *Tenant) profile.Interval {
	t, r := &d.Takes, &o.Rate
	v := t.Value / r.Value
	return profile.Interval{Value: v, Low: v * math.Exp(-math.Hypot(math.Log(t.Value/t.Low), math.Log(r.High/r.Value))),
		High: v * math.Exp(math.Hypot(math.Log(t.High/t.Value), math.Log(r.Value/r.Low)))}
}

// Kept answers whether every objective is met at the confidence of the estimate; no means that one is missed at it.
func (o *Estimate) Kept(d *Tenant) sharing.Answer {
	answer := sharing.AnswerYes
	o.held(d, func(b profile.Interval, most float64) {
		if below := b.Below(most); below == sharing.AnswerNo || answer == sharing.AnswerYes {
			answer = below
		}
	})
	return answer
}

// Likely reports whether every objective is met by the median estimate.
func (o *Estimate) Likely(d *Tenant) bool {
	likely := true
	o.held(d, func(b profile.Interval, most float64) { likely = likely && b.Value <= most })
	return likely
}

// raise lifts latencies to the least that they can be. An unknown one misses a limit below its floor all the same.
func (o *Estimate) raise(d *Tenant, floor [LatencyCount]float64) {
	o.Floor = floor
	for k, least := range floor {
		if o.P99[k].Value > 0 || d.Limits[k] > 0 && d.Limits[k] < least {
			raise(&o.P99[k], least)
		}
	}
}
