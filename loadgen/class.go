// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// Class is the outcome of a request: ok, or the way in which it failed.
//
//	ok               HTTP 200, terminator seen, no error event, at least one token
//	http_4xx         a 4xx status other than 429
//	http_429         status 429
//	http_5xx         a 5xx status
//	connect          name resolution, dial or TLS handshake failed
//	timeout_connect  no connection within Timeouts.Connect
//	timeout_ttft     no first token within Timeouts.FirstToken
//	timeout_idle     no next event within Timeouts.Idle
//	timeout_total    not finished within Timeouts.Total
//	truncated        the connection or the stream ended without a terminator
//	error_event      the server reported an error inside the stream
//	malformed        the answer breaks the API's specification
//	cancelled        the caller or the end of the run cut the request off
//	client_limit     the client's machine had no descriptor, port or buffer for it
type Class string

// The classes most used by programs; see Class for the others.
const (
	ClassOK             Class = "ok"
	ClassConnect        Class = "connect"
	ClassTruncated      Class = "truncated"
	ClassClientLimit    Class = "client_limit"
	classHTTP4xx        Class = "http_4xx"
	classHTTP429        Class = "http_429"
	classHTTP5xx        Class = "http_5xx"
	classTimeoutConnect Class = "timeout_connect"
	classTimeoutTTFT    Class = "timeout_ttft"
	classTimeoutIdle    Class = "timeout_idle"
	classTimeoutTotal   Class = "timeout_total"
	classErrorEvent     Class = "error_event"
	classMalformed      Class = "malformed"
	classCancelled      Class = "cancelled"
)

// Classes lists every class, in the order of a report.
func Classes() []Class {
	return []Class{ClassOK, classHTTP4xx, classHTTP429, classHTTP5xx, ClassConnect, classTimeoutConnect,
		classTimeoutTTFT, classTimeoutIdle, classTimeoutTotal, ClassTruncated, classErrorEvent, classMalformed,
		classCancelled, ClassClientLimit}
}

// retriable reports whether another attempt may succeed. A request whose first token has arrived is never retried.
func (c Class) retriable() bool {
	return c == classHTTP429 || c == classHTTP5xx || c == ClassConnect || c == classTimeoutConnect
}

// ErrInput is returned for a file of prompts, a trace or a timeline that cannot be used. It joins all problems of the
// input.
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
		bound(w.start, w.limits.Connect, classTimeoutConnect)
	}
	if w.firstToken.Load() == 0 {
		bound(w.start, w.limits.FirstToken, classTimeoutTTFT)
	} else if w.streamed {
		bound(w.lastEvent.Load(), w.limits.Idle, classTimeoutIdle)
	}
	bound(w.start, w.limits.Total, classTimeoutTotal)
	return at, cause
}

// Optional holds a value that may be missing, by default none: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero reports a missing value, Equal compares two; String writes "-" for it, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]
