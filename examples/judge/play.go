package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

// way is how the tenants of a GPU share it.
type way struct {
	mechanism sharing.Mechanism
	slices    []slice // MIG: by tenant
}

// seen is what a tenant saw: its P99s in seconds (+Inf where it could not keep
// up, 0 where the metric does not exist).
type seen struct {
	p99       [3]float64
	rate      float64 // part of its rate alone, of work that no requests drive
	saturated bool
}

// keepsRate is the part of its rate alone that work without objectives must
// keep: with less, sharing only puts it off.
const keepsRate = 0.8

// missed says whether an objective was missed: a limit, or a load that could
// not be served.
func (t *tenant) missed(s seen) bool {
	if s.saturated || t.rate == 0 && s.rate < keepsRate {
		return true
	}
	for k, limit := range t.slo {
		if limit > 0 && s.p99[k] > limit {
			return true
		}
	}
	return false
}

const (
	requestsPlayed = 700
	longestPlay    = 3600.0 // seconds
	mostWaiting    = 400
	lengthSigma    = 0.6 // of the logarithm of a request's lengths: coefficients of variation 0.65 (out) and 1 (in) in the Azure 2023 conversation trace
)

type request struct {
	at, first, mark float64 // arrival, first token, token count at which it is done
	in, out         float64
}

// fate is the random numbers of a workload's requests in a world, drawn once
// and used again in every play.
type fate struct{ gaps, in, out, work, thought [fates]float64 }

const fates = 2048

// fateOf draws the fate of a tenant's requests: gaps of mean 1, lengths and work
// over their means.
func fateOf(rng *rand.Rand, t *tenant) *fate {
	f := &fate{}
	k := 1 / (t.cv * t.cv)
	lengthOf := func() float64 { return math.Exp(lengthSigma*rng.NormFloat64() - lengthSigma*lengthSigma/2) }
	for i := range fates {
		switch {
		case t.llm != nil:
			f.gaps[i], f.in[i], f.out[i] = gamma(rng, k)/k, lengthOf(), lengthOf()
		case t.rate > 0:
			f.gaps[i], f.work[i] = gamma(rng, k)/k, math.Exp(0.3*rng.NormFloat64()-0.045)
		default:
			f.thought[i] = rng.ExpFloat64()
		}
	}
	return f
}

// runner is a tenant while it is played.
type runner struct {
	*tenant
	fate    *fate
	at      int     // in its fate
	slow    float64 // factor on GPU work of its slice, in prefills too
	slowPre float64
	next    float64 // next arrival, +Inf when it waits for an answer
	waiting []request
	running []request
	prefill float64 // part of a prefill that is left, 1 to 0; 0 = none
	ticks   float64 // decode steps done
	samples [3][]float64
	mps     bool
	done    int
	stuck   bool

	// Of what it does now, until it arrives or finishes: see refresh.
	on        bool
	host, gpu float64 // seconds of a unit; the GPU's with the slice's factor
	weight    float64 // what it costs its neighbours
	mark      float64 // units or steps at which something happens
}

func (r *runner) active() bool {
	return r.prefill > 0 || len(r.running) > 0 || r.llm == nil && len(r.waiting) > 0
}

// refresh works out what the runner does from now on.
func (r *runner) refresh(blocking float64) {
	r.on, r.weight = r.active(), 0
	if !r.on {
		return
	}
	host, gpu := r.unit()
	r.weight = gpu / (host + gpu)
	if r.mps {
		r.weight *= blocking * r.sm
	}
	slow := r.slow
	if r.prefill > 0 {
		slow = r.slowPre
	}
	r.host, r.gpu = host, gpu*slow
	if r.prefill == 0 && r.llm != nil {
		r.mark = math.Inf(1)
		for i := range r.running {
			r.mark = min(r.mark, r.running[i].mark)
		}
	}
}

// unit is the host's and the GPU's part of what the runner does now, on a whole
// GPU of its own: one decode step, or a whole prefill or request.
func (r *runner) unit() (host, gpu float64) {
	e := r.llm
	if e == nil {
		return r.tenant.host, r.service
	}
	if r.prefill > 0 {
		q := &r.waiting[0]
		gpu = max(e.perIn*q.in, 0.4*e.prefillFloor)
		return max(0, e.prefillFloor-gpu) + 1e-6, gpu
	}
	context := e.input + e.output/2
	step := (e.weights+float64(len(r.running))*context*e.kvToken)/e.bandwidth + e.perStep
	host = e.host * step
	if r.mps {
		host += e.mpsStep
	}
	return host, (1 - e.host) * step
}

// gap draws the time to the next request: gamma with the tenant's variation.
func (r *runner) gap() float64 {
	r.at = (r.at + 1) % fates
	if r.rate == 0 {
		return r.think * r.fate.thought[r.at]
	}
	return r.fate.gaps[r.at] / r.rate
}

// gamma draws from a gamma distribution of shape k and scale 1 (Marsaglia and Tsang).
func gamma(rng *rand.Rand, k float64) float64 {
	if k < 1 {
		return gamma(rng, k+1) * math.Pow(rng.Float64(), 1/k)
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(rng.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// play runs the tenants of one GPU event by event and tells what each saw.
// overhead is what taking turns costs, blocking what MPS makes of a neighbour's
// SM activity.
func play(tenants []*tenant, how way, w *world) []seen {
	overhead, blocking := w.fleet["turns_overhead"], w.fleet["mps_blocking"]
	for len(w.runners) < len(tenants) {
		w.runners = append(w.runners, &runner{})
	}
	rs := w.runners[:len(tenants)]
	horizon := 0.0
	for i, t := range tenants {
		r := rs[i]
		if w.fates[t.workload] == nil {
			w.fates[t.workload] = fateOf(rand.New(rand.NewPCG(w.seed, uint64(t.workload))), t)
		}
		*r = runner{tenant: t, fate: w.fates[t.workload], at: i * (fates/8 - 1) % fates, slow: 1, slowPre: 1, mps: how.mechanism == sharing.MechanismMPS,
			waiting: r.waiting[:0], running: r.running[:0], samples: r.samples}
		for k := range r.samples {
			r.samples[k] = r.samples[k][:0]
		}
		if how.slices != nil {
			r.slow, r.slowPre = t.slowBy.slowdown(how.slices[i]), sliceLaw{exponent: t.slowBy.prefill}.slowdown(how.slices[i])
		}
		r.next = r.gap()
		r.refresh(blocking)
		if t.rate > 0 {
			horizon = max(horizon, requestsPlayed/t.rate)
		}
	}
	horizon = min(max(horizon, 60), longestPlay)
	units := make([]float64, len(rs))
	for now, events := 0.0, 0; now < horizon && events < 400_000; events++ {
		total := 0.0
		for _, r := range rs {
			total += r.weight
		}
		step, who, arrives := math.Inf(1), -1, false
		for i, r := range rs {
			if r.next-now < step {
				step, who, arrives = max(0, r.next-now), i, true
			}
			if !r.on {
				continue
			}
			crowd := 1.0
			if others := total - r.weight; how.slices == nil && others > 0 {
				crowd += others
				if how.mechanism != sharing.MechanismMPS {
					crowd *= 1 + overhead
				}
			}
			units[i] = r.host + r.gpu*crowd // seconds
			if left := units[i] * r.left(); left < step {
				step, who, arrives = left, i, false
			}
		}
		if who < 0 {
			break
		}
		now += step
		for i, r := range rs {
			if r.on {
				r.advance(step / units[i])
			}
		}
		r := rs[who]
		if arrives {
			r.arrive(now)
		} else {
			r.finish(now)
		}
		r.refresh(blocking)
		if r.stuck && allStuck(rs) {
			break
		}
	}
	out := make([]seen, len(rs))
	for i, r := range rs {
		out[i] = r.seen()
	}
	return out
}

func allStuck(rs []*runner) bool {
	for _, r := range rs {
		if r.rate > 0 && !r.stuck {
			return false
		}
	}
	return slices.ContainsFunc(rs, func(r *runner) bool { return r.stuck })
}

// left is how many units are left until something happens to the runner.
func (r *runner) left() float64 {
	if r.prefill > 0 {
		return r.prefill
	}
	if r.llm == nil {
		return r.waiting[0].mark
	}
	return max(0, r.mark-r.ticks)
}

func (r *runner) advance(units float64) {
	switch {
	case r.prefill > 0:
		r.prefill = max(1e-12, r.prefill-units)
	case r.llm == nil:
		r.waiting[0].mark = max(0, r.waiting[0].mark-units)
	default:
		r.ticks += units
	}
}

func (r *runner) arrive(now float64) {
	q := request{at: now, mark: 1}
	if r.llm != nil {
		q.in, q.out = max(1, math.Round(r.llm.input*r.fate.in[r.at])), max(1, math.Round(r.llm.output*r.fate.out[r.at]))
	} else if r.rate > 0 {
		q.mark = r.fate.work[r.at] // of its mean service
	}
	r.waiting = append(r.waiting, q)
	r.next = math.Inf(1)
	if r.rate > 0 {
		r.next = now + r.gap()
		if len(r.waiting) > mostWaiting {
			r.stuck, r.next = true, math.Inf(1)
		}
	}
	r.start()
}

// start begins a prefill where one waits and there is a slot.
func (r *runner) start() {
	if r.llm != nil && r.prefill == 0 && len(r.waiting) > 0 && len(r.running) < r.llm.slots {
		r.prefill = 1
	}
}

func (r *runner) finish(now float64) {
	if r.llm == nil {
		q := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		r.sample(e2e, now-q.at)
		r.done++
		if r.rate == 0 {
			r.next = now + r.gap()
		}
		return
	}
	if r.prefill > 0 {
		q := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		r.prefill = 0
		q.first, q.mark = now, r.ticks+q.out-1
		r.sample(ttft, now-q.at)
		if q.out > 1 {
			r.running = append(r.running, q)
		} else {
			r.done++
		}
		r.start()
		return
	}
	for i := 0; i < len(r.running); {
		if q := r.running[i]; q.mark <= r.ticks+1e-9 {
			r.sample(tpot, (now-q.first)/(q.out-1))
			r.sample(e2e, now-q.at)
			r.done++
			r.running = slices.Delete(r.running, i, i+1)
			continue
		}
		i++
	}
	r.start()
}

func (r *runner) sample(metric int, v float64) {
	r.samples[metric] = append(r.samples[metric], v)
}

func (r *runner) seen() seen {
	s := seen{saturated: r.stuck}
	if r.rate == 0 {
		mean, _ := moments(append(r.samples[e2e], r.service))
		s.rate = (r.service + r.think) / (mean + r.think)
	}
	for k, v := range r.samples {
		if len(v) == 0 {
			continue
		}
		s.p99[k] = p99(v[len(v)/20:]) // the start is not the steady state
		if r.stuck {
			s.p99[k] = math.Inf(1)
		}
	}
	return s
}

// p99 is the P99 by nearest rank: the smallest of the values that the last
// hundredth holds.
func p99(v []float64) float64 {
	rank := min(len(v), int(math.Ceil(0.99*float64(len(v)))))
	top := make([]float64, 0, 64) // ascending
	most := len(v) - rank + 1
	for _, x := range v {
		if len(top) == most && x <= top[0] {
			continue
		}
		at, _ := slices.BinarySearch(top, x)
		if len(top) == most {
			copy(top, top[1:at])
			top[at-1] = x
			continue
		}
		top = slices.Insert(top, at, x)
	}
	return top[0]
}

// unitP99 is the P99 of a server's latency over its mean service time, alone,
// by how busy it is and how bursty its requests are; played once.
var unitP99 = func() func(busy, cv float64) float64 {
	const steps = 20
	cvs := [...]float64{0.8, 1, 1.25, 1.5, 1.75}
	var table [len(cvs)][steps]float64
	fill := func(c, b int) float64 {
		if table[c][b] == 0 {
			busy := (float64(b) + 0.5) / steps
			rng := rand.New(rand.NewPCG(uint64(c), uint64(b)))
			k := 1 / (cvs[c] * cvs[c])
			free, at := 0.0, 0.0
			var v []float64
			for range 40_000 {
				at += gamma(rng, k) / (k * busy)
				free = max(free, at) + math.Exp(0.3*rng.NormFloat64()-0.045)
				v = append(v, free-at)
			}
			slices.Sort(v)
			table[c][b] = v[int(0.99*float64(len(v)))]
		}
		return table[c][b]
	}
	return func(busy, cv float64) float64 {
		b := min(max(busy*steps-0.5, 0), steps-1.001)
		c := 0
		for c < len(cvs)-2 && cv > cvs[c+1] {
			c++
		}
		fc := min(max((cv-cvs[c])/(cvs[c+1]-cvs[c]), 0), 1)
		fb := b - math.Floor(b)
		i := int(b)
		at := func(c int) float64 { return fill(c, i)*(1-fb) + fill(c, i+1)*fb }
		return at(c)*(1-fc) + at(c+1)*fc
	}
}()

// serviceOf is the mean service time of a server whose P99 alone is known.
func serviceOf(p99, busy, cv float64) float64 { return p99 / unitP99(busy, cv) }
