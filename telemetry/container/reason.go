package container

import (
	"errors"

	"github.com/cotenant/cotenant/internal/enum"
)

// errUnknown says that a text or value names nothing.
var errUnknown = errors.New("container: unknown")

// Reason says why a process's pod is not known. The zero Reason is ReasonNone: it is known.
type Reason uint8

// The reasons.
const (
	ReasonNone      Reason = iota
	ReasonGone             // the process ended before it was looked at
	ReasonHidden           // its control group cannot be read, or a namespace hides it
	ReasonHost             // it runs in no container
	ReasonNoPod            // its container belongs to no pod that the node knows
	ReasonReused           // its id was another process's until now: what was counted for the id since then is nobody's
	ReasonMalformed        // what the system says of it cannot be understood
)

var reasonNames = enum.Of[Reason](errUnknown, "reason", "none", "gone", "hidden", "host", "no-pod", "reused",
	"malformed")
