// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// request is one that waits.
type request struct {
	at float64 // arrival
	d  *draw
}

// answer is one that is being decoded.
type answer struct {
	at, first float64 // arrival, first token
	out       float64 // tokens
	mark      float64 // steps at which it is done
}

// runner simulates a tenant. It does one thing at a time: a prefill, decode steps until
// the first of its requests is done, or a request of a server without a model.
type runner struct {
	next      float64 // next arrival, +Inf when it waits for an answer
	ends      float64 // when what it does ends, +Inf when it does nothing
	weight    float64 // what it costs its neighbours
	since     float64 // when left was right
	left      float64 // units to do
	unit      float64 // seconds that a unit takes now
	host, gpu float64 // seconds of a unit; the GPU's with the slice's factor
	crowd     float64 // factor on the GPU's by what the neighbours do

	*tenant
	fate     *fate
	number   int     // in its fate
	slow     float64 // factor on GPU work of its slice, in prefills too
	slowPre  float64
	blocking float64 // part of a neighbour's GPU that its own work takes
	mps      bool
	does     doing
	waiting  queue
	running  []answer     // the first to be done comes last
	ticks    float64      // decode steps done
	samples  [3][]float64 // of the metrics with a limit
	took     float64      // seconds of all that is done
	done     int
	stuck    bool
}

type doing uint8

const (
	resting doing = iota
	serving
	prefilling
	decoding
)

// queue is the requests that wait, the first at head.
type queue struct {
	all  []request
	head int
}

func (q *queue) len() int { return len(q.all) - q.head }

func (q *queue) first() *request { return &q.all[q.head] }

func (q *queue) push(r request) {
	if q.head > mostWaiting {
		q.all, q.head = q.all[:copy(q.all, q.all[q.head:])], 0
	}
	q.all = append(q.all, r)
}

func (q *queue) pop() request {
	q.head++
	return q.all[q.head-1]
}

// ready makes the runner the i-th tenant on a GPU, on a slice of its own or none.
func (r *runner) ready(t *tenant, f *fate, i int, s *slice, mps bool, blocking float64) {
	*r = runner{tenant: t, fate: f, number: i * (fates/8 - 1) % fates, slow: 1, slowPre: 1, crowd: 1, mps: mps,
		blocking: blocking,
		waiting:  queue{all: r.waiting.all[:0]}, running: r.running[:0], samples: r.samples, ends: math.Inf(1)}
	for k := range r.samples {
		r.samples[k] = r.samples[k][:0]
	}
	if s != nil {
		r.slow, r.slowPre = t.slowBy.slowdown(*s), sliceLaw{fills: t.slowBy.prefill}.slowdown(*s)
	}
	r.next = r.gap()
}

// gap is the time to the next request.
func (r *runner) gap() float64 {
	r.number = (r.number + 1) % fates
	g := r.fate.at(r.number).gap
	if r.rate == 0 {
		return r.think * g
	}
	return g / r.rate
}

// retime goes on at another pace.
func (r *runner) retime(now, crowd float64) {
	r.crowd = crowd
	if r.does == resting {
		return
	}
	r.left = max(0, r.left-(now-r.since)/r.unit)
	r.since = now
	r.unit = r.host + r.gpu*crowd
	r.ends = now + r.left*r.unit
}

// arrive takes the request that is due, and reports whether it interrupts the current work.
func (r *runner) arrive(now float64) bool {
	r.waiting.push(request{now, r.fate.at(r.number)})
	r.next = math.Inf(1)
	if r.rate > 0 {
		r.next = now + r.gap()
		if r.waiting.len() > mostWaiting {
			r.stuck, r.next = true, math.Inf(1)
		}
	}
	switch r.does {
	case resting:
		return true
	case decoding:
		if len(r.running) < r.llm.slots {
			r.ticks = r.mark() - max(0, r.left-(now-r.since)/r.unit)
			return true
		}
	}
	return false
}

// begin starts the next thing that there is to do.
func (r *runner) begin(now float64) {
	r.does, r.weight, r.ends = resting, 0, math.Inf(1)
	var host, gpu float64 // of a unit on a whole GPU of its own
	slow := r.slow
	switch e := r.llm; {
	case e == nil:
		if r.waiting.len() == 0 {
			return
		}
		r.does, r.left = serving, r.waiting.first().d.in
		host, gpu = r.tenant.host, r.service
	case r.waiting.len() > 0 && len(r.running) < e.slots:
		r.does, r.left, slow = prefilling, 1, 1
		gpu = max(r.slowPre*e.perIn*tokens(e.input*r.waiting.first().d.in), 0.4*e.prefillFloor)
		host = max(0, e.prefillFloor-gpu) + 1e-6
	case len(r.running) > 0:
		r.does, r.left = decoding, max(0, r.mark()-r.ticks)
		context := e.input + e.output/2
		step := (e.weights+float64(len(r.running))*context*e.kvToken)/e.bandwidth + e.perStep
		host, gpu = e.host*step, (1-e.host)*step
		if r.mps {
			host += e.mpsStep
		}
	default:
		return
	}
	r.weight = gpu / (host + gpu) * r.blocking
	r.host, r.gpu = host, gpu*slow
	r.unit = r.host + r.gpu*r.crowd
	r.since, r.ends = now, now+r.left*r.unit
}

// finish ends what the runner does.
func (r *runner) finish(now float64) {
	switch r.does {
	case serving:
		r.answered(r.waiting.pop().at, now)
		if r.rate == 0 {
			r.next = now + r.gap()
		}
	case prefilling:
		q := r.waiting.pop()
		r.sample(ttft, now-q.at)
		if out := tokens(r.llm.output * q.d.out); out > 1 {
			r.decode(answer{q.at, now, out, r.ticks + out - 1})
		}
	case decoding:
		r.ticks = r.mark()
		for k := len(r.running) - 1; k >= 0 && r.running[k].mark <= r.ticks+1e-9; k-- {
			a := &r.running[k]
			r.sample(tpot, (now-a.first)/(a.out-1))
			r.answered(a.at, now)
			r.running = r.running[:k]
		}
	}
}

// decode lets an answer join those that are being decoded.
func (r *runner) decode(a answer) {
	k := len(r.running)
	r.running = append(r.running, a)
	for ; k > 0 && r.running[k-1].mark <= a.mark; k-- {
		r.running[k] = r.running[k-1]
	}
	r.running[k] = a
}

// mark is the step at which the first of the running answers is done.
func (r *runner) mark() float64 { return r.running[len(r.running)-1].mark }

// tokens are a request's, whole and at least one.
func tokens(mean float64) float64 { return max(1, math.Round(mean)) }

func (r *runner) answered(came, now float64) {
	r.sample(e2e, now-came)
	r.took += now - came
	r.done++
}

func (r *runner) sample(metric int, v float64) {
	if r.slo[metric] > 0 {
		r.samples[metric] = append(r.samples[metric], v)
	}
}
