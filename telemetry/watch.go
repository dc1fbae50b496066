// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"time"
)

// clock is one of the two on which a device is read.
type clock int

const (
	clockFast clock = iota
	clockSlow
	clockEnd
)

// deviceState is the sampling's knowledge of one device.
type deviceState struct {
	lost     bool
	failures map[Groups]int
	answers  [groupCount]answer // the last of each group
	why      string             // the last error
	dropped  int
	reading  [clockEnd]reading
	down     EventKind // cause of the device being down; EventUnknown while it is up
}

// answer is the outcome of the last reading of a group.
type answer uint8

const (
	answerNone answer = iota // not read yet
	answerOK
	answerUnsupported
	answerFailed
)

// reading is a call into the driver.
type reading struct {
	group Groups // 0: none is under way
	since time.Duration
	hangs bool // it was reported
}

// worker reads one device on one clock.
type worker struct {
	device int
	clock  clock
	watch  *time.Timer // nil in simulated time; fires when a reading takes too long
	x      Sample      // the reading under way
}

func (r *run) worker(device int, c clock) *worker {
	w := &worker{device: device, clock: c}
	w.watch = time.AfterFunc(time.Hour, func() { r.overdue(device, c) })
	w.watch.Stop()
	return w
}

// overdue reports a reading that has taken too long. The timer may be late, and another reading be under way.
func (r *run) overdue(device int, c clock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.elapsed()-r.devices[device].reading[c].since >= stall {
		r.hung(device, c)
	}
}

// hung records that a reading hangs; r.mu is held.
func (r *run) hung(device int, c clock) {
	d := &r.devices[device]
	now := &d.reading[c]
	if now.group == 0 || now.hangs {
		return
	}
	now.hangs = true
	if d.down != EventHung {
		d.down = EventHung
		r.emit(Event{Kind: EventHung, Device: device, Length: r.elapsed() - now.since, Detail: "reading " +
			now.group.String() + " does not return"})
	}
}

// read reads one group into w.x and reports whether the device is still there.
func (r *run) read(ctx context.Context, w *worker, g Groups) bool {
	x := &w.x
	r.begins(w, g)
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
	if w.watch != nil {
		w.watch.Stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &r.devices[x.Device]
	d.reading[w.clock] = reading{}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return true
	}
	last := &d.answers[bits.TrailingZeros8(uint8(g))]
	isLost := errors.Is(err, ErrLost)
	switch {
	case isLost:
		d.lost, d.why = true, err.Error()
	case errors.Is(err, ErrUnsupported):
		*last = answerUnsupported
	case err != nil:
		*last, d.why = answerFailed, err.Error()
		if x.has != 0 { // figures that come with the error count
			*last = answerOK
		}
		d.failures[g]++
		if n := d.failures[g]; worthTelling(n-1, n) {
			r.emit(Event{Kind: eventReadError, Device: x.Device, Count: n, Detail: err.Error()})
		}
	default:
		d.lost, *last = false, answerOK
	}
	r.evaluate(x.Device)
	if dropped > 0 {
		d.dropped += dropped
		if worthTelling(d.dropped-dropped, d.dropped) {
			r.emit(Event{Kind: eventDropped, Device: x.Device, Count: d.dropped, Detail: g.String()})
		}
	}
	return !isLost
}

// begins notes a reading and sets the watch.
func (r *run) begins(w *worker, g Groups) {
	if w.watch == nil {
		return
	}
	r.mu.Lock()
	r.devices[w.device].reading[w.clock] = reading{group: g, since: r.elapsed()}
	r.mu.Unlock()
	w.watch.Reset(stall)
}

// evaluate updates whether a device is up, and reports changes; r.mu is held.
func (r *run) evaluate(device int) {
	d := &r.devices[device]
	down := EventKind("")
	for _, now := range d.reading {
		if now.hangs {
			down = EventHung
		}
	}
	if down == "" && d.lost {
		down = EventLost
	}
	if down == "" && r.failing(d) {
		down = EventFailing
	}
	if down == d.down {
		return
	}
	d.down = down
	e := Event{Kind: down, Device: device, Detail: d.why}
	if down == "" {
		e.Kind, e.Detail = EventBack, ""
	}
	r.emit(e)
}

// failing reports whether the last reading of every group failed, of those that the device has.
func (r *run) failing(d *deviceState) bool {
	failed := false
	for i, last := range d.answers {
		if r.s.opts.Skip&(1<<i) != 0 {
			continue
		}
		switch last {
		case answerNone, answerOK:
			return false
		case answerFailed:
			failed = true
		}
	}
	return failed
}

// worthTelling reports whether a count that went up reached 1, 10, 100 and so on.
func worthTelling(before, after int) bool {
	return before == 0 || len(strconv.Itoa(before)) < len(strconv.Itoa(after))
}

func (r *run) lost(d int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.devices[d].lost
}

// errNotSimulated is returned for a reader that cannot follow simulated time.
var errNotSimulated = errors.New("telemetry: the reader has no simulated clock; use Run or Stream")

// simulatedClock is a reader with a settable time.
type simulatedClock interface {
	SetTime(sinceStart time.Duration)
}

// Simulate takes a reader with a simulated clock (one that has a method SetTime(time.Duration)) through a span of time
// without waiting, as if the sampling had begun at start. Both clocks tick exactly. With any other reader it fails. The
// end of ctx is not an error.
func (s *Sampler) Simulate(ctx context.Context, start time.Time, span time.Duration, sinks ...Sink) error {
	clock, ok := s.src.(simulatedClock)
	if !ok {
		return errNotSimulated
	}
	clock.SetTime(0)
	devices, err := s.src.Devices(ctx)
	if err != nil {
		return err
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
