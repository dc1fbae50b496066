// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// Class is the outcome of a request. The zero value, ClassUnfinished, is never written to an artifact.
type Class uint8

// The classes.
const (
	ClassUnfinished     Class = iota
	ClassOK                   // HTTP 200, terminator seen, no error event, at least one token
	ClassHTTP4xx              // a 4xx status other than 429
	ClassHTTP429              // status 429
	ClassHTTP5xx              // a 5xx status
	ClassConnect              // name resolution, dial or TLS handshake failed
	ClassTimeoutConnect       // no connection within Timeouts.Connect
	ClassTimeoutTTFT          // no first token within Timeouts.FirstToken
	ClassTimeoutIdle          // no next event within Timeouts.Idle
	ClassTimeoutTotal         // not finished within Timeouts.Total
	ClassTruncated            // the connection or the stream ended without a terminator
	ClassErrorEvent           // the server reported an error inside the stream
	ClassMalformed            // the answer breaks the API's specification
	ClassCancelled            // the caller or the end of the run cut the request off
	ClassClientLimit          // the client's machine had no descriptor, port or buffer for it
)

var classNames = enum.Of[Class](ErrUnknownName, "class", "unfinished", "ok", "http_4xx", "http_429", "http_5xx",
	"connect", "timeout_connect",
	"timeout_ttft", "timeout_idle", "timeout_total", "truncated", "error_event", "malformed", "cancelled",
	"client_limit")

// Classes lists every class but ClassUnfinished, in the order of their values.
func Classes() []Class { return classNames.Values()[1:] }

// retriable reports whether another attempt may succeed. A request whose first token has arrived is never retried.
func (c Class) retriable() bool {
	return c == ClassHTTP429 || c == ClassHTTP5xx || c == ClassConnect || c == ClassTimeoutConnect
}

// ErrUnknownName is returned for a text that names no value of an enumeration.
var ErrUnknownName = errors.New("loadgen: unknown name")

// ErrInput is returned for a file of prompts, a trace or a timeline that
// cannot be used. It joins one problem for each fault.
var ErrInput = errors.New("loadgen: unusable input")

// timeoutError is the cause with which a watchdog cancels an attempt.
type timeoutError struct {
	class Class
	limit time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%v: over %v", e.class, e.limit) }

// errDrained cancels the reading of bytes after a stream's terminator.
var errDrained = errors.New("loadgen: nothing more is read after the terminator")

// drainTime bounds the wait for the end of an answer whose terminator was seen:
// only a fully read answer leaves its connection usable.
const drainTime = time.Second

// watchdog cancels an attempt when its current phase lasts too long. One timer serves all phases: when it fires it
// reads the time of the last event, so that an event costs an atomic store and not a timer.
type watchdog struct {
	clock    *wire.Clock
	limits   Timeouts // resolved; 0 means none
	start    int64
	streamed bool
	cancel   context.CancelCauseFunc
	timer    *time.Timer

	connected, firstToken, lastEvent, terminated atomic.Int64
}

// begin starts the watch.
func (w *watchdog) begin() {
	// The timer is set in two steps so that fire finds it in the field.
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.arm(w.start)
}

// terminate is called once only the end of the answer is missing.
func (w *watchdog) terminate(now int64) {
	w.terminated.Store(now)
	w.timer.Reset(drainTime)
}

// arm sets the timer to the earliest deadline there is or may come to be: an idle
// phase that has not begun yet cannot end before a whole idle limit from now.
func (w *watchdog) arm(now int64) {
	next, _ := w.deadline()
	if idle := w.limits.Idle; w.streamed && idle > 0 && (next == 0 || now+int64(idle) < next) {
		next = now + int64(idle)
	}
	if next > 0 {
		w.timer.Reset(time.Duration(next - now))
	} else {
		w.timer.Stop()
	}
}

func (w *watchdog) fire() {
	now := w.clock.Now()
	deadline, cause := w.deadline()
	if deadline > 0 && deadline <= now {
		w.cancel(cause)
		return
	}
	w.arm(now)
}

// deadline is the earliest end of a phase, 0 if none ends.
func (w *watchdog) deadline() (at int64, cause error) {
	if t := w.terminated.Load(); t != 0 {
		return t + int64(drainTime), errDrained
	}
	bound := func(from int64, limit time.Duration, class Class) {
		if limit > 0 && (at == 0 || from+int64(limit) < at) {
			at, cause = from+int64(limit), &timeoutError{class, limit}
		}
	}
	if w.connected.Load() == 0 {
		bound(w.start, w.limits.Connect, ClassTimeoutConnect)
	}
	if w.firstToken.Load() == 0 {
		bound(w.start, w.limits.FirstToken, ClassTimeoutTTFT)
	} else if w.streamed {
		bound(w.lastEvent.Load(), w.limits.Idle, ClassTimeoutIdle)
	}
	bound(w.start, w.limits.Total, ClassTimeoutTotal)
	return at, cause
}

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero reports a missing value, Equal compares two; String writes "-" for it, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]
