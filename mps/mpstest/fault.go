// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/mps"
)

// FaultKind names a failure that Inject plays. The zero value is no fault.
type FaultKind uint8

// The kinds.
const (
	_            FaultKind = iota
	FaultHang              // no answer until the caller gives up
	FaultSlow              // the answer comes after Delay
	FaultGarbage           // binary instead of an answer
	FaultFlood             // 10 MB instead of an answer
	FaultDeath             // the program dies in the middle of its answer
	FaultIgnore            // a setter answers well and changes nothing
	FaultCut               // the last character of the answer is missing
)

// Fault is something to go wrong.
type Fault struct {
	Kind    FaultKind
	Command string        // hits commands that begin so; "" = every one
	Times   int           // 0 = every time
	Delay   time.Duration // of FaultSlow
}

const (
	garbage   = "\x00\x01\xff\xfe MPS \x1b[31m"
	floodLine = "this is not an answer, and there is a great deal of it........\n"
)

func flood() string { return strings.Repeat(floodLine, 10<<20/len(floodLine)) }

// before plays the faults that need no daemon. done says that the run is over.
func (f *Fault) before(ctx context.Context) (out mps.Output, err error, done bool) {
	switch f.Kind {
	case FaultHang:
		<-ctx.Done()
		return out, context.Cause(ctx), true
	case FaultSlow:
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return out, context.Cause(ctx), true
		}
	case FaultGarbage:
		return mps.Output{Stdout: garbage}, nil, true
	case FaultFlood:
		return mps.Output{Stdout: flood()}, nil, true
	case FaultDeath:
		return mps.Output{Stdout: "10"}, fmt.Errorf("%w: signal: killed", mps.ErrCrashed), true
	}
	return out, nil, false
}
