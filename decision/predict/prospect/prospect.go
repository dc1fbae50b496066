// Package prospect says what workloads will see beside others where nobody measured them, from priors: by closed forms
// of queues ([Prospects]), and by playing the tenants request by request ([Simulate]).
//
// Functions may be called concurrently; the same input gives the same output. Experimental: its API may change.
package prospect

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
	"gonum.org/v1/gonum/stat/distuv"
)

// Serving is one replica of a model server with continuous batching, at its busiest hour.
type Serving struct {
	PerS          float64 // requests a second
	Input, Output float64 // mean tokens of a request
	Weights       float64 // bytes that a decode step reads
	Parameters    float64 // that one token uses
	KVPerToken    float64 // bytes
	Layers        float64
	Sequences     float64 // most in a batch; 0 = 64
	// LengthSigma is the standard deviation of the logarithm of a request's lengths; 0 = not known.
	LengthSigma float64
}

// lengths returns LengthSigma in a setting, by which stated lengths vary less than others do.
func (v *Serving) lengths(s *costs.Setting) float64 {
	if v == nil || v.LengthSigma == 0 {
		return s[costs.LengthSigma]
	}
	q := &costs.Priors[costs.LengthSigma]
	return v.LengthSigma * math.Pow(s[costs.LengthSigma]/q.Value, statedLengths.Sigma/q.Sigma)
}

var statedLengths = costs.Named("stated_lengths")

// Tenant holds the facts about one replica on a whole GPU, at its busiest hour. It is a model server with a load
// (Serving), a server of another kind (Alone or Limits, with Busy), or work without latency objectives (Busy alone).
type Tenant struct {
	Serving *Serving
	Busy    float64                     // share of the GPU's time that it keeps busy, 0 to 1
	Alone   [costs.LatencyCount]float64 // P99 in seconds alone on the GPU; 0 = not known
	Limits  [costs.LatencyCount]float64 // objectives in seconds; 0 = none
	// AloneSigma is the uncertainty of Alone, as the standard deviation of its logarithm; 0 = as a measurement is.
	AloneSigma [costs.LatencyCount]float64
	Decodes    bool // a language model's server: bound by bandwidth
	Online     bool // requests arrive whether it keeps up or not; implied by Serving, Alone and Limits
	Workload   int  // tenants of the same workload err alike
	Least      costs.Least
}

// online says whether requests arrive whether it keeps up or not.
func (d *Tenant) online() bool {
	return d.Online || d.Serving != nil || d.Alone != [costs.LatencyCount]float64{} ||
		d.Limits != [costs.LatencyCount]float64{}
}

// BusiestUnbounded is the utilization up to which a server may keep its share of a GPU that has no latency
// objective: at 0.8 the mean wait of a queue with random arrivals is four service times, and from there on it grows
// without measure.
const BusiestUnbounded = 0.8

// KeepsRate is the part of its rate alone that work without latency objectives
// must keep beside others: with less, sharing only delays it.
const KeepsRate = 0.8

// Prospect holds the figures that a tenant will see: the median of each figure and the bounds
// between which it lies at the confidence asked for.
type Prospect struct {
	P99       [costs.LatencyCount]Bounds // seconds; zero where not known
	Rate      Bounds                     // part of its rate alone, work without latency objectives
	Busy      Bounds                     // utilization of its part of the GPU; 1 or more: it cannot keep up
	Known     [costs.LatencyCount]bool
	Floor     [costs.LatencyCount]float64 // least seconds of each latency there, see [costs.Machine.Floor]
	Simulated bool                        // the tenants were played request by request

	uneven float64 // what bursts of uneven requests add to the logarithm of the bound of TPOT, by closed forms
}

// Bounds is a figure with its one-sided bounds.
type Bounds struct{ Value, Low, High float64 }

// Kept says of each objective whether it is kept at the confidence asked for, missed at that confidence, or neither.
func (o *Prospect) Kept(d *Tenant) sharing.Answer {
	answer := sharing.AnswerYes
	see := func(good, bad bool) {
		switch {
		case bad:
			answer = sharing.AnswerNo
		case !good && answer == sharing.AnswerYes:
			answer = sharing.AnswerUnknown
		}
	}
	for k, limit := range d.Limits {
		if limit > 0 {
			see(o.Known[k] && o.P99[k].High <= limit, o.Known[k] && o.P99[k].Low > limit)
		}
	}
	if d.online() {
		ceiling := 1.0
		if d.Limits == [costs.LatencyCount]float64{} {
			ceiling = BusiestUnbounded
		}
		see(o.Busy.High < ceiling, o.Busy.Low >= ceiling)
	} else {
		see(o.Rate.Low >= KeepsRate, o.Rate.High < KeepsRate)
	}
	return answer
}

// Worsen takes over from what another replica sees in which it fares worse.
func (o *Prospect) Worsen(by *Prospect) {
	for k := range o.P99 {
		if by.P99[k].High > o.P99[k].High {
			o.P99[k] = by.P99[k]
		}
	}
	if by.Rate.Low < o.Rate.Low {
		o.Rate = by.Rate
	}
	if by.Busy.High > o.Busy.High {
		o.Busy = by.Busy
	}
}

// Likely says whether every objective is kept in the median.
func (o *Prospect) Likely(d *Tenant) bool {
	median := *o
	for k := range median.P99 {
		median.P99[k].Low, median.P99[k].High = median.P99[k].Value, median.P99[k].Value
	}
	median.Rate.Low, median.Rate.High = o.Rate.Value, o.Rate.Value
	median.Busy.Low, median.Busy.High = o.Busy.Value, o.Busy.Value
	return median.Kept(d) == sharing.AnswerYes
}

// Odds is the probability that every objective is kept, 0 to 1, where the bounds were computed at a confidence: the
// least of the objectives' own, each figure log-normal about its median.
func (o *Prospect) Odds(d *Tenant, confidence float64) float64 {
	z := distuv.UnitNormal.Quantile(confidence)
	odds := 1.0
	below := func(b Bounds, limit float64) { // that a figure is at most its limit
		switch {
		case limit <= 0:
		case math.IsInf(b.Value, 1):
			odds = 0
		case b.High > b.Value && z > 0:
			odds = min(odds, distuv.UnitNormal.CDF(z*math.Log(limit/b.Value)/math.Log(b.High/b.Value)))
		case b.Value > limit:
			odds = 0
		}
	}
	for k, limit := range d.Limits {
		if limit > 0 && o.Known[k] {
			below(o.P99[k], limit)
		}
	}
	if d.online() {
		ceiling := 1.0
		if d.Limits == [costs.LatencyCount]float64{} {
			ceiling = BusiestUnbounded
		}
		below(o.Busy, ceiling)
	} else if o.Rate.Low > 0 {
		below(Bounds{1 / o.Rate.Value, 1 / o.Rate.High, 1 / o.Rate.Low}, 1/KeepsRate)
	}
	return odds
}

// formError is the standard deviation of the logarithm by which the closed forms miss the event simulation of as many
// requests as a P99 is judged by; bursts of uneven requests make it larger at the bounds of the time per output token.
var formError = [costs.LatencyCount]float64{0.18, 0.3, 0.18}

// unevenAt returns the setting at a distance in which lengths and gaps of requests are moved as far each. Together they
// make the time per output token long, where a short answer waits for a long prompt that came behind it, so that there
// what each does alone cannot be added in squares (the design point of the first-order reliability method where they
// matter alike, A. M. Hasofer and N. C. Lind, Journal of the Engineering Mechanics Division 100, 1974).
func unevenAt(far float64) costs.Setting {
	s := costs.Medians
	for _, q := range [...]int{costs.LengthSigma, costs.Burstiness} {
		s[q] = costs.Priors[q].Shifted(far / math.Sqrt2)
	}
	return s
}

// Prospects computes what each of the tenants of one GPU or slice will see, at a one-sided confidence (0.5 to 0.999).
// Quantities that nobody measured are moved to both sides one after another, those of tenants as far as the confidence
// goes since queues answer more than in proportion, and what each does to a figure is added in squares. out is reused
// where it is large enough.
func Prospects(m costs.Machine, share costs.Share, tenants []Tenant, confidence float64, out []Prospect) []Prospect {
	out = append(out[:0], make([]Prospect, len(tenants))...)
	z := distuv.UnitNormal.Quantile(confidence)
	e := evaluation{machine: m, share: share, tenants: tenants, states: make([]state, len(tenants)),
		again: make([]bool, len(tenants))}
	for i := 1; i < len(tenants); i++ {
		e.again[i] = tenants[i] == tenants[i-1]
	}
	base, moved := make([]foreseen, len(tenants)), make([]foreseen, len(tenants))
	e.at(costs.Medians, costs.Medians, 0, base)
	for i := range tenants {
		b := &base[i]
		o := &out[i]
		for k := range costs.LatencyCount {
			o.Known[k] = b.known[k]
			o.P99[k] = Bounds{Value: b.p99[k]}
			if len(tenants) > 1 || share.SMs < 1 || tenants[i].Serving != nil { // else it was measured just so
				o.P99[k].Low = z * formError[k] * z * formError[k]
				o.P99[k].High = o.P99[k].Low
			}
		}
		o.Rate, o.Busy = Bounds{Value: b.rate}, Bounds{Value: b.busy}
	}
	for q := range costs.Priors {
		if !e.matters(q) {
			continue
		}
		far := 1.0
		if costs.Priors[q].PerTenant { // queues, and room on a slice, answer more than in proportion
			far = z
		}
		for _, side := range [2]float64{-far, far} {
			s := costs.Medians
			s[q] = costs.Priors[q].Shifted(side)
			if s[q] == costs.Medians[q] {
				continue
			}
			if !costs.Priors[q].PerTenant {
				widenAll(base, e.at(s, s, 0, moved), out, z/far, costs.LatencyCount)
				continue
			}
			besides := costs.LatencyCount
			if q == costs.LengthSigma || q == costs.Burstiness {
				besides = costs.LatencyTPOT
			}
			for i := range tenants {
				if slices.ContainsFunc(tenants[:i], func(d Tenant) bool { return d.Workload == tenants[i].Workload }) {
					continue
				}
				widenAll(base, e.at(costs.Medians, s, tenants[i].Workload, moved), out, z/far, besides)
				if q != costs.LengthSigma || tenants[i].Serving == nil {
					continue
				}
				e.at(costs.Medians, unevenAt(side), tenants[i].Workload, moved)
				for k := range out {
					was, is := base[k].p99[costs.LatencyTPOT], moved[k].p99[costs.LatencyTPOT]
					widen(&out[k].P99[costs.LatencyTPOT], was, is, 1)
					if tenants[k].Workload == tenants[i].Workload && side > 0 {
						out[k].uneven = math.Log(is / was)
					}
				}
			}
		}
	}
	for i := range out {
		o := &out[i]
		for k := range costs.LatencyCount {
			o.P99[k].close()
		}
		o.Rate.close()
		o.Busy.close()
		o.raise(&tenants[i], m.Floor(share, tenants[i].Least))
	}
	return out
}

// widenAll widens every figure but a latency.
func widenAll(base, moved []foreseen, out []Prospect, times float64, besides int) {
	for i := range out {
		b, v, o := &base[i], &moved[i], &out[i]
		for k := range costs.LatencyCount {
			if k != besides {
				widen(&o.P99[k], b.p99[k], v.p99[k], times)
			}
		}
		widen(&o.Rate, b.rate, v.rate, times)
		widen(&o.Busy, b.busy, v.busy, times)
	}
}

// widen adds the square of a change's logarithm on the side on which it lies.
func widen(b *Bounds, base, moved, times float64) {
	if base <= 0 || moved <= 0 || math.IsInf(base, 1) {
		return
	}
	d := times * math.Log(moved/base)
	if d > 0 {
		b.High += d * d
	} else {
		b.Low += d * d
	}
}

// close turns sums of squares into bounds.
func (b *Bounds) close() {
	b.Low, b.High = b.Value*math.Exp(-math.Sqrt(b.Low)), b.Value*math.Exp(math.Sqrt(b.High))
	if math.IsInf(b.Value, 1) {
		b.Low = b.Value
	}
}

type foreseen struct {
	p99   [costs.LatencyCount]float64
	known [costs.LatencyCount]bool
	rate  float64
	busy  float64
}

// evaluation computes the foreseen of the tenants of a GPU.
type evaluation struct {
	machine costs.Machine
	share   costs.Share
	tenants []Tenant
	states  []state
	again   []bool         // by tenant: it is as the one before it
	uneven  *costs.Setting // of lengths and gaps of requests that are played; nil = medians
}

// state is a tenant while the activities of all are brought into line.
type state struct {
	stepHost, stepGPU, kvGPU float64 // seconds of a decode step: fixed parts, and for each sequence
	preHost, preGPU          float64
	perInput, preFloor       float64 // seconds of the GPU for a token of the prompt; of a prefill at least
	slowPrefill              float64 // factor of computing prompts on the share
	blocking                 float64 // share of a neighbour's kernels that its activity delays under MPS
	weight                   float64 // what its activity costs a neighbour
	active                   float64 // part of the time in which it is active
	episode                  float64 // seconds that it stays so
	crowd                    float64 // factor on GPU work, mean
	batch, token             float64 // sequences in a batch, seconds a token
	load                     float64 // requests a second, or busy share
}

func (e *evaluation) matters(q int) bool {
	serving, other, decodes := false, false, false
	for i := range e.tenants {
		serving = serving || e.tenants[i].Serving != nil
		other = other || e.tenants[i].Serving == nil
		decodes = decodes || e.tenants[i].Decodes || e.tenants[i].Serving != nil
	}
	crowd := len(e.tenants) > 1
	sliced := e.share.SMs < 1
	mps := e.share.Mechanism == sharing.MechanismMPS
	switch q {
	case costs.DecodeEfficiency, costs.StepPerLayer, costs.PrefillPerLayer, costs.PrefillEfficiency, costs.HostFraction,
		costs.LoadError, costs.LengthSigma:
		return serving
	case costs.SMDecoding:
		return mps && crowd && decodes
	case costs.SMOther:
		return mps && crowd && other
	case costs.SliceDecoding:
		return sliced && decodes
	case costs.SliceOther:
		return sliced
	case costs.TurnsOverhead:
		return crowd && !mps
	case costs.MPSStepPerLayer:
		return mps && serving
	case costs.MPSBlocking:
		return mps && crowd
	case costs.BusyError, costs.AloneError:
		return other
	}
	return true
}
