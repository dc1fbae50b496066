// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Pacing selects how open loops wait for the next arrival. The zero value is PacingPrecise.
type Pacing uint8

// The pacings.
const (
	PacingPrecise Pacing = iota // a timerfd on Linux (late by about 0.1 ms), a timer elsewhere
	PacingTimer                 // a time.Timer (late by up to about 1 ms); works in a synctest bubble
)

// pacer waits for instants. Only one goroutine may use it.
type pacer interface {
	// wait returns at t, or with ctx's error when ctx ends first. An instant in the past is no wait at all.
	wait(ctx context.Context, t time.Time) error
	name() string
	close() error
}

func newPacer(p Pacing) pacer {
	if p == PacingPrecise {
		if precise := newPrecisePacer(); precise != nil {
			return precise
		}
	}
	return &timerPacer{}
}

type timerPacer struct{}

func (p *timerPacer) wait(ctx context.Context, t time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *timerPacer) name() string { return "timer" }

func (p *timerPacer) close() error { return nil }

func sleep(ctx context.Context, d time.Duration) error {
	return (&timerPacer{}).wait(ctx, time.Now().Add(d))
}

// stock holds the next requests of an open loop, with their bodies, so that none is built when it is due.
type stock struct {
	ready chan stocked
	bytes *semaphore.Weighted // of the bodies in ready
	stop  context.CancelFunc
	done  chan struct{}
}

// stocked is a request without its number, or the error that ended the source of prompts.
type stocked struct {
	job job
	err error
}

const (
	stockRequests = 256
	stockBytes    = 64 << 20
	// stockTime bounds the wait for a full stock before the run.
	stockTime = 5 * time.Second
)

// fill begins to keep a stock, and returns when it is full or the prompts have ended.
func (r *tenantRun) fill(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	s := &stock{ready: make(chan stocked, stockRequests), bytes: semaphore.NewWeighted(stockBytes), stop: stop,
		done: make(chan struct{})}
	r.stock = s
	full := make(chan struct{})
	isFull := sync.OnceFunc(func() { close(full) })
	limit := int64(-1)
	if r.tenant.Requests > 0 {
		limit = int64(r.tenant.Requests)
	}
	go func() {
		defer close(s.done)
		defer isFull()
		for n := int64(0); n != limit; n++ {
			p, err := r.prompt()
			j := job{}
			if err == nil {
				j, err = r.prepare(n, p)
			}
			if size := s.size(&j); !s.bytes.TryAcquire(size) {
				isFull()
				if s.bytes.Acquire(ctx, size) != nil {
					return
				}
			}
			if len(s.ready) == cap(s.ready) {
				isFull()
			}
			select {
			case s.ready <- stocked{j, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	timer := time.NewTimer(stockTime)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *stock) size(j *job) int64 { return min(int64(len(j.body)+len(j.prompt.Text)), stockBytes) }

func (s *stock) take(ctx context.Context) (job, error) {
	select {
	case next := <-s.ready:
		s.bytes.Release(s.size(&next.job))
		return next.job, next.err
	case <-ctx.Done():
		return job{}, ctx.Err()
	}
}

func (s *stock) close() {
	s.stop()
	<-s.done
}
