// Package batching simulates servers with continuous batching (Yu et al., Orca, OSDI 2022), each with a paged KV cache
// (Kwon et al., PagedAttention, SOSP 2023), and the GPU that they share, event by event.
package batching

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
)

// Audience sees what a replica does to requests: the service that it is of,
// or the clients of a tenant of Predict. Times are in ms.
type Audience interface {
	Started(r *Replica, f *Flight) // its first token, at f.first
	Tokens(n int64, now float64)   // given at a time
	Gaps(step float64, n int64, stall float64,
		stalled int) // n gaps of a step's length, and stalled ones that something came before
	Preempted(f *Flight)
	Ended(r *Replica, f *Flight, now float64)
	Reject(f *Flight, now float64)
}

// Replica is one server with continuous batching: what it does and what waits. The cluster plays it in runs of steps,
// Predict step by step. Times are in ms. It does one thing at a time, an activity of so many equal units: a run of
// decode steps until the batch changes, a prefill, a mixed step, the loading of an adapter, falling asleep or waking.
type Replica struct {
	To    Audience
	Rates Rates
	Sleep *costs.Sleep
	GPU   *GPU // nil: always awake
	KV    *KVCache
	Size  int  // tokens of a block
	Unit  int  // tokens of a prefix's block; 0 without prefix cache
	Steps bool // decodes step by step

	Waiting queue
	Entered []*Flight // admitted, their prompts not yet computed, in order
	Running []*Flight // decoding, in the order of admission
	Marks   []int64   // of the running: the tick at which each ends
	ticks   int64     // decode steps done
	Context float64   // tokens of context of the running
	Pending int       // tokens of prompts still to compute, as far as is known
	Phases  []int     // running requests by the tick, modulo a block, before which each needs another block

	Act     Activity
	turn    bool    // a decode step comes before the next prefill
	stall   float64 // ms since the last step in which the running got nothing
	stalled int     // how many of them
	LoRA    adapterSlots
	Rest    rest
	Stats   replicaStats
}

// Rates are an engine's costs as the simulation reads them.
type Rates struct {
	Step, context, Host             float64 // ms; context for a token
	Sequence, hostSequence          float64 // ms of each in the batch, on the GPU and on the host
	matrix                          float64 // ms of a batch of several
	experts, unused                 float64 // ms to read all routed experts, and the share that a token leaves out
	captured                        []int
	Prefill, Token, Busy            float64
	request                         float64 // ms of the host for each that begins
	SlowPrefill                     float64 // factor of computing prompts
	HostToken                       float64 // ms of the host for a token of a prompt
	DecodeSM, PrefillSM             float64
	PrefillsFirst                   bool // waiting prefills run before anybody decodes; else one between two steps
	adds                            bool // see costs.Engine
	Sequences, chunk                int
	turns                           []costs.CountedTurns
	attention                       float64 // ms for a token and a token of its context
	loraStep, loraEach, loraPrefill float64
	loraLoad, loraFetch             float64
	fallAsleep, wake                float64
}

func RatesOf(e *costs.Engine, mps bool) Rates {
	r := Rates{
		Step: e.Step.Value, context: e.StepContext.Value / 1e3, Host: e.HostFraction.Value * e.Step.Value,
		Prefill: e.Prefill.Value, Token: e.PrefillToken.Value / 1e3, attention: e.PrefillContext.Value / 1e6,
		Busy: e.PrefillBusy.Value, request: e.Request.Value,
		DecodeSM: e.DecodeSM.Value, PrefillSM: e.PrefillSM.Value,
		SlowPrefill: 1, turns: e.Turns, Sequences: e.MostSequences(), chunk: e.ChunkTokens,
		fallAsleep: e.Sleep.FallAsleep(e.Model), wake: e.Sleep.Wake(e.Model),
	}
	r.matrix, r.captured = e.StepMatrix.Value, e.Captured
	r.experts, r.unused, r.PrefillsFirst = e.StepExperts.Value, e.Model.UnusedExperts(), e.PrefillsFirst
	r.adds = e.Adds
	r.hostSequence = min(e.StepSequence.Value, costs.HostPerSequence)
	r.Sequence = e.StepSequence.Value - r.hostSequence
	if mps {
		// Part of which kernels wait for each other, so that nothing is seen of what a product
		// of matrices takes more than one with a vector: on an H100 and an H200 a step of two
		// sequences takes no longer than that of one (1B and 8B, -0.12 to 0.00 ms).
		r.Step, r.matrix = r.Step+e.MPSStep.Value, 0
	}
	if e.Adapters.Slots > 0 {
		r.loraStep, r.loraEach, r.loraPrefill = e.Adapters.Step.Value, e.Adapters.Each.Value, e.Adapters.Prefill.Value
		r.loraLoad, r.loraFetch = e.Adapters.Load.Value, e.Adapters.Fetch.Value
	}
	return r
}

// batched is the GPU's time for the sequences of a decode step, but for their contexts.
func (r *Rates) batched(n int) float64 {
	if n < 2 {
		return r.Sequence * float64(n)
	}
	read, rows := r.Step-r.Host, float64(costs.Padded(r.captured, n))
	return max(read+r.matrix+r.moreExperts(n), r.Token*rows) - read + r.Sequence*rows
}

// moreExperts is the time in which a step of so many tokens reads the experts that they use beyond those of one,
// each token's drawn evenly and by itself.
func (r *Rates) moreExperts(tokens int) float64 {
	if r.experts == 0 {
		return 0
	}
	return r.experts * (r.unused - math.Pow(r.unused, float64(tokens)))
}

// Activity is the work that a replica is at: units of equal length, each of host and gpu ms when nobody else is on
// the GPU.
type Activity struct {
	Kind      phase
	Host, GPU float64
	units     float64 // to do
	done      float64
	Unit      float64 // ms that a unit takes now
	Share     float64 // of the GPU that its work blocks under MPS
	Cost      float64 // to a neighbour, once it was asked for
	since     float64 // when done was right
	start     float64
	runs      bool // decodes: ends early, at a whole unit, when somebody comes
	decodes   int  // requests that get a token with each unit
}

// Alone returns the time of a unit when nobody else is on the GPU.
func (a *Activity) Alone() float64 { return max(1e-9, a.Host+a.GPU) }

func (a *Activity) due() float64 {
	if a.Kind == idle {
		return math.Inf(1)
	}
	return a.since + max(0, a.units-a.done)*a.Unit
}

func (a *Activity) advance(now float64) {
	if a.Kind != idle && now != a.since {
		a.done = min(a.units, a.done+(now-a.since)/a.Unit)
		a.since = now
	}
}

func (r *Replica) arrive(f *Flight, now float64) {
	if r.tooLarge(f) || r.Waiting.Len() >= MaxQueue {
		r.To.Reject(f, now)
		return
	}
	r.Waiting.Push(f)
	r.Pending += f.Input
	r.Stats.QueueHigh = max(r.Stats.QueueHigh, r.Waiting.Len())
	r.Rest.asked = now
	switch a := &r.Act; {
	case a.Kind == idle:
		r.Plan(now)
	case a.Kind == dozing:
		a.Kind = idle
		r.Plan(now)
	case a.runs && r.mayAdmit(f) && (r.Waiting.Len() == 1 || r.Waiting.at(0).blocked == BlockedAdapter):
		// The run ends at the step that is under way.
		a.advance(now)
		a.units = min(a.units, max(1, math.Ceil(a.done-1e-9)))
	}
}

func (r *Replica) tooLarge(f *Flight) bool {
	return blocksOf(f.Input+f.Output, r.Size) > r.KV.Total || f.Adapter > 0 && r.LoRA.slots == 0
}

func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// mayAdmit says whether a waiting request may find room now, without trying.
func (r *Replica) mayAdmit(f *Flight) bool {
	return len(r.Running)+len(r.Entered) < r.Rates.Sequences && r.KV.available() > 0 && r.Rest.admits()
}

// Finish ends the activity that is due now and plans the next.
func (r *Replica) Finish(now float64) {
	r.End(now)
	r.Plan(now)
}

// End ends the activity that is due now.
func (r *Replica) End(now float64) {
	a := r.Act
	r.Act.Kind = idle
	if a.Kind.Works() {
		r.Stats.Busy += now - a.start
		r.Stats.GPU += a.units * a.GPU
	}
	switch a.Kind {
	case Decoding:
		r.stepped(int64(a.units), &a, now)
	case Prefilling:
		r.computed(now, &a)
	case loading:
		r.stall += now - a.start
		r.stalled = len(r.Running)
	case dozing:
		r.begin(now, Activity{Kind: fallingAsleep, Host: r.Rates.fallAsleep, units: 1})
	case fallingAsleep, waking:
		r.GPU.slept(r, a.Kind, now)
	}
}

// Plan decides what the replica does next, if anything.
func (r *Replica) Plan(now float64) {
	if r.Act.Kind != idle {
		return
	}
	if r.GPU != nil && !r.GPU.awake(r, now) {
		return
	}
	if !(r.turn && len(r.Running) > 0 && r.Rates.chunk == 0) {
		if load := r.admit(now); load > 0 {
			r.begin(now, Activity{Kind: loading, Host: load, units: 1})
			return
		}
	}
	switch {
	case len(r.Entered) > 0 && !(r.turn && len(r.Running) > 0 && r.Rates.chunk == 0):
		r.PrefillNext(now)
	case len(r.Running) > 0:
		r.Decode(now)
	case r.GPU != nil:
		r.GPU.rested(r, now)
	}
}

func (r *Replica) begin(now float64, a Activity) {
	a.since, a.start = now, now
	a.Unit = a.Alone()
	r.Act = a
	if r.GPU != nil {
		r.GPU.paced = false
	}
}

// replicaStats counts a replica's work. Times are in ms.
type replicaStats struct {
	Busy, GPU    float64
	QueueHigh    int
	Preemptions  int64
	AdapterLoads int64
	Completed    int64
	Prompt       int64 // tokens of prompts, and of these from the cache
	Cached       int64
	Blocked      [blockedCount]int64
}
