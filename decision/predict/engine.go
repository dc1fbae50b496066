package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/timeslice"
)

// engine is a serving engine with continuous batching and its clients, as a
// timeslice.Submitter: between two decode steps of the whole batch it prefills at
// most one new request. A prefill's kernels are launched at an even pace,
// whether or not the GPU gets to run them; decode waits for its step.
type engine struct {
	t     *tenantModel
	rng   *rand.Rand
	from  time.Duration // requests that come earlier are not counted
	until time.Duration

	arrivals []time.Duration // of requests to come, ascending
	next     float64         // ms at which the open loop's next request comes
	waiting  []request
	live     []request
	entering request

	phase    phase
	launched int // pieces of the prefill submitted so far
	began    time.Duration

	ttft, tpot, e2e []float64
	tokens          int
}

type request struct {
	came, first time.Duration
	left        int
}

type phase uint8

const (
	idle phase = iota
	prefilling
	decoding
)

// prefillPieces is the number of pieces in which a prefill reaches the GPU. A
// real one has some hundred kernels, but finer pieces predict no better.
const prefillPieces = 20

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func newEngine(t *tenantModel, index int, from, until time.Duration) *engine {
	e := &engine{t: t, rng: rand.New(rand.NewPCG(simulationSeed, uint64(index))), from: from, until: until}
	if t.closed {
		for range t.clients {
			e.arrivals = append(e.arrivals, millis(clientDelay*e.rng.Float64()))
		}
		slices.Sort(e.arrivals)
		return e
	}
	e.next = e.rng.ExpFloat64() / t.rate
	return e
}

// simulationSeed seeds all predictions: the same input gives the same bytes.
const simulationSeed = 1

// Next implements timeslice.Submitter.
func (e *engine) Next(now time.Duration) (timeslice.Work, bool) {
	switch e.phase {
	case prefilling:
		switch e.launched {
		case 1:
			e.began = now // the prompt is on the GPU: the host goes on
		case prefillPieces / 2:
			e.began += max(0, now-e.due()) // the host waits for the GPU once more
		}
		if e.launched < prefillPieces {
			return e.launch(), true
		}
		now = max(now, e.began+millis(e.t.prefill))
		e.entering.first = now
		e.emit(&e.entering, now)
		e.live = append(e.live, e.entering)
		return e.decode(now), true // a decode step follows every prefill
	case decoding:
		kept := e.live[:0]
		for _, r := range e.live {
			e.emit(&r, now)
			if r.left > 0 {
				kept = append(kept, r)
			}
		}
		e.live = kept
	}
	e.admit(now)
	if len(e.waiting) == 0 && len(e.live) == 0 {
		e.phase = idle
		now = e.nextArrival()
		e.admit(now)
	}
	if len(e.waiting) > 0 && len(e.live) < e.t.slots {
		e.entering = e.waiting[0]
		e.waiting = e.waiting[1:]
		e.phase, e.launched, e.began = prefilling, 0, now
		return e.launch(), true
	}
	return e.decode(now), true
}

func (e *engine) launch() timeslice.Work {
	at := e.due()
	e.launched++
	return timeslice.Work{At: at, GPU: millis(e.t.prefillGPU / prefillPieces)}
}

// due is when the next piece of the prefill is launched, if the host waits for
// nothing.
func (e *engine) due() time.Duration {
	return e.began + millis(e.t.prefill*float64(e.launched)/prefillPieces)
}

// stepJitter is the fraction by which single steps vary: ITL's P90 is 1.01 to
// 1.08 of its P50 in lone rows. Without it engines fall into step.
const stepJitter = 0.04

func (e *engine) decode(now time.Duration) timeslice.Work {
	e.phase = decoding
	b := float64(len(e.live))
	gpu := e.t.gpu * (1 + stepJitter*(2*e.rng.Float64()-1)) * max(0.5, 1+e.t.doubling*math.Log2(b/e.t.batch))
	return timeslice.Work{At: now + millis(e.t.host+e.t.perToken*b), GPU: millis(gpu)}
}

// emit gives a token to r's client, and sends the client's next request when it
// was the last.
func (e *engine) emit(r *request, now time.Duration) {
	if now >= e.from && now < e.until {
		e.tokens++
	}
	if r.left--; r.left > 0 {
		return
	}
	if r.came >= e.from {
		e.ttft = append(e.ttft, inMillis(r.first-r.came))
		e.tpot = append(e.tpot, inMillis(now-r.first)/e.t.steps)
		e.e2e = append(e.e2e, inMillis(now-r.came))
	}
	if e.t.closed {
		at := now + millis(clientDelay*(0.5+e.rng.Float64()))
		i, _ := slices.BinarySearch(e.arrivals, at)
		e.arrivals = slices.Insert(e.arrivals, i, at)
	}
}

func (e *engine) nextArrival() time.Duration {
	if e.t.closed {
		return e.arrivals[0]
	}
	return millis(e.next)
}

// admit moves the requests that have come by now to the queue.
func (e *engine) admit(now time.Duration) {
	if e.t.closed {
		n := 0
		for n < len(e.arrivals) && e.arrivals[n] <= now {
			e.waiting = append(e.waiting, request{came: e.arrivals[n], left: e.t.output})
			n++
		}
		e.arrivals = slices.Delete(e.arrivals, 0, n)
		return
	}
	for e.next <= inMillis(now) && len(e.waiting) < maxQueue {
		e.waiting = append(e.waiting, request{came: millis(e.next), left: e.t.output})
		e.next += e.rng.ExpFloat64() / e.t.rate
	}
}

// maxQueue bounds the queue of an open loop that cannot keep up.
const maxQueue = 1 << 14

// outcome is what the engine's clients saw, and how many of their requests
// ended; a metric without requests is 0.
func (e *engine) outcome() (o figures, requests int) {
	for _, s := range []struct {
		m Metric
		v []float64
		q float64
	}{{MetricTPOTP50, e.tpot, .5}, {MetricTPOTP99, e.tpot, .99}, {MetricTTFTP50, e.ttft, .5}, {MetricTTFTP99, e.ttft, .99},
		{MetricE2EP50, e.e2e, .5}, {MetricE2EP90, e.e2e, .9}, {MetricE2EP99, e.e2e, .99}} {
		if len(s.v) > 0 {
			slices.Sort(s.v)
			o[s.m] = stats.NearestRank(s.v, s.q)
		}
	}
	o[MetricTokensPerSecond] = float64(e.tokens) / (e.until - e.from).Seconds()
	return o, len(e.e2e)
}
