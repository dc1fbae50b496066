// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// Tenant is the demand of one replica on a whole GPU in its busiest hour, with its response to neighbours: a model
// server with a load (Serving), a server of another kind (Isolated or Limits, with Busy), or work without latency
// objectives (only Busy). [FromProfile] makes one from measurements, on this or another GPU, or from production
// metrics, and [FromRequests] from a service's published times.
type Tenant struct {
	// From is the basis of its figures: measured, fitted (to production metrics), transferred (from another GPU) or prior.
	From     sharing.Basis
	Solo     *profile.Solo // its profiles on this GPU, whole; nil where not measured
	Serving  *Serving
	Busy     float64               // mean share of time in which it is busy, on the GPU or its host, 0 to 1
	Peak     float64               // the same at its peak, which determines its latencies; 0 = Busy
	Host     float64               // part of that on the host; 0 = the usual part
	Isolated [LatencyCount]float64 // isolated P99 in seconds on the GPU; 0 = not known
	// IsolatedSigma is the uncertainty of Isolated, as the standard deviation of its logarithm; 0 = that of a measurement.
	IsolatedSigma [LatencyCount]float64
	Decodes       bool // a language model's server: bound by bandwidth
	Requests      bool // the work of a request is stated, or published for its kind
	Online        bool // requests arrive at their own rate, even under overload; implied by Serving, Isolated and Limits
	Workload      int  // index of its workload: tenants of one workload have the same errors
	Least         Least
	Takes         profile.Interval // seconds of finite work, isolated on the GPU, at the confidence of the evaluation
	Objectives
}

// Objectives are the limits of a co-located tenant; the zero value has none.
type Objectives struct {
	Limits   [LatencyCount]float64 // of the P99 latencies, in seconds; 0 = none
	SLO      *profile.SLO          // as stated, including limits of medians; may be nil
	Deadline float64               // of finite work, in seconds; 0 = none
}

// Serving is one replica of a model server with continuous batching, in its busiest hour.
type Serving struct {
	PerS          float64 // requests a second
	Input, Output float64 // mean tokens of a request
	Weights       float64 // bytes that a decode step reads
	Parameters    float64 // that one token uses
	KVPerToken    float64 // bytes
	Layers        float64
	Sequences     float64 // most in a batch; 0 = 64
	// LengthSigma is the standard deviation of the logarithm of a request's lengths; 0 = not known: as in public traces.
	LengthSigma float64
	// Slower is the uncertainty by which latencies may exceed those by bytes and operations, as the standard deviation of
	// their logarithm, for example if the GPU has no arithmetic for the weights' format.
	Slower float64
}

// Serves reports whether requests arrive at their own rate, even under overload.
func (d *Tenant) Serves() bool {
	return d.Online || d.Serving != nil || d.Isolated != [LatencyCount]float64{} ||
		d.Limits != [LatencyCount]float64{}
}

// FromProfile returns the tenant of a workload that was measured on GPU from (nil: a simulated one), for GPU to: as
// measured if they are the same, otherwise transferred to the other GPU or, if whole is false, to a part of the same.
// The isolated P99 latencies are those of the profile, 0 if not measured. In a transfer decoding scales with the
// inverse of the bandwidth and prefills with the inverse of the peak rate at the width of the weights (bytes per
// parameter), to powers below 1, since the host's part does not scale; different GPUs add uncertainty. ok is false if
// the bandwidth or the rate of one GPU is not known.
func FromProfile(s *profile.Solo, from, to *sharing.GPU, whole bool, width float64) (d Tenant, ok bool) {
	p := s.Uncontended()
	d = Tenant{From: sharing.BasisMeasured, Busy: p.GPUBusyFraction.Or(0), Decodes: p.Kind == profile.KindServer}
	if p.Fit != nil {
		d.From = sharing.BasisFitted
	}
	for k, v := range [LatencyCount]sharing.Optional[float64]{p.TTFT.P99, p.TPOT.P99, p.E2E.P99} {
		ms, _ := optional.Positive(v)
		d.Isolated[k] = ms / 1e3
	}
	if from == to || from == nil {
		if whole {
			d.Solo = s
		}
		return d, true
	}
	d.From = sharing.BasisTransferred
	here, there := MachineOf(from), MachineOf(to)
	if min(here.Bandwidth, there.Bandwidth, here.FLOPs, there.FLOPs) <= 0 {
		return d, false
	}
	decode, prefill := math.Log(here.Bandwidth/there.Bandwidth), math.Log(here.Rate(width)/there.Rate(width))
	byDecode, byPrefill := costs.Medians[costs.SliceDecoding]*decode, carriedPrefill*prefill
	// TPOT holds prefills of others, and E2E both.
	by := [LatencyCount]float64{byPrefill, max(byDecode, min(byPrefill, 0)), max(byDecode, byPrefill)}
	spread := math.Hypot((1-costs.Medians[costs.SliceDecoding])*decode, (1-carriedPrefill)*prefill)
	for k := range d.Isolated {
		d.Isolated[k] *= math.Exp(by[k])
		d.IsolatedSigma[k] = math.Hypot(spread, transferSigma(from, to))
	}
	return d, true
}

// TimeOn bounds the time on GPU to of work that takes least to most on GPU from (nil: not known), for [Tenant.Takes],
// at a one-sided confidence.
func TimeOn(least, most float64, from, to *sharing.GPU, confidence float64) profile.Interval {
	sigma := costs.Priors[costs.IsolatedError].Sigma
	if from != nil {
		sigma = math.Hypot(sigma, transferSigma(from, to))
	}
	far := math.Exp(sigma * stats.NormalQuantile(confidence))
	return profile.Interval{Value: most, Low: least / far, High: most * far}
}

var carriedPrefill = table.Unmeasured.CarriedPrefill.Value

// The factor of others' prefills, and of the host's work for each sequence, on the P99 time per output token, and the
// part of StepPerLayer that a better server needs: those with CUDA graphs launch less.
var tokenAside, leastCoLocated = table.Unmeasured.TokenAside.Value, table.Unmeasured.LeastCoLocated.Value

// IsolatedToken estimates the isolated P99 time per output token, in seconds, of a model server of known size on gpus
// GPUs; 90% of servers should lie within the bounds. The lower one is a step of a single sequence, which reads the
// weights, least bytes, at the GPU's peak; the upper one reads most bytes, with the whole KV cache, while other
// requests are prefilled. It is zero if the bandwidth is not known. sigma is the standard deviation of its logarithm,
// for [Tenant.IsolatedSigma].
func IsolatedToken(m Machine, least, most, layers float64, gpus int) (b profile.Interval, sigma float64) {
	if m.Bandwidth <= 0 {
		return b, 0
	}
	peak, perLayer := m.Bandwidth*float64(gpus), costs.Priors[costs.StepPerLayer]
	b.Low = least/peak + layers*leastCoLocated*perLayer.Value/1e3
	b.High = tokenAside * (max(least, most)/(peak*costs.Priors[costs.DecodeEfficiency].Shifted(stats.Z90)) +
		layers*perLayer.Shifted(stats.Z90)/1e3)
	b.Value = math.Sqrt(b.Low * b.High)
	if b.Low > 0 {
		sigma = math.Log(b.High/b.Low) / (2 * stats.Z90)
	}
	return b, sigma
}

// z99 is the number of standard deviations above the mean below which 99% of a normal distribution lie.
const z99 = 2.33

// lengths holds the effects of a log-normal distribution of lengths on queues, relative to the mean length.
type lengths struct {
	sigma, typical, long float64 // the sigma of its logarithm, the median, and the P99
	variation            float64 // squared coefficient of variation
	short95, half95      float64 // a short answer, and a long prompt with an answer as much shorter: P95s over medians
}

// lengthsAt returns the effects of lengths with a sigma at the medians, in a setting. The default varies no more than a
// stated one: else fleets with fewer stated figures would take several times the GPUs.
func lengthsAt(sigma float64, s *costs.Setting) lengths {
	q := &costs.Priors[costs.LengthSigma]
	sigma *= math.Pow(s[costs.LengthSigma]/q.Value, statedLengths.Sigma/q.Sigma)
	variance := sigma * sigma
	return lengths{sigma, math.Exp(-variance / 2), math.Exp(z99*sigma - variance/2), math.Expm1(variance),
		math.Exp(-stats.Z90 * sigma), math.Exp(stats.Z90 * sigma / math.Sqrt2)}
}

var statedLengths = table.Unmeasured.StatedLengths
