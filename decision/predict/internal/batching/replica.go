// Package batching simulates servers with continuous batching (Yu et al., Orca, OSDI 2022) and the GPU that they share,
// event by event.
package batching

import (
	"math"
	"slices"
	"time"
)

// SimulationSeed seeds all predictions: the same input gives the same bytes.
const SimulationSeed = 1

func Millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func InMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Flight is a request on its way. Times are in ms.
type Flight struct {
	Input, Output int // tokens
	Came, First   float64
}

// Spares are flights that have ended, for the next requests.
type Spares []*Flight

// Next returns a flight that begins as f.
func (s *Spares) Next(f Flight) *Flight {
	k := len(*s) - 1
	if k < 0 {
		next := f // here alone it escapes
		return &next
	}
	next := (*s)[k]
	*s, *next = (*s)[:k], f
	return next
}

// Audience sees what a replica does to requests: the clients of a tenant. Times are in ms.
type Audience interface {
	Started(f *Flight)           // its first token, at f.First
	Tokens(n int64, now float64) // given at a time
	Ended(f *Flight, now float64)
}

// Replica is one server with continuous batching and room for every context: what it does and what waits. It does one
// thing at a time, an activity of so many equal units: a prefill of one prompt, or a run of decode steps until its
// batch changes. Times are in ms.
type Replica struct {
	To    Audience
	Rates Rates
	GPU   *GPU // nil: whoever runs the replica ends its activities
	Steps bool // decodes step by step

	Waiting queue
	Running []*Flight // decoding, in the order of admission
	marks   []int64   // of the running: the tick at which each ends
	ticks   int64     // decode steps done

	Act     Activity
	prompt  *Flight // whose prefill runs
	decodes bool    // a decode step comes before the next prefill
}

// Rates holds the times of a replica's work isolated on the GPU, in ms.
type Rates struct {
	Step, Host    float64 // a decode step, and the host's part of it
	Sequence      float64 // more of each sequence in a step, on the GPU
	Prefill, Busy float64 // a prefill at least, where launches bound it, and the GPU's part of that
	Token         float64 // of a prompt
	SlowPrefill   float64 // factor of computing prompts
	HostToken     float64 // the host's time for a token of a prompt
	Share         float64 // of the GPU that its work blocks
	PrefillsFirst bool    // waiting prefills run before anybody decodes; else one between two steps
	Sequences     int     // most in a batch
}

// step is the GPU's time for a decode step of n sequences, whose tokens are multiplied as a prompt's are.
func (r *Rates) step(n int) float64 {
	read := r.Step - r.Host
	if n < 2 {
		return read + r.Sequence*float64(n)
	}
	rows := float64(n)
	return read + (max(read, r.Token*rows) - read + r.Sequence*rows)
}

type phase uint8

const (
	idle phase = iota
	Prefilling
	Decoding
)

// Works says that the GPU is used.
func (k phase) Works() bool { return k != idle }

// Activity is the work that a replica is at: units of equal length, each of Host and GPU ms when nobody else is on the
// GPU.
type Activity struct {
	Kind      phase
	Host, GPU float64
	units     float64 // to do
	done      float64
	Unit      float64 // ms that a unit takes now
	Share     float64 // of the GPU that its work blocks
	Cost      float64 // to a neighbour, once it was asked for
	since     float64 // when done was right
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
	r.Waiting.Push(f)
	switch a := &r.Act; {
	case a.Kind == idle:
		r.Plan(now)
	case a.Kind == Decoding && r.Waiting.Len() == 1 && r.hasRoom():
		// The run ends at the step that is under way.
		a.advance(now)
		a.units = min(a.units, max(1, math.Ceil(a.done-1e-9)))
	}
}

func (r *Replica) hasRoom() bool { return len(r.Running) < r.Rates.Sequences }

// Finish ends the activity that is due now and plans the next.
func (r *Replica) Finish(now float64) {
	r.End(now)
	r.Plan(now)
}

// End ends the activity that is due now.
func (r *Replica) End(now float64) {
	a := r.Act
	r.Act.Kind = idle
	switch a.Kind {
	case Prefilling:
		r.decodes = !r.Rates.PrefillsFirst
		r.first(now)
	case Decoding:
		r.stepped(int64(a.units), now)
	}
}

// Plan decides what the replica does next, if anything.
func (r *Replica) Plan(now float64) {
	switch {
	case r.Act.Kind != idle:
	case r.Waiting.Len() > 0 && r.hasRoom() && !(r.decodes && len(r.Running) > 0):
		r.prompt = r.Waiting.pop()
		a := Activity{Kind: Prefilling, units: 1, Share: r.Rates.Share}
		tokens := float64(r.prompt.Input)
		a.GPU = max(r.Rates.SlowPrefill*(tokens*r.Rates.Token), r.Rates.Busy*r.Rates.Prefill)
		a.Host = max(0, r.Rates.Prefill-a.GPU) + r.Rates.HostToken*tokens
		r.begin(now, a)
	case len(r.Running) > 0:
		r.decode(now)
	}
}

// first gives a request the token that its prefill ends with.
func (r *Replica) first(now float64) {
	f := r.prompt
	r.prompt, f.First = nil, now
	r.To.Started(f)
	r.To.Tokens(1, now)
	if f.Output == 1 {
		r.To.Ended(f, now)
		return
	}
	r.Running = append(r.Running, f)
	r.marks = append(r.marks, r.ticks+int64(f.Output-1))
}

// decode begins a run of steps in which the batch stays as it is: until the next request ends.
func (r *Replica) decode(now float64) {
	steps := slices.Min(r.marks) - r.ticks
	if r.Steps || r.decodes && r.Waiting.Len() > 0 && r.hasRoom() { // a prefill was held back for this step
		steps = 1
	}
	r.begin(now, Activity{Kind: Decoding, units: float64(steps), Share: r.Rates.Share, Host: r.Rates.Host,
		GPU: r.Rates.step(len(r.Running))})
}

func (r *Replica) stepped(steps int64, now float64) {
	r.decodes = false
	r.ticks += steps
	r.To.Tokens(int64(len(r.Running))*steps, now)
	k := 0
	for i, f := range r.Running {
		if r.marks[i] > r.ticks {
			r.Running[k], r.marks[k] = f, r.marks[i]
			k++
			continue
		}
		r.To.Ended(f, now)
	}
	clear(r.Running[k:])
	r.Running, r.marks = r.Running[:k], r.marks[:k]
}

func (r *Replica) begin(now float64, a Activity) {
	a.since = now
	a.Unit = a.Alone()
	r.Act = a
	if r.GPU != nil {
		r.GPU.paced = false
	}
}

// queue is a first-in, first-out queue.
type queue []*Flight

func (q *queue) Len() int { return len(*q) }

func (q *queue) Push(f *Flight) { *q = append(*q, f) }

// pop takes the first out. Where few wait the others move up, so that the queue's memory is used again.
func (q *queue) pop() *Flight {
	f := (*q)[0]
	if len(*q) < 64 {
		*q = slices.Delete(*q, 0, 1)
	} else {
		(*q)[0] = nil
		*q = (*q)[1:]
	}
	return f
}
