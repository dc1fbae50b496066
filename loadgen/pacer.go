// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"time"
)

// pacer waits for instants. Only one goroutine may use it.
type pacer interface {
	// wait returns at t, or with ctx's error when ctx ends first. An instant in the past is no wait at all.
	wait(ctx context.Context, t time.Time) error
	name() string
	close() error
}

// newPacer returns a timerfd's pacer where precise is set and the system has one.
func newPacer(precise bool) pacer {
	if precise {
		if p := newPrecisePacer(); p != nil {
			return p
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
