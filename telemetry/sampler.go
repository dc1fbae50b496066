// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// Defaults of SamplerOptions.
const (
	defaultPeriod     = 100 * time.Millisecond
	defaultSlowPeriod = time.Second
)

// stall is the longest time of a reading before its device counts as down (EventHung).
const stall = 2 * time.Second

// lastWait is the time for which Stream waits, after its context ended, for readings that are under way.
const lastWait = time.Second

const minSlowPeriod = 100 * time.Millisecond // the least time between two readings of GPM (nvml.h)

// SamplerOptions configure a Sampler. The zero value samples everything, every 100 ms and every second.
type SamplerOptions struct {
	// Period is the period of the fast clock, for GroupsFast. 0 means 100 ms.
	Period time.Duration
	// SlowPeriod is the period of the slow clock, for GroupsSlow, at least 100 ms. 0 means a second, or Period if that is
	// longer.
	SlowPeriod time.Duration
	// Skip leaves groups out.
	Skip Groups
	// Logger takes the events of the sampling; nil discards them.
	Logger *slog.Logger
}

// Sampler reads every device of a reader on two clocks. Each device is read independently, so that one that blocks does
// not delay the others. All schedules are absolute: a late tick does not shift later ones, and missed ticks are skipped
// and recorded. A Sampler may be reused, and is safe for concurrent use.
type Sampler struct {
	src  Reader
	opts SamplerOptions
}

// NewSampler returns a sampler. The error names every problem of the options.
func NewSampler(src Reader, opts SamplerOptions) (*Sampler, error) {
	var probs problem.List
	probs.If(src == nil, "reader", "open one with telemetrynvml.Open or write a telemetrytest.Script",
		"telemetry: there is no reader")
	probs.If(opts.Period < 0, "period", "leave it 0 for the default of "+defaultPeriod.String(),
		"telemetry: a period of %v", opts.Period)
	opts.Period = cmp.Or(opts.Period, defaultPeriod)
	opts.SlowPeriod = cmp.Or(opts.SlowPeriod, max(defaultSlowPeriod, opts.Period))
	probs.If(opts.SlowPeriod < minSlowPeriod, "slow_period",
		"use at least 100ms: GPM needs as much between two readings", "telemetry: a slow period of %v", opts.SlowPeriod)
	probs.If(opts.SlowPeriod >= minSlowPeriod && opts.SlowPeriod < opts.Period, "slow_period",
		"make it at least as long as the period", "telemetry: the slow period of %v is shorter than the period of %v",
		opts.SlowPeriod, opts.Period)
	probs.If((GroupsFast|GroupsSlow)&^opts.Skip == 0, "skip", "leave at least one group",
		"telemetry: every group is skipped")
	if err := probs.Err(); err != nil {
		return nil, err
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Sampler{src: src, opts: opts}, nil
}

// Run samples until ctx ends and returns the series. The end of ctx is not an error. On an error the series holds the
// samples so far.
func (s *Sampler) Run(ctx context.Context) (*Series, error) {
	series := new(Series)
	err := s.Stream(ctx, series)
	return series, err
}

// Stream samples until ctx ends or a sink fails, giving each sample to every sink. A driver call cannot be interrupted:
// at the end Stream waits up to a second for a reading in progress. One that hangs is abandoned, its device is recorded
// as down (EventHung), and the sinks get nothing more. The end of ctx is not an error.
func (s *Sampler) Stream(ctx context.Context, sinks ...Sink) error {
	devices, err := s.src.Devices(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	r, err := s.begin(start, devices, sinks)
	if err != nil {
		return err
	}
	r.elapsed = func() time.Duration { return time.Since(start) }
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	exited, readers := make(chan struct{}), 0
	read := func(device int, period time.Duration, tick func(int64)) {
		readers++
		go func() {
			r.every(ctx, device, period, tick)
			select {
			case exited <- struct{}{}:
			case <-r.left:
			}
		}()
	}
	for d := range devices {
		if GroupsFast&^s.opts.Skip != 0 {
			w := r.worker(d, clockFast)
			read(d, s.opts.Period, func(n int64) { r.fast(ctx, w, n) })
		}
		// The slow clock runs even when its groups are skipped: it also looks for lost devices.
		w := r.worker(d, clockSlow)
		read(d, s.opts.SlowPeriod, func(n int64) { r.slow(ctx, w, n) })
	}
	<-ctx.Done()
	return r.end(exited, readers)
}

// end waits for the readers that answer, notes which hang, and closes the sinks to them.
func (r *run) end(exited <-chan struct{}, readers int) error {
	defer close(r.left)
	timer := time.NewTimer(lastWait)
	defer timer.Stop()
	for late := false; readers > 0 && !late; readers-- {
		select {
		case <-exited:
		case <-timer.C:
			late = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := range r.devices {
		for c := range r.devices[d].reading {
			r.hung(d, clock(c))
		}
	}
	r.closed = true
	return r.err
}

// begin makes the state of one sampling and gives every sink the header.
func (s *Sampler) begin(start time.Time, devices []Device, sinks []Sink) (*run, error) {
	if len(devices) == 0 {
		return nil, errNoDevices
	}
	r := &run{s: s, start: start, sinks: sinks, devices: make([]deviceState, len(devices)), stop: func() {},
		left: make(chan struct{})}
	for i := range r.devices {
		r.devices[i].failures = map[Groups]int{}
	}
	h := Header{Info: s.src.Info(), Start: start, Devices: devices, Period: s.opts.Period, SlowPeriod: s.opts.SlowPeriod}
	for _, sink := range sinks {
		if err := sink.Begin(h); err != nil {
			return nil, err
		}
	}
	return r, nil
}

type run struct {
	s       *Sampler
	start   time.Time
	sinks   []Sink
	elapsed func() time.Duration // the time since the start
	stop    func()               // ends the sampling
	left    chan struct{}        // closed when Stream returns

	mu      sync.Mutex // everything below
	devices []deviceState
	err     error
	closed  bool // Stream has returned: the sinks are the caller's again
}

// every calls tick at each multiple of period since the start, until ctx ends, and records a device's gaps.
func (r *run) every(ctx context.Context, device int, period time.Duration, tick func(int64)) {
	timer := time.NewTimer(period)
	defer timer.Stop()
	last := r.start
	for n := int64(0); ctx.Err() == nil; n++ {
		if early := time.Until(r.start.Add(time.Duration(n) * period)); early > 0 {
			timer.Reset(early)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		now := time.Now()
		if due := int64(now.Sub(r.start) / period); due > n {
			r.event(Event{Kind: eventGap, Device: device, Length: now.Sub(last), Count: int(due - n),
				Detail: period.String() + " clock"})
			n = due
		}
		last = now
		tick(n)
	}
}

func (r *run) fast(ctx context.Context, w *worker, n int64) {
	if ctx.Err() != nil || r.lost(w.device) {
		return
	}
	w.x = Sample{Device: w.device, Tick: n}
	for _, g := range [...]Groups{GroupBasic, GroupProcesses} {
		if r.s.opts.Skip&g == 0 && !r.read(ctx, w, g) {
			break
		}
	}
	r.sample(&w.x)
}

func (r *run) slow(ctx context.Context, w *worker, n int64) {
	r.retry(ctx, w, n)
	for g := GroupGPM; g < groupEnd; g <<= 1 {
		r.slowGroup(ctx, w, g, n)
	}
}

// retry looks whether a lost device is there again.
func (r *run) retry(ctx context.Context, w *worker, n int64) {
	if r.lost(w.device) && ctx.Err() == nil {
		w.x = Sample{Device: w.device, Tick: n}
		r.read(ctx, w, GroupBasic)
	}
}

func (r *run) slowGroup(ctx context.Context, w *worker, g Groups, n int64) {
	if r.s.opts.Skip&g != 0 || ctx.Err() != nil || r.lost(w.device) {
		return
	}
	w.x = Sample{Device: w.device, Tick: n}
	r.read(ctx, w, g)
	r.sample(&w.x)
}

// sample stamps x and gives it to the sinks. The stamp is taken under the lock, so that samples come in order of time.
func (r *run) sample(x *Sample) {
	if x.Groups == 0 && !x.Has() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.err != nil {
		return
	}
	x.At = r.elapsed()
	for _, sink := range r.sinks {
		if r.err = sink.Sample(x); r.err != nil {
			r.stop()
			return
		}
	}
}

func (r *run) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.emit(e)
}

// emit gives an event to the sinks; r.mu is held.
func (r *run) emit(e Event) {
	if r.closed {
		return
	}
	e.At = r.elapsed()
	r.s.opts.Logger.Info("telemetry event", "kind", string(e.Kind), "device", e.Device, "length", e.Length,
		"count", e.Count, "detail", e.Detail)
	for _, sink := range r.sinks {
		if r.err != nil {
			return
		}
		if r.err = sink.Event(e); r.err != nil {
			r.stop()
		}
	}
}
