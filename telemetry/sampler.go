package telemetry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cotenant/cotenant/internal/problem"
)

// Defaults of SamplerOptions.
const (
	DefaultPeriod     = 100 * time.Millisecond
	DefaultSlowPeriod = time.Second
)

// minSlowPeriod is what GPM needs between two readings (nvml.h).
const minSlowPeriod = 100 * time.Millisecond

// SamplerOptions say how to sample. The zero value samples everything, every
// DefaultPeriod and DefaultSlowPeriod.
type SamplerOptions struct {
	// Period is the fast clock's: GroupsFast. 0 is DefaultPeriod.
	Period time.Duration
	// SlowPeriod is the slow clock's: GroupsSlow. 0 is DefaultSlowPeriod, or
	// Period when that is longer. It is at least 100 ms.
	SlowPeriod time.Duration
	// Skip leaves groups out.
	Skip Groups
	// Logger takes what happens to the sampling; nil discards it.
	Logger *slog.Logger
}

// Sampler reads every device of a reader on two clocks. Both schedules are
// absolute: a late tick does not shift those after it, and ticks that were
// missed are left out and recorded. A Sampler may be used again, and by
// several goroutines.
type Sampler struct {
	src  Reader
	opts SamplerOptions
	log  *slog.Logger
}

// NewSampler checks the options, naming everything that is wrong with them.
func NewSampler(src Reader, opts SamplerOptions) (*Sampler, error) {
	var probs problem.List
	if src == nil {
		probs.Addf("reader", "open one with telemetrynvml.Open or write a telemetrytest.Script", "telemetry: there is no reader")
	}
	if opts.Period < 0 {
		probs.Addf("period", "leave it 0 for the default of "+DefaultPeriod.String(), "telemetry: a period of %v", opts.Period)
	}
	opts.Period = cmp.Or(opts.Period, DefaultPeriod)
	opts.SlowPeriod = cmp.Or(opts.SlowPeriod, max(DefaultSlowPeriod, opts.Period))
	if opts.SlowPeriod < minSlowPeriod {
		probs.Addf("slow_period", "use at least 100ms: GPM needs as much between two readings", "telemetry: a slow period of %v", opts.SlowPeriod)
	}
	if opts.SlowPeriod >= minSlowPeriod && opts.SlowPeriod < opts.Period {
		probs.Addf("slow_period", "make it at least as long as the period", "telemetry: the slow period of %v is shorter than the period of %v", opts.SlowPeriod, opts.Period)
	}
	if (GroupsFast|GroupsSlow)&^opts.Skip == 0 {
		probs.Addf("skip", "leave at least one group", "telemetry: every group is skipped")
	}
	if err := probs.Err(); err != nil {
		return nil, err
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Sampler{src: src, opts: opts, log: log}, nil
}

// Run samples until ctx ends and returns the series. The end of ctx is no
// error. On an error the series holds what was sampled until then.
func (s *Sampler) Run(ctx context.Context) (*Series, error) {
	series := new(Series)
	err := s.Stream(ctx, series)
	return series, err
}

// Stream samples until ctx ends or a sink fails, giving each sample to every
// sink. It returns when both clocks have stopped; a reading under way is waited
// for, since a driver call cannot be broken off. The end of ctx is no error.
func (s *Sampler) Stream(ctx context.Context, sinks ...Sink) error {
	devices, err := s.src.Devices(ctx)
	if err != nil {
		return err
	}
	if len(devices) == 0 {
		return ErrNoDevices
	}
	start := time.Now()
	r, err := s.begin(start, devices, sinks)
	if err != nil {
		return err
	}
	r.elapsed = func() time.Duration { return time.Since(start) }
	clocks, ctx := errgroup.WithContext(ctx)
	if GroupsFast&^s.opts.Skip != 0 {
		clocks.Go(func() error { return r.every(ctx, s.opts.Period, r.fast) })
	}
	// The slow clock runs even when its groups are skipped: it also looks for
	// lost devices and watches the wall clock.
	clocks.Go(func() error { return r.every(ctx, s.opts.SlowPeriod, r.slow) })
	return clocks.Wait()
}

// begin makes the state of one sampling and gives every sink the header.
func (s *Sampler) begin(start time.Time, devices []Device, sinks []Sink) (*run, error) {
	r := &run{s: s, start: start, sinks: sinks, devices: make([]deviceState, len(devices))}
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

// run is one sampling.
type run struct {
	s     *Sampler
	start time.Time
	sinks []Sink
	// elapsed is the time since the start.
	elapsed func() time.Duration
	// simulated says that elapsed does not follow the real clock.
	simulated bool
	drift     drift // of the slow clock's goroutine only

	mu      sync.Mutex // everything below
	devices []deviceState
	err     error
}

type deviceState struct {
	lost     bool
	failures map[Groups]int
	dropped  int
}

// every calls tick at each multiple of period since the start, until ctx ends
// or a sink fails.
func (r *run) every(ctx context.Context, period time.Duration, tick func(context.Context, int64)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := r.start
	for n := int64(0); ctx.Err() == nil; n++ {
		timer.Reset(time.Until(r.start.Add(time.Duration(n) * period)))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		now := time.Now()
		if due := int64(now.Sub(r.start) / period); due > n {
			r.event(Event{Kind: EventGap, Length: now.Sub(last), Count: int(due - n), Detail: period.String() + " clock"})
			n = due
		}
		last = now
		tick(ctx, n)
		if err := r.failed(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) fast(ctx context.Context, n int64) {
	var x Sample
	for d := range r.devices {
		if ctx.Err() != nil {
			return
		}
		if r.lost(d) {
			continue
		}
		x = Sample{Device: d, Tick: n}
		for _, g := range [...]Groups{GroupBasic, GroupProcesses} {
			if r.s.opts.Skip&g == 0 && !r.read(ctx, g, &x) {
				break
			}
		}
		r.sample(&x)
	}
}

func (r *run) slow(ctx context.Context, n int64) {
	r.watchClock(time.Now())
	var x Sample
	for d := range r.devices {
		if r.lost(d) && ctx.Err() == nil {
			x = Sample{Device: d, Tick: n}
			r.read(ctx, GroupBasic, &x)
		}
	}
	for g := GroupGPM; g < groupEnd; g <<= 1 {
		if r.s.opts.Skip&g != 0 {
			continue
		}
		for d := range r.devices {
			if ctx.Err() != nil {
				return
			}
			if r.lost(d) {
				continue
			}
			x = Sample{Device: d, Tick: n}
			r.read(ctx, g, &x)
			r.sample(&x)
		}
	}
}

// read reads one group into x and says whether the device is still there.
func (r *run) read(ctx context.Context, g Groups, x *Sample) bool {
	dropped := x.Dropped
	err := r.s.src.Read(ctx, x.Device, g, &x.Reading)
	dropped = x.Dropped - dropped
	if err != nil {
		if g&(GroupProcesses|GroupProcessUtil) != 0 {
			x.Processes = nil
		}
		if g == GroupGPM {
			x.Instances = nil
		}
	} else {
		x.Groups |= g
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &r.devices[x.Device]
	ev := Event{Device: Some(x.Device)}
	isLost := errors.Is(err, ErrLost)
	switch {
	case isLost && !d.lost:
		ev.Kind, ev.Detail = EventLost, err.Error()
		d.lost = true
		r.emit(ev)
	case isLost, errors.Is(err, ErrUnsupported):
	case err != nil:
		d.failures[g]++
		if n := d.failures[g]; worthTelling(n-1, n) {
			ev.Kind, ev.Count, ev.Detail = EventReadError, n, err.Error()
			r.emit(ev)
		}
	case d.lost:
		ev.Kind = EventBack
		d.lost = false
		r.emit(ev)
	}
	if dropped > 0 {
		d.dropped += dropped
		if worthTelling(d.dropped-dropped, d.dropped) {
			r.emit(Event{Kind: EventDropped, Device: ev.Device, Count: d.dropped, Detail: g.String()})
		}
	}
	return !isLost
}

// worthTelling says whether a count that went up reached 1, 10, 100 and so on.
func worthTelling(before, after int) bool {
	return before == 0 || len(strconv.Itoa(before)) < len(strconv.Itoa(after))
}

func (r *run) lost(d int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.devices[d].lost
}

// failed is the error of a sink, if one has failed.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// sample stamps x and gives it to the sinks. The stamp is taken under the lock,
// so that samples of the two clocks come in order of time.
func (r *run) sample(x *Sample) {
	if x.Groups == 0 && !x.Has() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	x.At = r.elapsed()
	for _, sink := range r.sinks {
		if r.err = sink.Sample(x); r.err != nil {
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
	e.At = r.elapsed()
	r.s.log.Info("telemetry event", "kind", e.Kind.String(), "device", e.Device.String(), "length", e.Length, "count", e.Count, "detail", e.Detail)
	for _, sink := range r.sinks {
		if r.err != nil {
			return
		}
		r.err = sink.Event(e)
	}
}
