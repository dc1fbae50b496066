// SPDX-License-Identifier: Apache-2.0

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
)

// GPUOptions tune a GPU. The zero value is the documented default.
type GPUOptions struct {
	// Device defines how contexts share the GPU; nil gives each its own GPU, or part of one.
	Device Device
	Seed   uint64 // of the kernels' lengths
}

// Model describes an LLM's use of the GPU. The zero value is a small model.
type Model struct {
	// StepKernels is the number of kernels of a decode step; 0 means 16. KernelMean is their isolated mean length; 0 means
	// 0.5 ms. KernelCV is the coefficient of variation of their (log-normal) lengths; 0 means 0.3, a negative value none.
	StepKernels int
	KernelMean  time.Duration
	KernelCV    float64
	// PrefillPerToken is the prefill's length per prompt token; 0 means 20 µs.
	PrefillPerToken time.Duration
	// SMDemand and BandwidthDemand are the fractions of the GPU that an isolated decode kernel uses; 0 means 0.4 and 0.6.
	// A prefill kernel uses 0.9 of the SMs.
	SMDemand, BandwidthDemand float64
	// SMHold is the fraction of time in which kernels of others wait for SMs that the model's running kernels hold (MPS
	// takes no SM back from a kernel), for Devices with work other than model servers. 0 derives it from the demands.
	SMHold float64
	// SMShare and BandwidthShare are the fractions that the model may use: an MPS active thread percentage, a MIG
	// slice; 0 means all.
	SMShare, BandwidthShare float64
}

func (m Model) withDefaults() Model {
	m.StepKernels = cmp.Or(m.StepKernels, 16)
	m.KernelMean = cmp.Or(m.KernelMean, 500*time.Microsecond)
	m.PrefillPerToken = cmp.Or(m.PrefillPerToken, 20*time.Microsecond)
	for _, f := range []struct {
		v   *float64
		def float64
	}{{&m.KernelCV, 0.3}, {&m.SMDemand, 0.4}, {&m.BandwidthDemand, 0.6}, {&m.SMShare, 1}, {&m.BandwidthShare, 1}} {
		*f.v = cmp.Or(*f.v, f.def)
	}
	m.KernelCV = max(m.KernelCV, 0)
	return m
}

// errModel is returned for a Model that cannot be simulated.
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
	if m.StepKernels < 0 || m.KernelMean < 0 || m.PrefillPerToken < 0 || math.IsNaN(m.KernelCV) {
		errs = append(errs, fmt.Errorf("%w: negative lengths or counts", errModel))
	}
	return errors.Join(errs...)
}

// GPU is a simulated GPU that several servers' models share: a Device and the clock. Kernels have random lengths. Its
// figures are simulated. Safe for concurrent use.
type GPU struct {
	mu     sync.Mutex
	device Device
	rng    *rand.Rand
	start  time.Time
	wake   chan struct{}
	stop   context.CancelFunc
	done   chan struct{}

	smUse, bandwidthUse float64 // seconds
}

// newGPU starts a simulated GPU. The servers on it are closed first, then it.
func newGPU(opts GPUOptions) *GPU {
	ctx, stop := context.WithCancel(context.Background())
	g := &GPU{device: cmp.Or(opts.Device, Device(&apart{})), rng: rand.New(rand.NewPCG(opts.Seed, 1)),
		start: time.Now(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	go g.loop(ctx)
	return g
}

func (g *GPU) close() {
	g.stop()
	<-g.done
}

// loop takes the device from event to event as time passes.
func (g *GPU) loop(ctx context.Context) {
	defer close(g.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		g.mu.Lock()
		next, ok := g.device.Advance(time.Since(g.start))
		g.mu.Unlock()
		if !ok {
			timer.Stop()
		} else {
			timer.Reset(time.Until(g.start.Add(next)))
		}
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		case <-timer.C:
		}
	}
}

// Activity counts the use of a simulated GPU since its start. SMUse and BandwidthUse are the time in use weighted
// by the fraction in use, so that SMUse over Elapsed is the mean utilisation of the SMs.
type Activity struct {
	Elapsed             time.Duration // since its start
	Busy                time.Duration // with a kernel running
	SMUse, BandwidthUse time.Duration // of kernels that have ended
}

// Activity returns the GPU's activity up to now. Subtract two results for the activity between them.
func (g *GPU) Activity() Activity {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Since(g.start)
	g.device.Advance(now)
	d := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return Activity{Elapsed: now, Busy: g.device.Busy(), SMUse: d(g.smUse), BandwidthUse: d(g.bandwidthUse)}
}

// attach adds a model's context.
func (g *GPU) attach(m Model) (*gpuClient, error) {
	m = m.withDefaults()
	if err := m.check(); err != nil {
		return nil, err
	}
	c := &gpuClient{gpu: g, model: m, done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.device.Advance(time.Since(g.start))
	c.off = g.device.Attach(c.next)
	return c, nil
}

// gpuClient is an inference engine with continuous batching: a step of the whole batch gives every sequence in it one
// token. The prompts that wait are computed between two steps, and the end of that gives each its first token, as the
// forward pass of a prompt does in vLLM and in package predict's simulation. gpu.mu guards all of it.
type gpuClient struct {
	gpu   *GPU
	model Model
	off   func()
	done  chan struct{}

	kernels []Kernel // of the step, or of prompts; the first one runs
	waiting []*sequence
	prompts []*sequence // being computed; none in a step
	running []*sequence
}

// sequence is one answer being generated.
type sequence struct {
	client *gpuClient
	prompt int // tokens to compute
	left   int
	tokens chan struct{} // one element a token; never full
	ended  bool
}

func (c *gpuClient) begin(r Request, tokens int) *sequence {
	s := &sequence{client: c, prompt: max(1, r.PromptTokens), left: tokens,
		tokens: make(chan struct{}, tokens)}
	g := c.gpu
	g.mu.Lock()
	c.waiting = append(c.waiting, s)
	g.device.Advance(time.Since(g.start))
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
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
	s.client.gpu.mu.Lock()
	defer s.client.gpu.mu.Unlock()
	s.ended = true
}

// detach takes the model's context off the GPU.
func (c *gpuClient) detach() {
	c.gpu.mu.Lock()
	defer c.gpu.mu.Unlock()
	if c.off != nil {
		c.off()
		close(c.done)
		c.off = nil
	}
}

// What a prefill kernel uses of the SMs alone, and the kernels of a prefill.
const (
	prefillSM      = 0.9
	prefillKernels = 8
)

// stepGap is the host's time between two steps. It is short, and the GPU goes to whoever has work meanwhile.
const stepGap = time.Nanosecond

// next accounts for the kernel that has ended, if one has, and returns the next: of the step, or of the one after.
func (c *gpuClient) next() (Kernel, bool) {
	if len(c.kernels) > 0 {
		k := c.kernels[0]
		c.gpu.smUse += k.Length.Seconds() * k.SMs
		c.gpu.bandwidthUse += k.Length.Seconds() * k.Bandwidth
		if c.kernels = c.kernels[1:]; len(c.kernels) > 0 {
			return c.kernels[0], true
		}
		c.tokens()
	}
	if c.work(); len(c.kernels) == 0 {
		return Kernel{}, false
	}
	c.kernels[0].Gap = stepGap
	return c.kernels[0], true
}

// batchCost is the growth of a step with each further sequence in the batch.
const batchCost = 0.01

// work draws the kernels of new prompts, or else of a step, which follows prompts if any sequence needs one.
func (c *gpuClient) work() {
	m := &c.model
	ended := func(s *sequence) bool { return s.ended || s.left == 0 }
	c.waiting, c.running = slices.DeleteFunc(c.waiting, ended), slices.DeleteFunc(c.running, ended)
	switch after := c.prompts; {
	case len(c.waiting) > 0 && (len(after) == 0 || len(c.running) == 0):
		c.prompts, c.waiting = c.waiting, nil
		prefill := 0.0
		for _, s := range c.prompts {
			prefill += m.PrefillPerToken.Seconds() * float64(s.prompt)
		}
		c.draw(prefillKernels, prefill/prefillKernels, Kernel{SMs: prefillSM, Prefill: true})
	case len(c.running) > 0:
		c.prompts = nil
		mean := m.KernelMean.Seconds() * (1 + batchCost*float64(len(c.running)-1))
		c.draw(m.StepKernels, mean, Kernel{SMs: m.SMDemand})
	}
}

// draw adds n kernels of a mean length in seconds to the step, as long as the model's shares make them.
func (c *gpuClient) draw(n int, mean float64, k Kernel) {
	m := &c.model
	speed := min(1, m.SMShare/k.SMs, m.BandwidthShare/m.BandwidthDemand)
	k.SMs, k.Bandwidth, k.Hold, k.SMShare = k.SMs*speed, m.BandwidthDemand*speed, m.SMHold, m.SMShare
	sigma := math.Sqrt(math.Log1p(m.KernelCV * m.KernelCV))
	for range n {
		k.Length = time.Duration(1e9 * mean / speed * math.Exp(sigma*c.gpu.rng.NormFloat64()-sigma*sigma/2))
		c.kernels = append(c.kernels, k)
	}
}

// tokens gives the prompts that were computed their first token, or every running sequence its next.
func (c *gpuClient) tokens() {
	to := c.running
	if len(c.prompts) > 0 {
		to, c.running = c.prompts, append(c.running, c.prompts...)
	}
	for _, s := range to {
		if s.left > 0 {
			s.left--
			s.tokens <- struct{}{}
		}
	}
}
