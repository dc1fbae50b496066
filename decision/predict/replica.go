package predict

import "math"

// audience is who sees what a replica does to requests: the service that it is of,
// or the clients of a tenant of Predict. Times are in ms.
type audience interface {
	started(r *replica, f *flight)                          // its first token, at f.first
	tokens(n int64, now float64)                            // given at a time
	gaps(step float64, n int64, stall float64, stalled int) // n gaps of a step's length, and stalled ones that something came before
	preempted(f *flight)
	ended(r *replica, f *flight, now float64)
	reject(f *flight, now float64)
}

// replica is one server with continuous batching: what it does and what waits. The cluster plays it in runs of
// steps, Predict step by step. Times are in ms. It does one thing at a time, an activity of so many equal units: a
// run of decode steps until the batch changes, a prefill, a mixed step, the loading of an adapter, falling asleep
// or waking.
type replica struct {
	to    audience
	c     rates
	sleep *Sleep
	gpu   *gpuState // nil: always awake
	kv    *kvCache
	size  int  // tokens of a block
	unit  int  // tokens of a prefix's block; 0 without prefix cache
	steps bool // decodes step by step

	waiting queue
	entered []*flight // admitted, their prompts not yet computed, in order
	running []*flight // decoding, in the order of admission
	marks   []int64   // of the running: the tick at which each ends
	ticks   int64     // decode steps done
	context float64   // tokens of context of the running
	pending int       // tokens of prompts still to compute, as far as is known
	phases  []int     // running requests by the tick, modulo a block, before which each needs another block

	act     activity
	turn    bool    // a decode step comes before the next prefill
	stall   float64 // ms since the last step in which the running got nothing
	stalled int     // how many of them
	lora    adapterSlots
	rest    rest
	stats   replicaStats
}

// rates are an engine's costs as the simulation reads them.
type rates struct {
	step, context, host             float64 // ms; context for a token
	sequence, hostSequence          float64 // ms of each in the batch, on the GPU and on the host
	matrix                          float64 // ms of a batch of several
	experts, unused                 float64 // ms to read all routed experts, and the share that a token leaves out
	captured                        []int
	prefill, token, busy            float64
	slowPrefill                     float64 // factor of the GPU's part of a prefill
	hostToken                       float64 // ms of the host for a token of a prompt
	decodeSM, prefillSM             float64
	prefillsFirst                   bool // waiting prefills run before anybody decodes; else one between two steps
	sequences, chunk                int
	turns                           []CountedTurns
	attention                       float64 // ms for a token and a token of its context
	loraStep, loraEach, loraPrefill float64
	loraLoad, loraFetch             float64
	fallAsleep, wake                float64
}

func ratesOf(e *Engine, mps bool) rates {
	r := rates{
		step: e.Step.Value, context: e.StepContext.Value / 1e3, host: e.HostFraction.Value * e.Step.Value,
		prefill: e.Prefill.Value, token: e.PrefillToken.Value / 1e3, attention: e.PrefillContext.Value / 1e6, busy: e.PrefillBusy.Value,
		decodeSM: e.DecodeSM.Value, prefillSM: e.PrefillSM.Value,
		slowPrefill: 1, turns: e.Turns, sequences: e.sequences(), chunk: e.ChunkTokens,
		fallAsleep: e.Sleep.FallAsleep(e.Model), wake: e.Sleep.Wake(e.Model),
	}
	r.matrix, r.captured = e.StepMatrix.Value, e.Captured
	r.experts, r.unused, r.prefillsFirst = e.StepExperts.Value, e.Model.unused(), e.PrefillsFirst
	r.hostSequence = min(e.StepSequence.Value, hostPerSequence)
	r.sequence = e.StepSequence.Value - r.hostSequence
	if mps {
		// Part of which kernels wait for each other, so that nothing is seen of what a product
		// of matrices takes more than one with a vector: on an H100 and an H200 a step of two
		// sequences takes no longer than that of one (1B and 8B, -0.12 to 0.00 ms).
		r.step, r.matrix = r.step+e.MPSStep.Value, 0
	}
	if e.Adapters.Slots > 0 {
		r.loraStep, r.loraEach, r.loraPrefill = e.Adapters.Step.Value, e.Adapters.Each.Value, e.Adapters.Prefill.Value
		r.loraLoad, r.loraFetch = e.Adapters.Load.Value, e.Adapters.Fetch.Value
	}
	return r
}

// batched is the GPU's time for the sequences of a decode step, but for their contexts.
func (r *rates) batched(n int) float64 {
	if n < 2 {
		return r.sequence * float64(n)
	}
	return r.matrix + r.sequence*float64(padded(r.captured, n)) + r.moreExperts(n)
}

// moreExperts is the time in which a step of so many tokens reads the experts that they use beyond those of one,
// each token's drawn evenly and by itself.
func (r *rates) moreExperts(tokens int) float64 {
	if r.experts == 0 {
		return 0
	}
	return r.experts * (r.unused - math.Pow(r.unused, float64(tokens)))
}

// activity is the work that a replica is at: units of equal length, each of host and gpu ms when nobody else is on
// the GPU.
type activity struct {
	kind      phase
	host, gpu float64
	units     float64 // to do
	done      float64
	unit      float64 // ms that a unit takes now
	share     float64 // of the GPU that its work blocks under MPS
	cost      float64 // to a neighbour, once it was asked for: see duty
	since     float64 // when done was right
	start     float64
	runs      bool // decodes: ends early, at a whole unit, when somebody comes
	decodes   int  // requests that get a token with each unit
}

// alone is how long a unit takes when nobody else is on the GPU.
func (a *activity) alone() float64 { return max(1e-9, a.host+a.gpu) }

// due is when the activity ends.
func (a *activity) due() float64 {
	if a.kind == idle {
		return math.Inf(1)
	}
	return a.since + max(0, a.units-a.done)*a.unit
}

func (a *activity) advance(now float64) {
	if a.kind != idle && now != a.since {
		a.done = min(a.units, a.done+(now-a.since)/a.unit)
		a.since = now
	}
}

// arrive takes a request at its time.
func (r *replica) arrive(f *flight, now float64) {
	if r.tooLarge(f) || r.waiting.len() >= maxQueue {
		r.to.reject(f, now)
		return
	}
	r.waiting.push(f)
	r.pending += f.input
	r.stats.queueHigh = max(r.stats.queueHigh, r.waiting.len())
	r.rest.asked = now
	switch a := &r.act; {
	case a.kind == idle:
		r.plan(now)
	case a.kind == dozing:
		a.kind = idle
		r.plan(now)
	case a.runs && r.mayAdmit(f) && (r.waiting.len() == 1 || r.waiting.at(0).blocked == blockedAdapter):
		// The run ends at the step that is under way.
		a.advance(now)
		a.units = min(a.units, max(1, math.Ceil(a.done-1e-9)))
	}
}

// tooLarge says that the request would never fit.
func (r *replica) tooLarge(f *flight) bool {
	return blocksOf(f.input+f.output, r.size) > r.kv.total || f.adapter > 0 && r.lora.slots == 0
}

func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// mayAdmit says whether a waiting request may find room now, without trying.
func (r *replica) mayAdmit(f *flight) bool {
	return len(r.running)+len(r.entered) < r.c.sequences && r.kv.available() > 0 && r.rest.admits()
}

// finish ends the activity that is due now and plans the next.
func (r *replica) finish(now float64) {
	r.end(now)
	r.plan(now)
}

// end ends the activity that is due now.
func (r *replica) end(now float64) {
	a := r.act
	r.act.kind = idle
	if a.kind.works() {
		r.stats.busy += now - a.start
		r.stats.gpu += a.units * a.gpu
	}
	switch a.kind {
	case decoding:
		r.stepped(int64(a.units), &a, now)
	case prefilling:
		r.computed(now, &a)
	case loading:
		r.stall += now - a.start
		r.stalled = len(r.running)
	case dozing:
		r.begin(now, activity{kind: fallingAsleep, host: r.c.fallAsleep, units: 1})
	case fallingAsleep, waking:
		r.gpu.slept(r, a.kind, now)
	}
}

// plan decides what the replica does next, if anything.
func (r *replica) plan(now float64) {
	if r.act.kind != idle {
		return
	}
	if r.gpu != nil && !r.gpu.awake(r, now) {
		return
	}
	if !(r.turn && len(r.running) > 0 && r.c.chunk == 0) {
		if load := r.admit(now); load > 0 {
			r.begin(now, activity{kind: loading, host: load, units: 1})
			return
		}
	}
	switch {
	case len(r.entered) > 0 && !(r.turn && len(r.running) > 0 && r.c.chunk == 0):
		r.prefillNext(now)
	case len(r.running) > 0:
		r.decode(now)
	case r.gpu != nil:
		r.gpu.rested(r, now)
	}
}

func (r *replica) begin(now float64, a activity) {
	a.since, a.start = now, now
	a.unit = a.alone()
	r.act = a
	if r.gpu != nil {
		r.gpu.paced = false
	}
}

// replicaStats are what a replica did. Times are in ms.
type replicaStats struct {
	busy, gpu    float64
	queueHigh    int
	preemptions  int64
	adapterLoads int64
	completed    int64
	prompt       int64 // tokens of prompts, and of these from the cache
	cached       int64
	blocked      [blockedCount]int64
}
