package loadgentest

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// kernel is a piece of GPU work. work is its length in seconds when it runs alone
// on the whole GPU, of which it then uses the fractions sm and bw.
type kernel struct{ work, sm, bw float64 }

// task is a sequence of kernels of one client, each starting as the one before ends. then, when not nil, gives the
// kernels that follow the last one at once, in the GPU's time and not when somebody has noticed; without any the
// task is done.
type task struct {
	kernels []kernel
	then    func() []kernel
	done    chan struct{}
}

// coreClient is a context on the GPU.
type coreClient struct {
	sm, bw float64 // the fractions of the GPU that it may use
	hold   float64 // of the time, in which the kernels of others wait for SMs that its own hold
	tasks  []*task
}

func (c *coreClient) head() *kernel {
	if len(c.tasks) == 0 {
		return nil
	}
	return &c.tasks[0].kernels[0]
}

// core is the discrete-event GPU, without a clock of its own: advance takes it
// from event to event. Times are seconds since its start.
type core struct {
	mode          Sharing
	quantum, cost float64
	now           float64
	clients       []*coreClient

	active   int // time-sliced: whose turn it is, -1 nobody's yet
	sliceEnd float64
	readyAt  float64 // time-sliced: when the switch to active is over

	busy, smUse, bwUse float64 // seconds of use since the start; see Activity
}

func newCore(mode Sharing, quantum, cost time.Duration) *core {
	return &core{mode: mode, quantum: quantum.Seconds(), cost: cost.Seconds(), active: -1}
}

// rates are the speeds at which the heads of the clients' queues run now, as
// fractions of their speed alone on the whole GPU.
func (c *core) rates() []float64 {
	rates := make([]float64, len(c.clients))
	var sm, bw float64
	for i, cl := range c.clients {
		k := cl.head()
		if k == nil || c.mode == SharingTimeSliced && (i != c.active || c.now < c.readyAt) {
			continue
		}
		// What the client may use at most bounds it whoever else is there.
		rates[i] = math.Min(1, math.Min(cl.sm/k.sm, cl.bw/k.bw))
	}
	if c.mode == SharingConcurrent {
		c.wait(rates)
	}
	for i, cl := range c.clients {
		if k := cl.head(); k != nil {
			sm += rates[i] * k.sm
			bw += rates[i] * k.bw
		}
	}
	if c.mode == SharingConcurrent {
		if over := math.Max(sm, bw); over > 1 {
			for i := range rates {
				rates[i] /= over
			}
		}
	}
	return rates
}

// wait slows each client by the SMs that others hold, who hold them the less the more they wait themselves.
func (c *core) wait(rates []float64) {
	if !slices.ContainsFunc(c.clients, func(o *coreClient) bool { return o.hold > 0 }) {
		return
	}
	most := slices.Clone(rates)
	for range 8 {
		for i := range rates {
			held := 0.0
			for k, o := range c.clients {
				if k != i {
					held += rates[k] * o.hold
				}
			}
			rates[i] = most[i] * (1 - math.Min(held, 0.95))
		}
	}
}

// turn gives the GPU to the next client with work when the active one has used its quantum or has nothing to do.
func (c *core) turn() {
	if c.mode != SharingTimeSliced {
		return
	}
	n := len(c.clients)
	if c.active >= 0 && c.active < n && c.clients[c.active].head() != nil && c.now < c.sliceEnd {
		return
	}
	for step := 1; step <= n; step++ {
		next := (c.active + step + n) % n
		if c.clients[next].head() == nil {
			continue
		}
		c.readyAt = c.now
		if next != c.active && c.active >= 0 {
			c.readyAt += c.cost
		}
		c.active, c.sliceEnd = next, c.readyAt+c.quantum
		return
	}
}

// next is the time of the next event if nothing is submitted before it, +Inf when the GPU is idle.
func (c *core) next() float64 {
	c.turn()
	at := math.Inf(1)
	for i, r := range c.rates() {
		if r > 0 {
			at = math.Min(at, c.now+c.clients[i].head().work/r)
		}
	}
	if c.mode == SharingTimeSliced && c.active >= 0 && c.active < len(c.clients) && c.clients[c.active].head() != nil {
		if c.now < c.readyAt {
			return c.readyAt
		}
		at = math.Min(at, c.sliceEnd)
	}
	return at
}

// advance runs the GPU up to the time to.
func (c *core) advance(to float64) {
	for c.now < to {
		at := c.next()
		rates := c.rates()
		reached := at <= to
		if !reached {
			at = to
		}
		elapsed := at - c.now
		c.now = at
		busy := false
		for i, r := range rates {
			if r == 0 {
				continue
			}
			busy = true
			k := c.clients[i].head()
			c.smUse += elapsed * r * k.sm
			c.bwUse += elapsed * r * k.bw
			k.work -= elapsed * r
			if k.work < 1e-9 {
				c.pop(c.clients[i])
			}
		}
		if busy {
			c.busy += elapsed
		}
	}
}

// pop removes the finished head of a client's queue.
func (c *core) pop(cl *coreClient) {
	t := cl.tasks[0]
	t.kernels = t.kernels[1:]
	if len(t.kernels) == 0 && t.then != nil {
		t.kernels = t.then()
		c.sliceEnd = c.now // nothing was queued for a moment, and an idle context yields
	}
	if len(t.kernels) == 0 {
		close(t.done)
		cl.tasks = cl.tasks[1:]
	}
}

// Activity counts the use of a simulated GPU since its start. SMUse and BandwidthUse are the time in use weighted
// by the fraction in use, so that SMUse over Elapsed is the mean utilisation of the SMs.
type Activity struct {
	Elapsed             time.Duration // since NewGPU
	Busy                time.Duration // in which a kernel ran
	SMUse, BandwidthUse time.Duration
}

// Activity returns the GPU's activity up to now. Differences of two are the activity between them.
func (g *GPU) Activity() Activity {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.core.advance(time.Since(g.start).Seconds())
	d := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	c := g.core
	return Activity{Elapsed: d(c.now), Busy: d(c.busy), SMUse: d(c.smUse), BandwidthUse: d(c.bwUse)}
}

// Simulation is servers on simulated GPUs. A nil one has none.
type Simulation struct {
	GPUs    []*GPU
	Servers []*Server
}

// Seat is a server's place in a Simulation.
type Seat struct {
	Index int // of the GPU, which takes the place of that of the options
	Options
}

// NewSimulation starts GPUs, and a server for each seat. It must be closed.
func NewSimulation(gpus []GPUOptions, seats ...Seat) (*Simulation, error) {
	s := &Simulation{}
	for _, o := range gpus {
		s.GPUs = append(s.GPUs, NewGPU(o))
	}
	for _, seat := range seats {
		seat.GPU = s.GPUs[seat.Index]
		srv, err := NewServer(seat.Options)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Servers = append(s.Servers, srv)
	}
	return s, nil
}

// Endpoints are the servers', in the order of their seats.
func (s *Simulation) Endpoints() []loadgen.Endpoint {
	if s == nil {
		return nil
	}
	var out []loadgen.Endpoint
	for _, srv := range s.Servers {
		e := loadgen.Endpoint{URL: srv.URL}
		if srv.opts.Pipe {
			e.Dial = srv.Dial
		}
		out = append(out, e)
	}
	return out
}

// Close stops the servers, then the GPUs.
func (s *Simulation) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, srv := range s.Servers {
		errs = append(errs, srv.Close())
	}
	for _, g := range s.GPUs {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}
