// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"iter"
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// raise lifts an interval to a least value, and the upper bound as far as it lay above the value.
func raise(i *profile.Interval, least float64) {
	if i.Value < least {
		if i.Value > 0 {
			i.High *= least / i.Value
		}
		i.Value, i.High = least, max(i.High, least)
	}
	i.Low = max(i.Low, least)
}

// hold sets the intervals to a one-sided confidence, 0.5 to 0.999; of others, the nearest.
func (p *Prediction) hold(confidence float64) {
	z := stats.NormalQuantile(min(max(confidence, 0.5), 0.999)) / stats.Z90
	for m := range p.value {
		stretch(&p.value[m], z)
	}
	stretch(&p.Slowdown, z)
}

// Widened returns the prediction with the interval of one metric widened by a factor on the logarithmic scale.
func (p Prediction) Widened(m profile.Metric, times float64) Prediction {
	stretch(&p.value[m], times)
	return p
}

// stretch multiplies the logarithms of the bounds over the value.
func stretch(i *profile.Interval, z float64) {
	if i.Value > 0 {
		i.Low, i.High = i.Value*math.Pow(i.Low/i.Value, z), i.Value*math.Pow(i.High/i.Value, z)
	}
}

// widenBy moves the bounds apart by logarithms, the upper one first.
func widenBy(i *profile.Interval, by [2]float64) {
	i.High, i.Low = i.High*math.Exp(by[0]), i.Low*math.Exp(-by[1])
}

// scaled returns an interval in another unit.
func scaled(i profile.Interval, by float64) profile.Interval {
	return profile.Interval{Value: by * i.Value, Low: by * i.Low, High: by * i.High}
}

// evidenceLevel is the basis of a prediction, which decides the width of its intervals.
type evidenceLevel uint8

const (
	// calibrated: all of the group are servers of engines that the models were calibrated on.
	calibrated evidenceLevel = iota
	// responded: the tenant was measured with standard neighbours, and so were the others under MPS.
	responded
	// isolatedOnly: only the tenant's isolated figures are known.
	isolatedOnly
)

// Prediction holds the predicted figures of one tenant of a group.
type Prediction struct {
	Mechanism sharing.Mechanism
	// Calibrated is set if all of the group are servers of engines that the predictor was calibrated on: the intervals are
	// narrower.
	Calibrated bool
	// Basis is BasisFitted for a predictor calibrated on measurements, else BasisPrior; BasisTransferred if those are from
	// another GPU.
	Basis        sharing.Basis
	value        [profile.MetricCount]profile.Interval // the zero Interval where nothing was predicted
	isolatedRate float64                               // steps a second of a tenant that serves no tokens
	// Slowdown is the predicted TPOT over the TPOT of the isolated workload without MPS, if measured, or else of the
	// profile used.
	Slowdown profile.Interval
	// Slices is the number of time slices of a decode step; missing for MPS. OtherSlices is another possible number, which
	// would change the latency by a round: one counted nearly as often with a spinning neighbour, the number that its
	// length implies, or that of a step within 8% of its length.
	Slices, OtherSlices sharing.Optional[int]
	// Notes are the reasons why the intervals are wider than usual.
	Notes []string
}

// Get returns a metric's interval, and whether it was predicted.
func (p *Prediction) Get(m profile.Metric) (profile.Interval, bool) {
	if int(m) >= profile.MetricCount {
		return profile.Interval{}, false
	}
	return p.value[m], p.value[m].Value > 0
}

// All returns an iterator over the predicted metrics, in order.
func (p *Prediction) All() iter.Seq2[profile.Metric, profile.Interval] {
	return func(yield func(profile.Metric, profile.Interval) bool) {
		for m := range profile.Metric(profile.MetricCount) {
			if v, ok := p.Get(m); ok && !yield(m, v) {
				return
			}
		}
	}
}

func (p *Prediction) set(m profile.Metric, value, halfWidth float64) {
	if value > 0 && !math.IsInf(value, 0) {
		p.value[m] = profile.Interval{Value: value, Low: value * math.Exp(-halfWidth), High: value * math.Exp(halfWidth)}
	}
}

// setCoLocated sets a figure, and makes it no better than the isolated one within the uncertainty of that.
func (p *Prediction) setCoLocated(m profile.Metric, value, halfWidth, isolated, unsure float64) {
	rate := m == profile.MetricTokensPerSecond || m == profile.MetricStepsPerSecond
	switch {
	case isolated > 0 && rate:
		value = min(value, isolated)
	case isolated > 0:
		value = max(value, isolated)
	}
	p.set(m, value, halfWidth)
	if i := &p.value[m]; isolated > 0 && rate {
		i.High = min(i.High, max(i.Value, isolated)*math.Exp(unsure))
	} else if isolated > 0 {
		i.Low = max(i.Low, isolated*math.Exp(-unsure))
	}
}

func (p *Prediction) include(m profile.Metric, v float64) {
	if i := &p.value[m]; i.Value > 0 && v > 0 {
		i.Low, i.High = min(i.Low, v), max(i.High, v)
	}
}

// Method selects the way to compute a prediction. "" means MethodSimulated.
type Method string

// The methods.
const (
	// MethodSimulated runs the tenants' engines, client by client and step by step, on a simulated GPU: more accurate, in
	// tens of milliseconds.
	MethodSimulated Method = "simulated"
	// MethodClosedForm averages over the activities of the neighbours (decoding, prefilling, none): explainable, in
	// microseconds.
	MethodClosedForm Method = "closed-form"
)

// maxGroup bounds a group; MPS itself admits 48 clients on driver 580.
const maxGroup = 64

// raise lifts every predicted percentile of a latency to its floor, in seconds.
func (p *Prediction) raise(floor [LatencyCount]float64) {
	for m := range p.All() {
		k := LatencyE2E
		switch m {
		case profile.MetricTPOTP50, profile.MetricTPOTP99:
			k = LatencyTPOT
		case profile.MetricTTFTP50, profile.MetricTTFTP99:
			k = LatencyTTFT
		case profile.MetricTokensPerSecond:
			continue
		}
		raise(&p.value[m], 1e3*floor[k])
	}
}

// tails are percentiles of one latency, the lower first.
var tails = [...][2]profile.Metric{{profile.MetricTTFTP50, profile.MetricTTFTP99},
	{profile.MetricTPOTP50, profile.MetricTPOTP99}, {profile.MetricE2EP50, profile.MetricE2EP90},
	{profile.MetricE2EP90, profile.MetricE2EP99}, {profile.MetricStepP50, profile.MetricStepP99}}
