// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/mps"
)

// Fault is a failure to inject.
type Fault struct {
	// Kind is hang (no answer until the caller gives up), slow (the answer comes after Delay), garbage (binary instead of
	// an answer), flood (10 MB instead of one), death (the program dies in the middle of its answer), ignore (a setter
	// reports success and changes nothing) or cut (the last character of the answer is missing). With any other name,
	// matching commands fail.
	Kind    string
	Command string        // matches commands with this prefix; "" = all
	Times   int           // 0 = every time
	Delay   time.Duration // of slow
}

const (
	garbage   = "\x00\x01\xff\xfe MPS \x1b[31m"
	floodLine = "this is not an answer, and there is a great deal of it........\n"
)

func flood() string { return strings.Repeat(floodLine, 10<<20/len(floodLine)) }

// before plays the faults that need no daemon. done says that the run is over.
func (f *Fault) before(ctx context.Context) (out mps.Output, err error, done bool) {
	switch f.Kind {
	case "hang":
		<-ctx.Done()
		return out, context.Cause(ctx), true
	case "slow":
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return out, context.Cause(ctx), true
		}
	case "garbage":
		return mps.Output{Stdout: garbage}, nil, true
	case "flood":
		return mps.Output{Stdout: flood()}, nil, true
	case "death":
		return mps.Output{Stdout: "10"}, fmt.Errorf("%w: signal: killed", mps.ErrCrashed), true
	case "ignore", "cut":
	default:
		return out, fmt.Errorf("mpstest: unknown fault %q", f.Kind), true
	}
	return out, nil, false
}
