// Package prospect estimates the latencies of co-located workloads that were not measured: from priors, by closed forms
// of queues ([Prospects]).
//
// Functions may be called concurrently; the same input gives the same output. Experimental: its API may change.
package prospect

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/internal/splitmix"
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
	// LengthSigma is the standard deviation of the logarithm of a request's lengths; 0 = not known, and taken as traces
	// have it.
	LengthSigma float64
}

// lengths returns LengthSigma in a setting. What nobody states varies no more than what is stated: else fleets that say
// less of their requests would take several times the GPUs.
func (v *Serving) lengths(s *costs.Setting) float64 {
	q := &costs.Priors[costs.LengthSigma]
	sigma := q.Value
	if v != nil && v.LengthSigma > 0 {
		sigma = v.LengthSigma
	}
	return sigma * math.Pow(s[costs.LengthSigma]/q.Value, statedLengths.Sigma/q.Sigma)
}

var statedLengths = costs.Table.Unmeasured.StatedLengths

// Converted is Tenant.Slower where weights are converted on the way.
var Converted = costs.Table.Unmeasured.ConvertedWeights.Sigma

// Tenant holds the facts about one replica on a whole GPU, at its busiest hour. It is a model server with a load
// (Serving), a server of another kind (Alone or Limits, with Busy), or work without latency objectives (Busy alone).
type Tenant struct {
	Serving *Serving
	Busy    float64                     // mean share of the time that it is busy, on the GPU or its host, 0 to 1
	Peak    float64                     // the same at its busiest, at which its own latencies count; 0 = Busy
	Host    float64                     // part of that on the host; 0 = as usual
	Alone   [costs.LatencyCount]float64 // P99 in seconds alone on the GPU; 0 = not known
	Limits  [costs.LatencyCount]float64 // objectives in seconds; 0 = none
	// AloneSigma is the uncertainty of Alone, as the standard deviation of its logarithm; 0 = as a measurement is.
	AloneSigma [costs.LatencyCount]float64
	// Slower is the standard deviation of the logarithm by which a model server's latencies may be longer than its bytes
	// and operations tell, such as where the GPU has no arithmetic for the numbers of its weights.
	Slower   float64
	Decodes  bool // a language model's server: bound by bandwidth
	Requests bool // what a request takes is stated, or published of its kind
	Online   bool // requests arrive whether it keeps up or not; implied by Serving, Alone and Limits
	Workload int  // tenants of the same workload err alike
	Least    costs.Least
}

// Serves reports whether requests arrive whether it keeps up or not.
func (d *Tenant) Serves() bool {
	return d.Online || d.Serving != nil || d.Alone != [costs.LatencyCount]float64{} ||
		d.Limits != [costs.LatencyCount]float64{}
}

// Prospect holds the figures that a tenant will see: the median of each figure and the bounds
// between which it lies at the confidence asked for.
type Prospect struct {
	P99   [costs.LatencyCount]Bounds // seconds; zero where not known
	Rate  Bounds                     // part of its rate alone, work without latency objectives
	Busy  Bounds                     // utilization of its part of the GPU; 1 or more: it cannot keep up
	Known [costs.LatencyCount]bool
	Floor [costs.LatencyCount]float64 // least seconds of each latency there, see [costs.Machine.Floor]
}

// Bounds is a figure with its one-sided bounds.
type Bounds struct{ Value, Low, High float64 }

// held ranges over the figures that are held against an objective, with what each may be at most: the latencies that
// are limited, and how busy a server is, which must keep up. Other work has no objective. Of what is not known the
// bounds are 0 and infinity.
func (o *Prospect) held(d *Tenant, see func(b Bounds, most float64)) {
	for k, limit := range d.Limits {
		if limit > 0 && o.Known[k] {
			see(o.P99[k], limit)
		} else if limit > 0 {
			see(Bounds{Value: math.Inf(1), High: math.Inf(1)}, limit)
		}
	}
	if d.Serves() {
		see(o.Busy, math.Nextafter(1, 0))
	}
}

// Kept says of each objective whether it is kept at the confidence asked for, missed at that confidence, or neither.
func (o *Prospect) Kept(d *Tenant) sharing.Answer {
	answer := sharing.AnswerYes
	o.held(d, func(b Bounds, most float64) {
		if b.Low > most {
			answer = sharing.AnswerNo
		} else if !(b.High <= most) && answer == sharing.AnswerYes {
			answer = sharing.AnswerUnknown
		}
	})
	return answer
}

// Likely says whether every objective is kept in the median.
func (o *Prospect) Likely(d *Tenant) bool {
	likely := true
	o.held(d, func(b Bounds, most float64) { likely = likely && b.Value <= most })
	return likely
}

// formError is the standard deviation of the logarithm by which the closed forms miss an event simulation of as many
// requests as a P99 is judged by.
var formError = [costs.LatencyCount]float64{0.18, 0.3, 0.18}

// moves are the settings in which one quantity lies to the good and to the bad side of its median: those of tenants as
// far as a confidence goes, since queues, and room on a slice, answer more than in proportion. In the last, together,
// lengths and gaps of requests are moved as far each. They make the time per output token long, where a short answer
// waits for a long prompt that came behind it, so that there what each does alone cannot be added in squares (the
// design point of the first-order reliability method where they matter alike, A. M. Hasofer and N. C. Lind, Journal of
// the Engineering Mechanics Division 100, 1974).
type moves struct {
	confidence, z float64
	to            [together + 1][2]costs.Setting
}

const together, everybody = len(costs.Priors), -1 // in the place of a quantity, and of a workload

// uneven says that a quantity does to the time per output token what moves do together.
func uneven(q int) bool { return q == costs.LengthSigma || q == costs.Burstiness }

var movesKept [64]atomic.Pointer[moves] // half a megabyte; without a lock that all cores would wait for

func movesAt(confidence float64) *moves {
	slot := &movesKept[math.Float64bits(confidence)*splitmix.Gamma>>58] // Fibonacci hashing
	if m := slot.Load(); m != nil && m.confidence == confidence {
		return m
	}
	m := &moves{confidence: confidence, z: distuv.UnitNormal.Quantile(confidence)}
	for side, far := range [2]float64{-1, 1} {
		both := costs.Medians
		for q, c := range costs.Priors {
			s := costs.Medians
			if s[q] = c.Shifted(far); c.PerTenant {
				s[q] = c.Shifted(far * m.z)
			}
			if m.to[q][side] = s; uneven(q) {
				both[q] = c.Shifted(far * m.z / math.Sqrt2)
			}
		}
		m.to[together][side] = both
	}
	slot.Store(m)
	return m
}

// Prospects computes what each of the tenants of one GPU or slice will see, at a one-sided confidence (0.5 to 0.999).
// Quantities that nobody measured are moved to both sides one after another, and what each does to a figure is added in
// squares. out is reused where it is large enough.
func Prospects(m costs.Machine, share costs.Share, tenants []Tenant, confidence float64, out []Prospect) []Prospect {
	out = append(out[:0], make([]Prospect, len(tenants))...)
	to := movesAt(confidence)
	e := evaluation{machine: m, share: share, tenants: tenants, seats: make([]seat, 0, len(tenants))}
	for i := range tenants {
		d := &tenants[i]
		n := len(e.seats)
		if i > 0 && *d == tenants[i-1] {
			e.seats[n-1].alike++
			continue
		}
		first := !slices.ContainsFunc(tenants[:i], func(o Tenant) bool { return o.Workload == d.Workload })
		e.seats = append(e.seats, seat{d: d, alike: 1, first: first, in: &costs.Medians, out: &out[i],
			lengths: lengthsAt(d.Serving.lengths(&costs.Medians))})
		e.prepare(d, &e.seats[n].start, &costs.Medians)
		e.seats[n].state = e.seats[n].start
	}
	e.settle()
	for i := range e.seats {
		t := &e.seats[i]
		t.usual, t.base = t.state, e.read(t, true)
		for k := range costs.LatencyCount {
			t.out.Known[k] = t.base.known[k]
			t.out.P99[k] = Bounds{Value: t.base.p99[k]}
			if len(tenants) > 1 || share.SMs < 1 || t.d.Serving != nil { // else it was measured just so
				t.out.P99[k].Low = to.z * formError[k] * to.z * formError[k]
				t.out.P99[k].High = t.out.P99[k].Low + to.z*t.d.Slower*to.z*t.d.Slower
			}
		}
		t.out.Rate, t.out.Busy = Bounds{Value: t.base.rate}, Bounds{Value: t.base.busy}
	}
	for q := range to.to {
		one := q == together || costs.Priors[q].PerTenant
		for side := range to.to[q] {
			for i := range e.seats {
				if one && e.seats[i].first {
					e.at(q, &to.to[q][side], e.seats[i].d.Workload)
					e.widen(q, 1)
				} else if !one && i == 0 {
					e.at(q, &to.to[q][side], everybody)
					e.widen(q, to.z)
				}
			}
		}
	}
	for i := range e.seats {
		t := &e.seats[i]
		for k := range costs.LatencyCount {
			b := &t.out.P99[k]
			b.close()
			if alone := t.d.Alone[k]; alone > 0 && t.base.known[k] { // neighbours make nothing faster
				sigma := cmp.Or(t.d.AloneSigma[k], costs.Priors[costs.AloneError].Sigma)
				b.Low = max(b.Low, alone*math.Exp(-to.z*sigma))
			}
			if n := e.unmeasured(t); n > 0 {
				b.High = max(b.High, b.Value/t.usual.crowd*(1+(besideUnmeasured-1)*n))
			}
		}
		t.out.Rate.close()
		t.out.Busy.close()
		t.out.raise(t.d, m.Floor(share, t.d.Least))
	}
	for i := 1; i < len(out); i++ {
		if tenants[i] == tenants[i-1] {
			out[i] = out[i-1]
		}
	}
	return out
}

// besideUnmeasured is the largest growth factor of a P99 co-located with one tenant that is always busy with unmeasured
// kernels: 3.1, 2.95, 4.0 and 2.45 times the isolated one with trainings and saturating kernels on an H200
// (cotenant-h200-tenants).
const besideUnmeasured = 4

// unmeasured is the part of the time in which a server's neighbours run kernels of which nothing is known: all but
// those of language models and of services that state what a request takes.
func (e *evaluation) unmeasured(of *seat) (part float64) {
	if e.alone() {
		return 0
	}
	for i := range e.seats {
		t := &e.seats[i]
		n := t.alike
		if t == of {
			n--
		}
		if t.d.Serving == nil && !t.d.Decodes && !t.d.Requests {
			part += n * t.d.Busy
		}
	}
	return min(1, part)
}

// widen widens every figure by what is seen where a quantity was moved.
func (e *evaluation) widen(q int, times float64) {
	for i := range e.seats {
		t := &e.seats[i]
		for k := range costs.LatencyCount {
			if tpot := k == costs.LatencyTPOT; tpot && !uneven(q) || !tpot && q != together {
				widen(&t.out.P99[k], t.base.p99[k], t.seen.p99[k], times)
			}
		}
		widen(&t.out.Rate, t.base.rate, t.seen.rate, times)
		widen(&t.out.Busy, t.base.busy, t.seen.busy, times)
	}
}

// widen adds the square of a change's logarithm on the side on which it lies.
func widen(b *Bounds, base, moved, times float64) {
	if base <= 0 || moved <= 0 || base == moved || math.IsInf(base, 1) {
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
	seats   []seat
}

// seat holds what is seen by tenants that are alike: in the present setting, and at the medians.
type seat struct {
	d                   *Tenant
	alike               float64 // so many
	first               bool    // of its workload
	state, start, usual state   // start is usual before all are brought into line
	lengths             lengths // of its requests, at the medians
	in                  *costs.Setting
	seen, base          foreseen
	out                 *Prospect
}

// state is a tenant while the activities of all are brought into line.
type state struct {
	stepHost, stepGPU, kvGPU float64 // seconds of a decode step: fixed parts, and for each sequence
	preHost, preGPU          float64
	slowPrefill              float64 // factor of computing prompts on the share
	grows                    float64 // part of the GPU's part of a mean prefill that grows with the prompt
	turns                    float64 // fraction of the GPU's time that taking turns costs
	blocking                 float64 // share of a neighbour's kernels that its activity delays under MPS
	weight                   float64 // what its activity costs a neighbour
	active                   float64 // part of the time in which it is active
	episode                  float64 // seconds that it stays so
	crowd                    float64 // factor on GPU work, mean
	batch, token             float64 // sequences in a batch, seconds a token
	load                     float64 // requests a second, or busy share
	longer                   float64 // its latency alone, over the stated one
}

// Scale multiplies the figure and its bounds.
func (b *Bounds) Scale(f float64) { b.Value, b.Low, b.High = f*b.Value, f*b.Low, f*b.High }
