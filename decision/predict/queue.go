// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"math"

	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/sharing"
)

const together, everybody = len(costs.Priors), -1 // in the place of a quantity, and of a workload

// uneven reports whether a quantity moves the time per output token only in the setting together.
func uneven(q int) bool { return q == costs.LengthSigma || q == costs.Burstiness }

var serviceSigma, otherHost = table.Unmeasured.ServiceSigma.Value, table.Unmeasured.OtherHost.Value

// usualSequences is the most sequences in a batch where they are not stated.
const usualSequences = 64.0

// Of service, over its mean: the P99, and the squared coefficient of variation.
var (
	longService = math.Exp(z99*serviceSigma - serviceSigma*serviceSigma/2)
	serviceCV2  = math.Expm1(serviceSigma * serviceSigma)
)

// The tenants' activities converge in so many rounds at most, or once none changes by more.
const mostRounds, converged = 12, 1e-5

// at widens every figure by its change, so many times, where one quantity is moved as in a setting, for one workload or
// for all.
func (e *evaluation) at(q int, s *setting, workload int, times float64) {
	figuresOnly, moved := q == together || uneven(q), false // gaps and lengths move no activity
	for i := range e.cohorts {
		t := &e.cohorts[i]
		t.in, t.state = medians, t.start
		if figuresOnly {
			t.state = t.usual
		}
		if workload != everybody && workload != t.d.Workload {
			continue
		}
		if t.in = s; !figuresOnly {
			e.prepare(t.d, &t.state, s)
			moved = moved || t.state != t.start
		}
	}
	if moved {
		e.converge()
	}
	for i := range e.cohorts {
		t := &e.cohorts[i]
		if !moved && (!figuresOnly || t.in != s) {
			continue
		}
		var f expected
		e.read(t, q != together, !uneven(q), &f)
		for k := range LatencyCount {
			widen(&t.out.P99[k], t.base.p99[k], f.p99[k], times)
		}
		if moved {
			widen(&t.out.Rate, t.base.rate, f.rate, times)
			widen(&t.out.Busy, t.base.busy, f.busy, times)
		}
	}
}

// converge brings the activities of all into line.
func (e *evaluation) converge() {
	for range mostRounds {
		total, changed := 0.0, false
		for i := range e.cohorts {
			t := &e.cohorts[i]
			total += t.alike * t.state.weight * t.state.active
		}
		for i := range e.cohorts {
			t := &e.cohorts[i].state
			before := t.active
			contention := 1.0
			if !e.isolated() {
				others := max(0, total-t.weight*t.active)
				contention = contended(others, t.switching, min(1, others))
			}
			t.converge(e.cohorts[i].d, contention)
			changed = changed || math.Abs(t.active-before) > converged
		}
		if e.isolated() || !changed {
			break
		}
	}
}

// contended is the factor on GPU work next to others that take so much of the GPU, for a part of the time in slices.
func contended(others, switching, part float64) float64 { return (1 + others) * (1 + switching*part) }

// isolated reports whether tenants cannot disturb one another.
func (e *evaluation) isolated() bool {
	return e.share.Mechanism != sharing.MechanismMPS && e.share.Mechanism != sharing.MechanismTimeSlicing ||
		len(e.tenants) == 1
}

// prepare computes a tenant's activity when isolated on its share.
func (e *evaluation) prepare(d *Tenant, t *state, in *setting) {
	s := &in.Setting
	mps := e.share.Mechanism == sharing.MechanismMPS
	if e.share.Mechanism == sharing.MechanismTimeSlicing {
		t.switching = s[costs.TurnsOverhead]
	}
	slow, active := costs.OnSlice(s[costs.SliceOther], e.share.SMs), s[costs.SMOther]
	if d.Decodes || d.Serving != nil {
		slow, active = math.Pow(1/e.share.Bandwidth, s[costs.SliceDecoding]), s[costs.SMDecoding]
	}
	blocking := 1.0 // share of a neighbour's kernels that its activity delays
	if mps {
		blocking = s[costs.MPSBlocking] * active
	}
	if v := d.Serving; v != nil {
		context := v.Input + v.Output/2
		step := v.Weights/(e.machine.Bandwidth*s[costs.DecodeEfficiency]) + v.Layers*s[costs.StepPerLayer]/1e3
		kv := context * v.KVPerToken / (e.machine.Bandwidth * s[costs.DecodeEfficiency])
		t.stepHost, t.stepGPU = s[costs.HostFraction]*step, (1-s[costs.HostFraction])*step*slow
		t.kvGPU = kv * slow
		if mps {
			t.stepHost += v.Layers * s[costs.MPSStepPerLayer] / 1e3
		}
		floor := v.Layers * s[costs.PrefillPerLayer] / 1e3
		perInput := 2 * v.Parameters / (e.machine.FLOPs * s[costs.PrefillEfficiency])
		compute := costs.PrefillOnSlice(e.share.SMs) * perInput * v.Input
		t.preGPU = max(compute, costs.LaunchBusy*floor)
		t.preHost = max(0, floor-t.preGPU)
		if in == medians {
			t.grows = compute / t.preGPU
		}
		t.load = v.PerS * s[costs.LoadError]
		t.perToken, t.sequences = t.load*v.Output, cmp.Or(v.Sequences, usualSequences)
		t.weight = t.stepGPU / (t.stepGPU + t.stepHost) * blocking
		t.active = min(1, t.load*(t.preHost+t.preGPU+v.Output*(t.stepHost+t.stepGPU)))
		return
	}
	host := 0.0
	if d.Serves() {
		host = cmp.Or(d.Host, otherHost)
	}
	t.stepHost, t.stepGPU = host, (1-host)*slow
	t.load, t.longer = min(0.999, d.Busy*s[costs.BusyError]), s[costs.IsolatedError]
	t.weight = (1 - host) * blocking
	t.active = min(1, t.load*(t.stepHost+t.stepGPU))
}

// converge brings a tenant's activity into line with a contention.
func (t *state) converge(d *Tenant, contention float64) {
	if v := d.Serving; v != nil {
		t.contention = contention
		pre := t.load * (t.preHost + t.preGPU*contention)
		room := 1 - pre - t.perToken*t.kvGPU*contention
		if room <= 0.01 {
			t.batch, t.token, t.active = math.Inf(1), math.Inf(1), 1
			return
		}
		t.token = (t.stepHost + t.stepGPU*contention) / room
		if t.batch = t.perToken * t.token; t.batch > t.sequences {
			t.batch, t.active = math.Inf(1), 1
			return
		}
		t.active = 1 - exp(-t.batch-pre)
		t.busyPeriod = v.Output * t.token
		return
	}
	t.contention = contention
	t.token = t.stepHost + t.stepGPU*t.contention
	if d.Serves() {
		t.active = min(1, t.load*t.token)
	} else {
		t.active = t.load * t.token / (t.load*t.token + 1 - t.load)
	}
}

// read computes a tenant's figures; it may leave out the time per output token, or the other latencies.
func (e *evaluation) read(of *cohort, others, tpot bool, f *expected) {
	d, s, t := of.d, of.in, &of.state
	f.rate, f.busy = 1, t.active
	// The tail sees more of its neighbours active than the mean.
	worst := 1.0
	if !e.isolated() {
		mean, variance, all := 0.0, 0.0, 0.0
		for j := range e.cohorts {
			o, n := &e.cohorts[j].state, e.cohorts[j].alike
			if o == t {
				n--
			}
			mean += n * o.weight * o.active
			all += n * o.weight
			part := 1.0
			if t.busyPeriod > 0 && o.busyPeriod > 0 {
				part = o.busyPeriod / (o.busyPeriod + t.busyPeriod)
			} else if t.busyPeriod > 0 {
				part = 0.15
			}
			some := min(o.active, 0.5) // beyond a half the variance falls, but not the tail's contention
			variance += n * o.weight * o.weight * some * (1 - some) * part
		}
		worst = max(contended(min(all, mean+z99*math.Sqrt(variance)), t.switching, 1), t.contention)
	}
	if v := d.Serving; v != nil {
		l := of.lengths
		if s.lengths != medians.lengths {
			l = s.lengthsOf(v)
		}
		t.serving(v, worst, s, &l, others, tpot, f)
		return
	}
	if !d.Serves() {
		f.rate = 1 / (t.load*(t.stepHost+t.stepGPU*t.contention) + 1 - t.load)
		return
	}
	load := t.load
	if d.Peak > d.Busy {
		load = min(0.999, d.Peak*s.Setting[costs.BusyError])
	}
	f.busy = load * (t.stepHost + t.stepGPU*t.contention)
	if f.busy >= 0.999 {
		for k := range f.p99 {
			if d.Isolated[k] > 0 {
				f.p99[k] = math.Inf(1)
			}
		}
		f.busy = max(f.busy, 1)
		return
	}
	own := t.stepHost + t.stepGPU*t.contention
	tail := t.stepHost + t.stepGPU*worst
	queued := own * tailOf(f.busy, s.gaps)
	grown := (queued + tail - own) / tailOf(load, s.gaps)
	waits := (queued - own*longService) / (queued + tail - own)
	for k, a := range d.Isolated {
		if a == 0 || k == LatencyTPOT && !tpot || k != LatencyTPOT && !others {
			continue
		}
		if a *= t.longer; d.IsolatedSigma[k] > 0 {
			a = d.Isolated[k] * math.Pow(t.longer, d.IsolatedSigma[k]/costs.Priors[costs.IsolatedError].Sigma)
		}
		if f.p99[k], f.waits[k] = a*grown, waits; k == LatencyTPOT {
			f.p99[k], f.waits[k] = a*tail, 0
		}
	}
}

// tailOf is the P99 of a single server's latency over its mean service time: the service's own tail, and an exponential
// wait whose mean is Kingman's formula (J. F. C. Kingman, The single server queue in heavy traffic, Mathematical
// Proceedings of the Cambridge Philosophical Society 57(4), 1961).
func tailOf(busy, cv2 float64) float64 {
	if busy <= 0.01 {
		return longService
	}
	wait := (cv2 + serviceCV2) / 2 / (1 - busy)
	return 1 + math.Hypot(longService-1, wait*math.Log(busy/0.01))
}

// seldom is the part of requests that decides a P99.
const seldom = 0.01

var logSeldom, logMostFollowed = math.Log(seldom), math.Log(0.9)

func (t *state) serving(v *Serving, worst float64, s *setting, l *lengths, others, tpot bool, f *expected) {
	if math.IsInf(t.batch, 1) {
		f.busy = math.Inf(1)
		for k := range f.p99 {
			f.p99[k] = math.Inf(1)
		}
		return
	}
	cv2, pre := s.gaps, t.preHost+t.preGPU*t.contention
	preWorst := t.preHost + t.preGPU*worst
	busy := t.load * pre
	logBusy := math.Log(busy)
	// Time per output token: the batch that it meets, and the prefills of others, which weigh most in short answers.
	batch := t.batch + 1
	deep := batch + 1.5*math.Sqrt(t.batch*cv2)
	step := t.stepHost + t.stepGPU*worst + t.kvGPU*worst*deep
	if tpot {
		f.p99[LatencyTPOT] = step + t.interrupted(v, preWorst, s, l)
		f.waits[LatencyTPOT] = 1 - step/f.p99[LatencyTPOT]
	}
	if !others {
		return
	}
	// Time to first token: other prefills first, then its own, which may be long. Of those that arrive together at least
	// one waits for another.
	ownLong := max(preWorst, t.preGPU*worst*max(1, l.long*t.grows))
	grows := t.grows * t.preGPU * t.contention / pre // part of a prefill
	uneven := l.variation * grows * grows            // squared variation of prefills
	wait := pre * max(0, logSeldom/s.logFollowed(logBusy)-0.5, (cv2+uneven)/2/(1-busy)*(logBusy-logSeldom))
	// A step that is under way ends before a prefill begins.
	rest := (1 - exp(-t.batch)) * (t.stepHost + t.stepGPU*t.contention + t.kvGPU*t.contention*t.batch) / 2
	first := rest + math.Sqrt((ownLong-pre)*(ownLong-pre)+wait*wait) // after a mean prefill
	f.p99[LatencyTTFT] = pre + first
	f.waits[LatencyTTFT], f.long[LatencyTTFT] = wait/f.p99[LatencyTTFT], (ownLong-pre)/f.p99[LatencyTTFT]
	token := (t.stepHost + t.stepGPU*t.contention + t.kvGPU*t.contention*batch) / (1 - busy)
	mean := pre + v.Output*token
	longer := v.Output*l.long*max(token, 0.5*(token+step)) - v.Output*token
	prefills := z99 * preWorst * math.Sqrt((1+uneven)*cv2*(t.batch+busy))
	f.p99[LatencyE2E] = mean + math.Sqrt(longer*longer+first*first+prefills*prefills)
	f.busy = max(busy+t.perToken*t.kvGPU*t.contention, t.batch/max(1, t.sequences))
}

// interrupted returns the time that other requests' prefills add to the P99 of the time per output token. Either those
// during its decoding decide, of which longer answers meet more, or those that queued during its own prefill and follow
// it at once, each with the arrivals of the meantime; one of them is long, or the answer is short. Of so few the
// largest outweighs the rest, as in sums of subexponential variables (P. Embrechts, C. Klueppelberg and T. Mikosch,
// Modelling Extremal Events, section 1.3).
func (t *state) interrupted(v *Serving, preWorst float64, s *setting, l *lengths) float64 {
	cv2, gpu := s.gaps, t.preGPU*t.contention
	free := 1 - t.load*(t.preHost+gpu)
	pre, least, grows := preWorst/free, max(preWorst, gpu)/free, gpu/free*l.typical*t.grows
	others := t.load * pre
	adds := func(typical, prompt, answer float64) float64 {
		short := v.Output * typical * answer
		if short < 2 { // max of the language is slower
			short = 2
		}
		return (max(least, grows*prompt) + others*(short*t.token+pre)) / (short - 1)
	}
	decides := func(met, typical float64) float64 {
		part := min(1, met/seldom) // of a P99 that is decided by those that meet one
		z := l.sigma * math.Sqrt2 * math.Erfinv(1-2*min(0.5, seldom/met))
		half := exp(z * math.Sqrt2 / 2)
		return part * max(adds(typical, 1, exp(-z)), adds(typical, half, 1/half))
	}
	during := decides(t.batch*cv2, 1/l.typical)
	behind := others * (1 + (1-free)*(cv2+l.variation)/2/free)
	// Those behind are mostly met by fewer than a fifth, and then add at most as much as with lengths at their P95s.
	if behind < s.fifth && max(adds(l.typical, 1, l.short95), adds(l.typical, l.half95, 1/l.half95)) < during {
		return during
	}
	return max(during, decides(max(behind*cv2, exp(s.logFollowed(math.Log(behind)))), l.typical))
}

// logFollowed is the logarithm of the probability that a request is followed by another within a time, given the
// logarithm of the mean number that comes in it, where gaps are gamma distributed: the first term of their
// distribution.
func (s *setting) logFollowed(logMean float64) float64 {
	return min(logMostFollowed, (logMean-s.logGaps)*s.perGaps)
}

// expected holds the expected figures of a tenant in a setting.
type expected struct {
	p99   [LatencyCount]float64 // seconds, 0 where not known
	waits [LatencyCount]float64 // the part of each that is waiting for other requests, 0 to 1
	long  [LatencyCount]float64 // the part by which its own prompt exceeds the mean, which adds to waits in squares
	rate  float64
	busy  float64
}

// evaluation computes the figures of the tenants of a GPU.
type evaluation struct {
	machine Machine
	share   Share
	tenants []Tenant
	cohorts []cohort
	stated  bool // some have a stated busy share
}

// cohort holds the figures of tenants that are alike: in the present setting, and at the medians.
type cohort struct {
	d                   *Tenant
	alike               float64 // so many
	first               bool    // of its workload
	state, start, usual state   // start is usual before all are brought into line
	lengths             lengths // of its requests, at the medians
	in                  *setting
	base                expected
	out                 *Estimate
}

// state is a tenant while the activities of all are brought into line.
type state struct {
	stepHost, stepGPU, kvGPU float64 // seconds of a decode step: fixed parts, and for each sequence
	preHost, preGPU          float64
	grows                    float64 // part of the GPU's part of a mean prefill that grows with the prompt
	switching                float64 // fraction of the GPU's time that switching between slices costs
	weight                   float64 // cost of its activity to a neighbour
	active                   float64 // part of the time in which it is active
	busyPeriod               float64 // seconds that it stays so
	contention               float64 // factor on GPU work, mean
	batch, token             float64 // sequences in a batch, seconds a token
	load                     float64 // requests a second, or busy share
	perToken, sequences      float64 // tokens a second, and most in a batch
	longer                   float64 // its isolated latency, over the stated one
}
