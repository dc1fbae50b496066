// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/mps/contention"
	"github.com/cotenant/cotenant/timeslice"
)

// engine is a simulated tenant: a server with continuous batching (Yu et al., Orca, OSDI 2022) that prefills one
// request between two decode steps, and its clients, as a timeslice.Submitter. Steps and prefills are those of the
// tenant's profile. A prefill's kernels are launched at an even pace, whether or not the GPU gets to run them; decode
// waits for its step.
type engine struct {
	t *tenantModel
	// requests draws arrivals and lengths, and noise the pace of steps and clients: with common random numbers in every
	// group, a tenant gets the same requests whoever its neighbours are.
	requests, noise *rand.Rand
	from            time.Duration // requests that come earlier are not counted
	until           time.Duration

	arrivals         []time.Duration // of requests to come, ascending; of an open loop the next
	waiting, running []request       // in the order in which they came
	phase            phase

	launched int // pieces of the prefill or step submitted so far
	began    time.Duration
	start    time.Duration // of the prefill, or of the step of a tenant that serves no tokens
	jitter   float64       // of its step
	counts
}

// counts holds the observations of an engine in the measured period.
type counts struct {
	took              []float64 // steps of a tenant that serves no tokens, ms
	ttft, tpot, e2e   []float64
	prefill, prefills float64 // ms in so many
	given             int     // tokens
}

// request is a request of a simulated server.
type request struct {
	came, first   time.Duration
	output, given int // tokens
}

type phase uint8

const (
	idle phase = iota
	prefilling
	decoding
)

// streamOf seeds the random numbers of the n-th of equal tenants by their content: the same input gives the same bytes.
func streamOf(t *tenantModel, n int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%v %v %d", t.base.Server, t.base.Load.Same(), n)
	return h.Sum64()
}

// mostQueued bounds the queue of an open loop that cannot keep up.
const mostQueued = 1 << 14

func newEngine(t *tenantModel, stream uint64, from, until time.Duration) *engine {
	e := &engine{t: t, requests: rand.New(rand.NewPCG(3, stream)), noise: rand.New(rand.NewPCG(4, stream)), from: from,
		until: until}
	if t.kind != profile.KindServer {
		e.launched, e.start = t.pieces, -1 // a step that is not counted has ended
		return e
	}
	if t.closed {
		for range t.clients {
			e.arrivals = append(e.arrivals, millis(table.Steps.ClientDelay.Value*e.noise.Float64()))
		}
		slices.Sort(e.arrivals)
		return e
	}
	e.arrivals = []time.Duration{millis(e.requests.ExpFloat64() / t.rate)}
	return e
}

// Next implements timeslice.Submitter.
func (e *engine) Next(now time.Duration) (timeslice.Work, bool) {
	if e.t.kind != profile.KindServer {
		return e.nextPiece(now), true
	}
	switch e.phase {
	case prefilling:
		switch e.launched {
		case 1:
			e.began = now // the prompt is on the GPU: the host goes on
			if e.t.pieces == 1 {
				e.began -= millis(e.t.prefillGPU) // it was there whole
			}
		case e.waitsAt():
			e.began += max(0, now-e.due()) // the host waits for the GPU once more
		}
		if e.launched < e.t.pieces {
			return e.launch(), true
		}
		now = max(now, e.began+millis(e.t.prefill))
		e.prefill, e.prefills = e.prefill+inMillis(now-e.start), e.prefills+1
		r := e.waiting[0]
		if r.first = now; len(e.waiting) < 64 { // the others move up, so that the memory is used again
			e.waiting = slices.Delete(e.waiting, 0, 1)
		} else {
			e.waiting = e.waiting[1:]
		}
		e.running = append(e.running, r)
		e.tokens(e.running[len(e.running)-1:], now)
		return e.work(now), true // a decode step follows every prefill
	case decoding:
		if e.t.gaps && e.launched < launches {
			return e.nextLaunch(now), true
		}
		e.tokens(e.running, now)
		e.running = slices.DeleteFunc(e.running, func(r request) bool {
			if r.given == r.output {
				e.end(&r, now)
			}
			return r.given == r.output
		})
	}
	e.arrive(now)
	if len(e.waiting) == 0 && len(e.running) == 0 {
		now = e.arrivals[0]
		e.arrive(now)
	}
	if len(e.waiting) > 0 && len(e.running) < e.t.slots {
		e.phase, e.launched, e.began, e.start = prefilling, 0, now, now
		return e.launch(), true
	}
	return e.work(now), true
}

// Demand implements contention.Client.
func (e *engine) Demand() contention.Demand {
	t := e.t
	d := contention.Demand{Holds: t.holds, Waits: t.decodeWaits, SMs: t.sms, Filled: t.filled}
	if e.phase == prefilling {
		d.Waits = t.prefillWaits
	}
	return d
}

func (e *engine) launch() timeslice.Work {
	at := e.due()
	e.launched++
	return timeslice.Work{At: at, GPU: millis(e.t.prefillGPU / float64(e.t.pieces))}
}

// waitsAt is the number of pieces after which the host waits for the GPU once more, another in each prefill: always the
// same would fall in with the time slices of some neighbours, and one more of them would make prefills faster.
func (e *engine) waitsAt() int {
	_, part := math.Modf(e.prefills / math.E) // even, as multiples of an irrational number are
	return 1 + int(part*float64(e.t.pieces-1))
}

// due is the time at which the next piece of the prefill is launched, if the host waits for nothing.
func (e *engine) due() time.Duration {
	return e.began + millis(e.t.prefill*float64(e.launched)/float64(e.t.pieces))
}

// work is a decode step, or the first of its pieces where its kernels are launched one by one.
func (e *engine) work(now time.Duration) timeslice.Work {
	e.phase = decoding
	b := float64(len(e.running))
	factor := (1 + table.Steps.Jitter.Value*(2*e.noise.Float64()-1)) *
		max(0.5, 1+e.t.doubling*math.Log2(b/e.t.batch))
	if e.t.gaps {
		e.began, e.launched, e.jitter = now, 0, factor
		return e.nextLaunch(now)
	}
	return timeslice.Work{At: now + millis(e.t.host+e.t.perToken*b), GPU: millis(factor * e.t.gpu)}
}

// nextLaunch is the next piece of a step that the host launches at an even pace, while the GPU is busy with others too.
func (e *engine) nextLaunch(now time.Duration) timeslice.Work {
	between, l := table.Launched.Between.Value*(e.t.step-e.t.gpu), e.launched
	pace := (e.t.step - between - e.t.gpu/launches) / (launches - 1) // the last piece ends where the step does alone
	due := millis(e.jitter * (between + pace*float64(l)))
	if e.t.kind == profile.KindServer && (l == 1 || l == launches-1) {
		// The host of a server waits for the copy of its inputs, and for that of the outputs in the end.
		e.began = max(e.began, now+millis(e.jitter*pace)-due)
	}
	e.launched++
	return timeslice.Work{At: max(e.began+due, now), GPU: millis(e.jitter * e.t.gpu / launches)}
}

// tokens gives each of the requests a token.
func (e *engine) tokens(to []request, now time.Duration) {
	for i := range to {
		to[i].given++
	}
	if now >= e.from && now < e.until {
		e.given += len(to)
	}
}

// end counts a request, and its client sends the next.
func (e *engine) end(r *request, now time.Duration) {
	if r.came >= e.from {
		e.ttft = append(e.ttft, inMillis(r.first-r.came))
		e.tpot = append(e.tpot, inMillis(now-r.first)/float64(r.output-1))
		e.e2e = append(e.e2e, inMillis(now-r.came))
	}
	if e.t.closed {
		at := now + millis(table.Steps.ClientDelay.Value*(0.5+e.noise.Float64()))
		i, _ := slices.BinarySearch(e.arrivals, at)
		e.arrivals = slices.Insert(e.arrivals, i, at)
	}
}

func (e *engine) arrive(now time.Duration) {
	n := 0
	for ; n < len(e.arrivals) && e.arrivals[n] <= now && len(e.waiting) < mostQueued; n++ {
		at, output := e.arrivals[n], e.t.output
		if around := min(int(e.t.base.Load.OutputSpread*float64(output)), output-2); around > 0 {
			output += e.requests.IntN(2*around+1) - around
		}
		e.waiting = append(e.waiting, request{came: at, output: output})
		if !e.t.closed {
			e.arrivals = append(e.arrivals, at+millis(e.requests.ExpFloat64()/e.t.rate))
		}
	}
	e.arrivals = slices.Delete(e.arrivals, 0, n)
}

func (e *engine) outcome() (o outcome) {
	if n := len(e.took); e.t.kind != profile.KindServer {
		if n > 0 {
			slices.Sort(e.took)
			o.Figures[profile.MetricStepP50], o.Figures[profile.MetricStepP99] = middle(e.took), stats.NearestRank(e.took, .99)
			o.Figures[profile.MetricStepsPerSecond] = float64(n) / (e.until - e.from).Seconds()
		}
		o.few = n < 4
		return o
	}
	for _, s := range []struct {
		m profile.Metric
		v []float64
		q float64
	}{{profile.MetricTPOTP50, e.tpot, .5}, {profile.MetricTPOTP99, e.tpot, .99},
		{profile.MetricTTFTP50, e.ttft, .5}, {profile.MetricTTFTP99, e.ttft, .99},
		{profile.MetricE2EP50, e.e2e, .5}, {profile.MetricE2EP90, e.e2e, .9}, {profile.MetricE2EP99, e.e2e, .99}} {
		if len(s.v) > 0 {
			slices.Sort(s.v)
			o.Figures[s.m] = stats.NearestRank(s.v, s.q)
		}
	}
	o.Figures[profile.MetricTokensPerSecond] = float64(e.given) / (e.until - e.from).Seconds()
	o.prefill = e.prefill / max(e.prefills, 1)
	o.few = len(e.e2e) < 4 || !e.t.closed && len(e.waiting) >= min(64, 4*e.t.slots+1)
	return o
}

// nextPiece is the next work of a tenant that does step after step: one piece where there are hardly gaps between
// its kernels. A step ends with its last kernel, and the next begins.
func (e *engine) nextPiece(now time.Duration) timeslice.Work {
	t := e.t
	if e.launched == t.pieces {
		if e.start >= e.from {
			e.took = append(e.took, inMillis(now-e.start))
		}
		e.began, e.launched = now+millis(t.think*(0.5+e.noise.Float64())), 0
		e.start, e.jitter = e.began, 1+table.Steps.Jitter.Value*(2*e.noise.Float64()-1)
	}
	if t.pieces > 1 {
		return e.nextLaunch(now)
	}
	e.launched++
	return timeslice.Work{At: max(now, e.began+millis(t.host)), GPU: millis(e.jitter * t.gpu)}
}

// outcome holds the results of a simulated tenant.
type outcome struct {
	profile.Figures
	prefill float64 // mean length of a prefill in ms, 0 without one
	few     bool    // hardly any of its requests ended
}
