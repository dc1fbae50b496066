package mpstest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/mps"
)

// FaultKind is what goes wrong. The zero value is no fault.
type FaultKind uint8

// The kinds.
const (
	NoFault FaultKind = iota
	Hang              // no answer until the caller gives up
	Slow              // the answer comes after Delay
	Garbage           // binary instead of an answer
	Flood             // 10 MB instead of an answer
	Death             // the program dies in the middle of its answer
	Ignore            // a setter answers well and changes nothing
	Cut               // the last character of the answer is missing
)

var faultNames = []string{"none", "hang", "slow", "garbage", "flood", "death", "ignore", "cut"}

// String returns the kind's text, for example "hang".
func (k FaultKind) String() string {
	if int(k) < len(faultNames) {
		return faultNames[k]
	}
	return fmt.Sprintf("FaultKind(%d)", k)
}

// MarshalText returns the kind's text.
func (k FaultKind) MarshalText() ([]byte, error) {
	if int(k) >= len(faultNames) {
		return nil, fmt.Errorf("mpstest: %d is no fault", k)
	}
	return []byte(faultNames[k]), nil
}

// UnmarshalText reads what String writes.
func (k *FaultKind) UnmarshalText(b []byte) error {
	for i, n := range faultNames {
		if n == string(b) {
			*k = FaultKind(i)
			return nil
		}
	}
	return fmt.Errorf("mpstest: unknown fault %q; known: %s", b, strings.Join(faultNames, ", "))
}

// Fault is something to go wrong.
type Fault struct {
	Kind    FaultKind
	Command string        // hits commands that begin so; "" = every one
	Times   int           // 0 = every time
	Delay   time.Duration // of Slow
}

// Inject makes a fault happen from now on. Faults are tried in the order in
// which they were injected; the first that matches happens.
func (d *Daemon) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Clear removes all faults.
func (d *Daemon) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

func (d *Daemon) takeFault(op string) *Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.faults {
		if !strings.HasPrefix(op, f.Command) {
			continue
		}
		hit := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				d.faults = append(d.faults[:i:i], d.faults[i+1:]...)
			}
		}
		return &hit
	}
	return nil
}

const (
	garbage   = "\x00\x01\xff\xfe MPS \x1b[31m"
	floodLine = "this is not an answer, and there is a great deal of it........\n"
)

func flood() string { return strings.Repeat(floodLine, 10<<20/len(floodLine)) }

// before plays the faults that need no daemon. done says that the run is over.
func (f *Fault) before(ctx context.Context) (out mps.Output, err error, done bool) {
	switch f.Kind {
	case Hang:
		<-ctx.Done()
		return out, context.Cause(ctx), true
	case Slow:
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return out, context.Cause(ctx), true
		}
	case Garbage:
		return mps.Output{Stdout: garbage}, nil, true
	case Flood:
		return mps.Output{Stdout: flood()}, nil, true
	case Death:
		return mps.Output{Stdout: "10"}, fmt.Errorf("%w: signal: killed", mps.ErrCrashed), true
	}
	return out, nil, false
}
