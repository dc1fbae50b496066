package serving

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Play runs a trace of requests, in ascending order of time, against the cluster, and says what the clients of each
// service see. Its memory grows with what is on its way at a time and with the KV caches, never with the number of
// requests; a replica refuses requests beyond 16,384 that wait. The same input gives the same report.
//
// When ctx ends, or a request is wrong, Play returns the report so far with the error. Requests are pulled as the
// simulated time goes on: an iterator that counts is the progress.
func (c *Cluster) Play(ctx context.Context, requests iter.Seq[Request]) (*Report, error) {
	p, err := c.play()
	if err != nil {
		return nil, err
	}
	err = p.run(ctx, requests)
	return p.report(), err
}

// play is a cluster while it is played. Times are in ms.
type play struct {
	c           *Cluster
	gpus        []*batching.GPU
	services    []*service
	calibration *costs.Calibration
	events      events
	spare       batching.Spares
	flying      int // requests on their way
	now         float64
	from        float64
	until       float64
}

// service is a service while it is played.
type service struct {
	p          *play
	s          *Service
	at         int
	replicas   []*batching.Replica
	router     Router
	states     []ReplicaState
	unitTokens int // of a prefix's block; 0 without prefix cache
	tally      *tally
	near       []nearby
	adapters   map[int32]*tally
	closed     []float64 // when clients send their next requests, ascending
	pull       func() (Request, bool)
}

func (c *Cluster) play() (*play, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &play{c: c, from: batching.InMillis(c.Warmup), until: math.Inf(1)}
	if c.Until > 0 {
		p.until = batching.InMillis(c.Until)
	}
	if p.calibration = c.Calibration; p.calibration == nil {
		usual := costs.H200()
		p.calibration = &usual
	}
	for i, g := range c.GPUs {
		p.gpus = append(p.gpus, &batching.GPU{Constants: &p.calibration.Parameters, Mechanism: g.Mechanism,
			Memory: float64(g.Memory), Heap: i, Next: math.Inf(1)})
	}
	p.events = append(p.events, p.gpus...)
	for i := range c.Services {
		s := &c.Services[i]
		v := &service{p: p, s: s, at: i, router: s.Routing.Router(len(s.Replicas)), tally: newTally(3),
			adapters: map[int32]*tally{}}
		if !s.Engine.NoPrefixCache {
			v.unitTokens = c.prefixTokens()
		}
		for _, at := range s.Replicas {
			g := p.gpus[at.GPU]
			memory := c.memory(at)
			tokens, err := s.Engine.KVTokens(memory)
			if err != nil {
				return nil, err
			}
			size := s.Engine.Block()
			r := &batching.Replica{To: v, Sleep: &s.Engine.Sleep, GPU: g, Size: size, Unit: v.unitTokens,
				Phases: make([]int, size),
				Rates: batching.RatesOf(&s.Engine,
					g.Mechanism == sharing.MechanismMPS), LoRA: batching.NewAdapterSlots(&s.Engine.Adapters),
				KV: batching.NewKVCache(tokens/size, max(1, v.unitTokens/size))}
			r.Rest.Memory, r.Rest.Left, r.Rest.Since = float64(memory), float64(memory), math.Inf(-1)
			if s.Engine.Sleep.Level != costs.SleepNever {
				r.Rest.Left = float64(min(memory, s.Engine.Sleep.Asleep))
			}
			g.Replicas = append(g.Replicas, r)
			v.replicas = append(v.replicas, r)
			state := ReplicaState{KVCapacity: tokens, Holds: func(adapter int) bool { return r.LoRA.OnGPU.Has(uint64(adapter)) }}
			if v.unitTokens > 0 {
				state.Cached = r.KV.Hits
			}
			v.states = append(v.states, state)
		}
		p.services = append(p.services, v)
	}
	for _, g := range p.gpus {
		g.SettleDown()
	}
	heap.Init(&p.events)
	return p, nil
}

func (p *play) run(ctx context.Context, requests iter.Seq[Request]) error {
	if requests == nil {
		requests = func(func(Request) bool) {}
	}
	pull, stop := iter.Pull(requests)
	defer stop()
	for _, v := range p.services {
		if k := v.s.Clients; k != nil {
			next, stop := iter.Pull(k.Requests)
			defer stop()
			v.pull, v.closed = next, make([]float64, k.N)
		}
	}
	ahead, open := pull()
	last, n := 0.0, 0
	for events := 0; ; events++ {
		if events%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		// Whatever comes first: a request, a client's, or the end of an activity.
		at, from := math.Inf(1), -1
		if open {
			at = batching.InMillis(ahead.At)
		}
		for i, v := range p.services {
			if len(v.closed) > 0 && v.closed[0] < at {
				at, from = v.closed[0], i
			}
		}
		if math.IsInf(at, 1) && p.flying == 0 {
			return nil // replicas that fall asleep do not count
		}
		g := p.events[0]
		if next := min(at, g.Next); math.IsInf(next, 1) || next > p.until {
			if end := min(p.until, next); !math.IsInf(end, 1) {
				p.now = end
			}
			return nil
		}
		if g.Next <= at {
			p.now = g.Next
			g.Fire()
			heap.Fix(&p.events, 0)
			continue
		}
		p.now = at
		if from >= 0 {
			if err := p.client(p.services[from], at); err != nil {
				return fmt.Errorf("predict: services[%d].clients: %w", from, err)
			}
			continue
		}
		if err := p.check(&ahead, at, last); err != nil {
			return fmt.Errorf("predict: requests[%d]: %w", n, err)
		}
		if err := p.arrive(&ahead, at, false); err != nil {
			return fmt.Errorf("predict: requests[%d]: %w", n, err)
		}
		last = at
		n++
		ahead, open = pull()
	}
}

func (p *play) check(r *Request, at, last float64) error {
	var list problem.List
	list.If(at < last, "at", "sort the requests by time", "%v is before the request before it", r.At)
	if r.Service < 0 || r.Service >= len(p.services) {
		list.Addf("service", "", "is no index among %d services: %d", len(p.services), r.Service)
	}
	list.If(r.Input < 1 || r.Input > 1<<24, "input", "", "must be a number of tokens, at least 1, is %d", r.Input)
	list.If(r.Output < 1 || r.Output > 1<<24, "output", "", "must be a number of tokens, at least 1, is %d", r.Output)
	list.If(r.Adapter < 0 || r.Adapter > math.MaxInt32, "adapter", "0 is the base model", "is %d", r.Adapter)
	return list.Err()
}

func (p *play) client(v *service, at float64) error {
	v.closed = v.closed[:copy(v.closed, v.closed[1:])]
	r, ok := v.pull()
	if !ok {
		return nil
	}
	r.At, r.Service = batching.Millis(at), v.at
	if err := p.check(&r, at, at); err != nil {
		return err
	}
	return p.arrive(&r, at, true)
}

func (p *play) arrive(r *Request, at float64, client bool) error {
	v := p.services[r.Service]
	for i, q := range v.replicas {
		s := &v.states[i]
		s.Waiting, s.Running, s.Pending = q.Waiting.Len(), len(q.Running)+len(q.Entered), q.Pending
		s.KVUsed, s.Asleep = q.KV.Used()*q.Size, q.Rest.Asleep
	}
	to := v.router.Route(r, v.states)
	if to < 0 || to >= len(v.replicas) {
		return fmt.Errorf("the router of service %q chose %d among %d replicas", v.s.Name, to, len(v.replicas))
	}
	f := p.spare.Next(batching.Flight{Prefix: r.Prefix, Answer: r.Answer, Adapter: int32(r.Adapter),
		Input: r.Input, Output: r.Output, Came: at, Client: client})
	if v.unitTokens == 0 {
		f.Prefix, f.Answer = nil, nil
	} else {
		// A block that is not full is nobody else's, and the last token is in none.
		f.Prefix = f.Prefix[:min(len(f.Prefix), r.Input/v.unitTokens)]
		f.Answer = f.Answer[:min(len(f.Answer), (r.Input+r.Output-1)/v.unitTokens-len(f.Prefix))]
	}
	if at >= p.from {
		v.tally.Requests++
		v.tally.InputTokens += int64(r.Input)
	}
	p.flying++
	q := v.replicas[to]
	q.GPU.Arrive(q, f, at)
	heap.Fix(&p.events, q.GPU.Heap)
	return nil
}

// events are the GPUs by the time of their next event.
type events []*batching.GPU

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].Next < e[j].Next }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i]; e[i].Heap, e[j].Heap = i, j }
func (e *events) Push(any)          {}
func (e *events) Pop() any          { return nil }
