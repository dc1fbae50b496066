package telemetry

import (
	"time"

	"github.com/cotenant/cotenant/internal/enum"
)

// EventKind says what happened to the sampling. The zero EventKind is EventUnknown.
type EventKind uint8

// The kinds of events.
const (
	EventUnknown   EventKind = iota
	EventGap                 // ticks of a device were missed; Length is from the last tick to the next
	EventClockJump           // the wall clock moved against the monotonic clock by Length
	EventLost                // a device was lost
	EventBack                // a device that was down (lost, hung or failing) answers again
	EventReadError           // a reading failed; repeats are reported at 10, 100, ... times
	EventDropped             // impossible values were dropped; repeats as for EventReadError
	EventHung                // a reading of a device has not returned for Length
	EventFailing             // every reading of a device fails
)

var eventNames = enum.Of[EventKind](errUnknown, "event kind", "unknown", "gap", "clock-jump", "lost", "back",
	"read-error", "dropped", "hung", "failing")

// Event is something that happened to the sampling and that a reader of the figures must know.
type Event struct {
	Kind EventKind     `json:"kind"`
	At   time.Duration `json:"at_ns"` // the time since the series' start
	// Device is the device's index; it is missing when the event concerns all.
	Device Optional[int] `json:"device,omitzero"`
	Length time.Duration `json:"length_ns,omitempty"` // the length of a gap or the size of a clock jump
	Count  int           `json:"count,omitempty"`     // the number of ticks missed, of values dropped, or of errors so far
	Detail string        `json:"detail,omitempty"`    // for people
}
