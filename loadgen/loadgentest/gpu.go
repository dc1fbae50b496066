package loadgentest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
)

// Sharing says how the models on a simulated GPU share it. The zero value is SharingTimeSliced.
type Sharing uint8

// The ways to share.
const (
	SharingTimeSliced  Sharing = iota // the whole GPU in turn, for a quantum each
	SharingConcurrent                 // at the same time, as under MPS: SMs and bandwidth are contended for
	SharingPartitioned                // at the same time, each on its own share, as under MIG
)

var sharingNames = enum.Of[Sharing](ErrUnknownName, "sharing", "time-sliced", "concurrent", "partitioned")

// The defaults of GPUOptions: the quantum and the cost of a switch between
// contexts that were measured on an H200 with the default time-slice.
const (
	DefaultQuantum = 2090 * time.Microsecond
	DefaultSwitch  = 153 * time.Microsecond
)

// GPUOptions tune a GPU. The zero value is the documented default.
type GPUOptions struct {
	Sharing Sharing
	Quantum time.Duration // 0 means DefaultQuantum
	// Switch is the cost of giving the GPU to another context; 0 means DefaultSwitch, a negative value none.
	Switch time.Duration
	Seed   uint64 // of the kernels' lengths
}

// Model describes the use that an LLM makes of the GPU. The zero value is a small model.
type Model struct {
	// StepKernels is the number of kernels of a decode step; 0 means 16. KernelMean is their mean length alone on
	// the GPU; 0 means 0.5 ms. KernelCV is the coefficient of variation of their (log-normal) lengths; 0 means 0.3,
	// a negative value none.
	StepKernels int
	KernelMean  time.Duration
	KernelCV    float64
	// BatchCost is the growth of a step with each further sequence in the batch; 0 means 0.01.
	BatchCost float64
	// ContextCost is the growth of a step for each 1000 tokens of context in the batch; 0 means none.
	ContextCost time.Duration
	// PrefillPerToken is the prefill's length per prompt token that is not in a prefix
	// cache; 0 means 20 µs. PrefillLeast is how long it takes at least; 0 means no bound.
	PrefillPerToken, PrefillLeast time.Duration
	// SMDemand and BandwidthDemand are the fractions of the GPU that a decode kernel uses when it runs alone; 0 means
	// 0.4 and 0.6. A prefill kernel uses 0.9 and 0.3.
	SMDemand, BandwidthDemand float64
	// SMHold is the fraction of the time in which kernels of others wait for SMs that the model's running kernels
	// hold, under SharingConcurrent: MPS takes no SM back from a kernel, so that short kernels wait for long ones,
	// and not the other way round. 0 means that kernels contend for what they demand, and no more.
	SMHold float64
	// SMShare and BandwidthShare are the fractions that the model may use: an MPS active thread percentage, a MIG
	// slice; 0 means all. Bandwidth can be limited under
	// SharingPartitioned only.
	SMShare, BandwidthShare float64
}

func (m Model) withDefaults() Model {
	m.StepKernels = cmp.Or(m.StepKernels, 16)
	m.KernelMean = cmp.Or(m.KernelMean, 500*time.Microsecond)
	m.PrefillPerToken = cmp.Or(m.PrefillPerToken, 20*time.Microsecond)
	for _, f := range []struct {
		v   *float64
		def float64
	}{{&m.KernelCV, 0.3}, {&m.BatchCost, 0.01}, {&m.SMDemand, 0.4}, {&m.BandwidthDemand, 0.6}, {&m.SMShare, 1},
		{&m.BandwidthShare, 1}} {
		*f.v = cmp.Or(*f.v, f.def)
	}
	m.KernelCV = max(m.KernelCV, 0)
	return m
}

// errModel says that a Model cannot be simulated.
var errModel = errors.New("loadgentest: invalid model")

func (m Model) check() error {
	var errs []error
	for _, f := range []struct {
		name string
		v    float64
	}{{"SMDemand", m.SMDemand}, {"BandwidthDemand", m.BandwidthDemand}, {"SMShare", m.SMShare},
		{"BandwidthShare", m.BandwidthShare}} {
		if !(f.v > 0 && f.v <= 1) {
			errs = append(errs, fmt.Errorf("%w: %s is %v (use a fraction above 0, at most 1)", errModel, f.name, f.v))
		}
	}
	if !(m.SMHold >= 0 && m.SMHold <= 1) {
		errs = append(errs, fmt.Errorf("%w: SMHold is %v (use a fraction of 0 to 1)", errModel, m.SMHold))
	}
	if m.StepKernels < 0 || m.KernelMean < 0 || m.PrefillPerToken < 0 || m.PrefillLeast < 0 || m.ContextCost < 0 ||
		m.BatchCost < 0 || math.IsNaN(m.KernelCV) {
		errs = append(errs, fmt.Errorf("%w: negative lengths or counts", errModel))
	}
	return errors.Join(errs...)
}

// GPU is a simulated GPU that several servers' models share. It is simulated
// event by event: kernels of random length, quanta, switches, contention. Its
// figures are those of a simulation and of no real GPU. Safe for concurrent use.
type GPU struct {
	mu    sync.Mutex
	core  *core
	rng   *rand.Rand
	start time.Time
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

// NewGPU starts a simulated GPU. Close the servers on it first, then it.
func NewGPU(opts GPUOptions) *GPU {
	if opts.Quantum <= 0 {
		opts.Quantum = DefaultQuantum
	}
	opts.Switch = cmp.Or(opts.Switch, DefaultSwitch)
	ctx, stop := context.WithCancel(context.Background())
	g := &GPU{
		core: newCore(opts.Sharing, opts.Quantum, max(opts.Switch, 0)), rng: rand.New(rand.NewPCG(opts.Seed, 1)),
		start: time.Now(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
	}
	go g.loop(ctx)
	return g
}

// Close stops the GPU.
func (g *GPU) Close() error {
	g.stop()
	<-g.done
	return nil
}

// loop takes the core from event to event as time passes.
func (g *GPU) loop(ctx context.Context) {
	defer close(g.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		g.mu.Lock()
		g.core.advance(time.Since(g.start).Seconds())
		next := g.core.next()
		g.mu.Unlock()
		if math.IsInf(next, 1) {
			timer.Stop()
		} else {
			// Rounded up and one more, or the wake-up could come before the event.
			timer.Reset(time.Until(g.start.Add(time.Duration(math.Ceil(next*1e9)) + 1)))
		}
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		case <-timer.C:
		}
	}
}

// submit gives the client's context the kernels of steps until one has none.
// Each step is drawn as the one before it ends, with g.mu held.
func (g *GPU) submit(c *coreClient, first, then func() []kernel) <-chan struct{} {
	t := &task{then: then, done: make(chan struct{})}
	g.mu.Lock()
	g.core.advance(time.Since(g.start).Seconds())
	t.kernels = first()
	if len(t.kernels) == 0 {
		g.mu.Unlock()
		return nil
	}
	c.tasks = append(c.tasks, t)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return t.done
}

// kernels draws n kernels of the mean length. g.mu is held.
func (g *GPU) kernels(n int, mean, cv, sm, bw float64) []kernel {
	sigma := math.Sqrt(math.Log1p(cv * cv))
	out := make([]kernel, n)
	for i := range out {
		out[i] = kernel{work: mean * math.Exp(sigma*g.rng.NormFloat64()-sigma*sigma/2), sm: sm, bw: bw}
	}
	return out
}

// attach adds a model's context and starts its engine.
func (g *GPU) attach(m Model) (*gpuClient, error) {
	m = m.withDefaults()
	if err := m.check(); err != nil {
		return nil, err
	}
	c := &gpuClient{gpu: g, model: m, core: &coreClient{sm: m.SMShare, bw: 1, hold: m.SMHold},
		work: make(chan struct{}, 1), done: make(chan struct{})}
	g.mu.Lock()
	if g.core.mode == SharingPartitioned {
		c.core.bw = m.BandwidthShare
	}
	g.core.advance(time.Since(g.start).Seconds())
	g.core.clients = append(g.core.clients, c.core)
	g.mu.Unlock()
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	go c.engine(ctx)
	return c, nil
}

// gpuClient is an inference engine with continuous batching: a step of the whole
// batch gives every sequence in it one token.
type gpuClient struct {
	gpu   *GPU
	model Model
	core  *coreClient
	stop  context.CancelFunc
	done  chan struct{}
	work  chan struct{}

	mu      sync.Mutex
	waiting []*sequence
	running []*sequence
}

// sequence is one answer being generated.
type sequence struct {
	client *gpuClient
	prompt int // tokens to compute
	held   int // tokens of context
	left   int
	tokens chan struct{} // one element a token; never full
	ended  bool          // guarded by client.mu
}

func (c *gpuClient) begin(r Request, tokens int) *sequence {
	s := &sequence{client: c, prompt: max(1, r.PromptTokens-r.CachedTokens.Or(0)), held: r.PromptTokens, left: tokens,
		tokens: make(chan struct{}, tokens)}
	c.mu.Lock()
	c.waiting = append(c.waiting, s)
	c.mu.Unlock()
	select {
	case c.work <- struct{}{}:
	default:
	}
	return s
}

// next waits for the sequence's next token; false means that it will not come.
func (s *sequence) next(ctx context.Context) bool {
	select {
	case <-s.tokens:
		return true
	case <-ctx.Done():
	case <-s.client.done:
	}
	return false
}

// end takes the sequence out of the batch.
func (s *sequence) end() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.ended = true
}

// detach stops the engine and takes its context off the GPU.
func (c *gpuClient) detach() {
	c.stop()
	<-c.done
	g := c.gpu
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.core.clients, c.core)
	if i < 0 {
		return
	}
	g.core.clients = slices.Delete(g.core.clients, i, i+1)
	if g.core.active >= i {
		g.core.active-- // the one before it in turn; its slice ends with it
		g.core.sliceEnd = g.core.now
	}
}

// engine runs steps whenever there is a sequence.
func (c *gpuClient) engine(ctx context.Context) {
	defer close(c.done)
	for {
		busy := c.gpu.submit(c.core, c.step, func() []kernel {
			c.tokens()
			return c.step()
		})
		if busy == nil {
			select {
			case <-ctx.Done():
				return
			case <-c.work:
				continue
			}
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return
		}
	}
}

// The fractions of the GPU that a prefill kernel uses alone: it is bound by compute.
const (
	prefillSM, prefillBandwidth = 0.9, 0.3
	prefillKernels              = 8
)

// step draws the kernels of the next step: the prefill of what is new, and one
// token for every sequence. The GPU's mu is held.
func (c *gpuClient) step() []kernel {
	c.mu.Lock()
	fresh, prefill := 0, time.Duration(0)
	for _, s := range c.waiting {
		fresh += s.prompt
		prefill += max(c.model.PrefillPerToken*time.Duration(s.prompt), c.model.PrefillLeast)
	}
	c.running = append(c.running, c.waiting...)
	c.waiting = nil
	c.running = slices.DeleteFunc(c.running, func(s *sequence) bool { return s.ended || s.left == 0 })
	n, context := len(c.running), 0
	for _, s := range c.running {
		context += s.held
	}
	c.mu.Unlock()
	if n == 0 {
		return nil
	}
	m := c.model
	var ks []kernel
	if fresh > 0 {
		mean := prefill.Seconds() / prefillKernels
		ks = c.gpu.kernels(prefillKernels, mean, m.KernelCV, prefillSM, prefillBandwidth)
	}
	mean := m.KernelMean.Seconds()*(1+m.BatchCost*float64(n-1)) +
		m.ContextCost.Seconds()*float64(context)/1e3/float64(m.StepKernels)
	return append(ks, c.gpu.kernels(m.StepKernels, mean, m.KernelCV, m.SMDemand, m.BandwidthDemand)...)
}

// tokens gives every running sequence its token.
func (c *gpuClient) tokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.running {
		if s.left > 0 {
			s.left--
			s.held++
			s.tokens <- struct{}{}
		}
	}
}
