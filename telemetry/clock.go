package telemetry

import (
	"context"
	"errors"
	"time"
)

// ErrNotSimulated says that a reader cannot be taken through simulated time.
var ErrNotSimulated = errors.New("telemetry: the reader has no simulated clock; use Run or Stream")

// simulatedClock is a reader whose time can be set.
type simulatedClock interface {
	SetTime(sinceStart time.Duration)
}

// Simulate takes a reader with a simulated clock (one that has a method SetTime(time.Duration)) through a span of
// time without waiting, as if the sampling had begun at start. Both clocks tick exactly. Other readers are
// ErrNotSimulated. The end of ctx is no error.
func (s *Sampler) Simulate(ctx context.Context, start time.Time, span time.Duration, sinks ...Sink) error {
	clock, ok := s.src.(simulatedClock)
	if !ok {
		return ErrNotSimulated
	}
	clock.SetTime(0)
	devices, err := s.src.Devices(ctx)
	if err != nil {
		return err
	}
	if len(devices) == 0 {
		return ErrNoDevices
	}
	r, err := s.begin(start, devices, sinks)
	if err != nil {
		return err
	}
	workers := make([]*worker, len(devices)) // simulated time does not hang
	for d := range workers {
		workers[d] = &worker{device: d}
	}
	var now time.Duration
	r.elapsed = func() time.Duration { return now }
	fast := GroupsFast&^s.opts.Skip != 0
	for nf, ns := int64(0), int64(0); ctx.Err() == nil && r.err == nil; {
		atFast, atSlow := time.Duration(nf)*s.opts.Period, time.Duration(ns)*s.opts.SlowPeriod
		now = atSlow
		if fast {
			now = min(atFast, atSlow)
		}
		if now > span {
			break
		}
		clock.SetTime(now)
		if fast && now == atFast {
			for _, w := range workers {
				r.fast(ctx, w, nf)
			}
			nf++
		}
		if now == atSlow {
			for _, w := range workers {
				r.retry(ctx, w, ns)
			}
			for g := GroupGPM; g < groupEnd; g <<= 1 {
				for _, w := range workers {
					r.slowGroup(ctx, w, g, ns)
				}
			}
			ns++
		}
	}
	return r.err
}

const jumpThreshold = 100 * time.Millisecond // far above what slewing moves a clock in one tick

// drift watches the wall clock against the monotonic one.
type drift struct{ last time.Duration }

// observe returns by how much the wall clock jumped since the last call, 0 for
// less than jumpThreshold. Both are times since the start.
func (d *drift) observe(wall, mono time.Duration) time.Duration {
	now := wall - mono
	jump := now - d.last
	d.last = now
	if jump.Abs() < jumpThreshold {
		return 0
	}
	return jump
}

// watchClock records a jump of the wall clock since the last call.
func (r *run) watchClock(now time.Time) {
	if jump := r.drift.observe(now.Round(0).Sub(r.start.Round(0)), now.Sub(r.start)); jump != 0 {
		r.event(Event{Kind: EventClockJump, Length: jump})
	}
}
