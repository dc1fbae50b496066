// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Actor carries out proposals, and records everything first. The zero Actor does nothing.
type Actor struct {
	// Do carries out a cap, a move, a notice or a reaping, by a program or the Kubernetes API; nil is a dry run.
	// An error means that it was not carried out, or that this is not known. Its context ends after 30 s.
	Do  func(context.Context, *Proposal) error
	Log *Log // where everything is recorded; without one nothing is done
}

func (a *Actor) write(event event, p *Proposal) error {
	if a.Log == nil {
		return nil
	}
	return a.Log.write(auditEntry{Event: event, Proposal: *p})
}

// Act carries out a proposal where it may, and answers whether it did; where it may not it sets p.Withheld. An audit
// log that cannot be written is an error, and nothing is done unrecorded.
func (a *Actor) Act(ctx context.Context, p *Proposal) (done bool, err error) {
	if p.Action == ActionKeep || p.Action == ActionSplit {
		return false, a.write(eventProposed, p)
	}
	if p.Withheld == "" {
		switch {
		case a.Do == nil:
			p.Withheld = "dry run"
		case a.Log == nil:
			p.Withheld = "no audit log"
		}
	}
	if p.Withheld != "" {
		return false, a.write(eventWithheld, p)
	}
	if err := a.write(eventTrying, p); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err = a.Do(ctx, p); err == nil {
		return true, a.write(eventDone, p)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("timed out, and may have done all, a part or nothing of the %s: %w", p.Action, err)
	}
	p.Withheld = "failed: " + err.Error()
	return false, a.write(eventFailed, p)
}
