package mig

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/enum"
)

// ErrBusy says that a change would have to destroy instances that are in use.
// The error is a *BusyError.
var ErrBusy = errors.New("mig: in use")

// Op is what a step does to an instance. The zero value is OpCreate.
type Op uint8

// The operations.
const (
	OpCreate   Op = iota // create a GPU instance and its compute instances
	OpDestroy            // destroy the compute instances and the GPU instance
	OpComplete           // create the compute instances of a GPU instance that has none
	OpEmpty              // destroy the compute instances only: how OpComplete is undone
)

var opNames = enum.Of[Op](ErrInvalid, "operation", "create", "destroy", "complete", "empty")

// String returns create, destroy, complete or empty.
func (o Op) String() string { return opNames.String(o) }

// MarshalText returns the operation's text.
func (o Op) MarshalText() ([]byte, error) { return opNames.Text(o) }

// UnmarshalText reads an operation's text.
func (o *Op) UnmarshalText(b []byte) error { return opNames.Parse(o, b) }

// Step is one change of a plan.
type Step struct {
	Op       Op
	Instance Instance
}

// String writes the step: "create 3g.40gb@4".
func (s Step) String() string { return s.Op.String() + " " + s.Instance.String() }

// ChangePlan is how to get from one layout of a GPU to another. It is data: making
// one touches no device.
type ChangePlan struct {
	Model      *Model
	Have, Want Layout // before and after
	Keep       []Instance
	Destroy    []Instance
	Create     []Instance
	// Complete are GPU instances that stand without compute instances, as they
	// are to be: they get them and are not made anew.
	Complete []Instance
	// Steps are the changes in the order in which they are possible: every
	// layout between two steps is valid.
	Steps []Step
	// Mode is the MIG mode to leave the GPU in. Where it is missing, MIG is
	// switched on if instances are created, and otherwise stays as it is.
	Mode Optional[Mode]
	// BusyDestroyed counts the instances in use that the plan destroys.
	BusyDestroyed int
	// Empties says that the GPU holds no instance at some point between two
	// steps, which makes the driver leave and enter partitioning: that fails
	// while any client has the GPU open. A plan avoids it where it can.
	Empties bool
}

// BusyError says which instances in use are in the way of a change. It is an
// ErrBusy.
type BusyError struct {
	Busy []Instance // the fewest that would have to go
	Plan ChangePlan // the change that destroys them, which AllowBusy would give
}

// Error names the instances.
func (e *BusyError) Error() string {
	return fmt.Sprintf("mig: in use: the change can't be made on %s without destroying %s; wait until it is idle, or allow it", e.Plan.Model, Layout{Instances: e.Busy})
}

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }
