package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// timeoutError is the cause with which a watchdog cancels an attempt.
type timeoutError struct {
	class Class
	limit time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%v: over %v", e.class, e.limit) }

// errDrained cancels the reading of what follows a stream's terminator.
var errDrained = errors.New("loadgen: nothing more is read after the terminator")

// drainTime bounds the wait for the end of an answer whose terminator was seen:
// only a fully read answer leaves its connection usable.
const drainTime = time.Second

// watchdog cancels an attempt whose current phase lasts too long. One timer serves all phases: when it fires it
// looks at what has happened meanwhile, so that an event costs an atomic store and not a timer.
type watchdog struct {
	clock    *wire.Clock
	limits   Timeouts // resolved; 0 means none
	start    int64
	streamed bool
	cancel   context.CancelCauseFunc
	timer    *time.Timer

	connected, firstToken, lastEvent, terminated atomic.Int64
}

// begin starts the watch; stop ends it.
func (w *watchdog) begin() {
	// The timer is set in two steps so that fire finds it in the field.
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.arm(w.start)
}

func (w *watchdog) stop() { w.timer.Stop() }

// terminate says that only the end of the answer is waited for.
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
