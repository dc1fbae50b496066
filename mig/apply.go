// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// ApplyOptions tune Apply. The zero value is the documented default.
type ApplyOptions struct {
	// DryRun checks the device's state and journals the steps as planned, without changing anything.
	DryRun bool
	// Journal receives every step before it is tried and after it ended; nil discards them. If it returns an error, Apply
	// stops and undoes the change.
	Journal func(JournalEntry) error
}

// JournalEntry is one line of the journal of a change.
type JournalEntry struct {
	Seq    int    `json:"seq"`
	Action string `json:"action"` // set-mode, or an Op's text
	// Status is planned (dry run), started, done, failed, or pending: the mode change waits for a reset.
	Status   string                 `json:"status"`
	Device   string                 `json:"device"`
	Instance string                 `json:"instance,omitempty"` // as Instance.String writes it
	ID       sharing.Optional[int]  `json:"id,omitzero"`        // the driver's id of the GPU instance, once it is known
	Mode     sharing.Optional[bool] `json:"mode,omitzero"`      // of set-mode: whether MIG is on
	Undo     bool                   `json:"undo,omitempty"`     // the step undoes an earlier one
	Error    string                 `json:"error,omitempty"`
}

// String writes the entry as text, without its number and device: "destroy 1g.18gb@0: done (GPU instance 13)".
func (e JournalEntry) String() string {
	what := e.Action + " " + e.Instance
	if mode, ok := e.Mode.Get(); ok {
		what = "set MIG " + modeText(mode)
	}
	if e.Undo {
		what = "undo: " + what
	}
	text := what + ": " + e.Status
	if id, ok := e.ID.Get(); ok {
		text += fmt.Sprintf(" (GPU instance %d)", id)
	}
	if e.Error != "" {
		text += ": " + e.Error
	}
	return text
}

// Report is the outcome of Apply.
type Report struct {
	Device  string
	DryRun  bool
	Journal []JournalEntry
	Done    []Step
	After   Layout // the layout the device reports at the end; in a dry run the one it would have
}

// ApplyError is the error of a failed change, with the exact remaining state. Unwrap gives the cause and, where undoing
// failed too, that error.
type ApplyError struct {
	Device string
	Err    error  // why the change failed
	Failed string // the step that failed, in words
	Done   []Step // steps completed before the failure
	Undone []Step // the steps that undid them, and cleanup after a step that failed half-way
	// RolledBack is set where Apply undid all of its changes. The device has the earlier layout again, except for changes
	// by others (ErrConflict), which remain. Instances that were created again have new ids and UUIDs.
	RolledBack  bool
	RollbackErr error        // why undoing failed, where it did
	Left        *DeviceState // the device's present state; nil where it could not be read

	others bool // somebody else changed the device, so that Left differs from the earlier layout
}

func (e *ApplyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mig: %s failed on %s: %v", e.Failed, e.Device, e.Err)
	switch {
	case e.others:
		fmt.Fprintf(&b, "; all steps are undone, changes by others are kept, and the device holds [%s]",
			e.Left.Layout())
	case e.RolledBack:
		b.WriteString("; the earlier layout is restored")
	case e.Left != nil:
		fmt.Fprintf(&b, "; undoing failed (%v) and the device holds [%s]", e.RollbackErr, e.Left.Layout())
	default:
		fmt.Fprintf(&b, "; undoing failed (%v) and the device can't be read", e.RollbackErr)
	}
	return b.String()
}

func (e *ApplyError) Unwrap() []error {
	if e.RollbackErr == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.RollbackErr}
}

// pendingError reports a change of MIG mode that waits for a reset of the GPU. The mode stays set, and so do the
// changes made before. It is an ErrPendingReset.
type pendingError struct{ text string }

func (e *pendingError) Error() string { return e.text }

func (e *pendingError) Is(target error) bool { return target == ErrPendingReset }

// newPending explains a mode that did not take effect.
func newPending(state DeviceState) *pendingError {
	why := "the driver does not report whether this GPU changes mode without a reset"
	switch state.Resetless {
	case sharing.AnswerNo:
		why = "this GPU changes mode only by a reset"
	case sharing.AnswerYes:
		why = "this GPU should change mode without a reset, and a client may hold it"
	}
	return &pendingError{fmt.Sprintf("%v: MIG will be %s after a reset of %s (%s); stop its clients, reset it, for "+
		"example with nvidia-smi --gpu-reset -i %[3]s, and make the same call again", ErrPendingReset,
		modeText(state.Pending), state.UUID, why)}
}

// mode is the MIG mode that the plan leaves a GPU in.
func (p *ChangePlan) mode(now bool) bool { return p.Mode.Or(now || len(p.Create) > 0) }

// opError wraps err unless it is nil or says the device already.
func opError(op, device string, err error) error {
	var oe *sharing.OpError
	if err == nil || errors.As(err, &oe) {
		return err
	}
	return &sharing.OpError{Package: "mig", Op: op, Device: device, Err: err}
}

// explain adds the meaning of the driver's bare "in use" for an operation.
func explain(err error, why string) error {
	if errors.Is(err, ErrInUse) {
		return fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

const (
	inUseGPU = "the mode changes, and the first instance is created, only while no client holds the GPU: stop every " +
		"process that has it open, among them profilers, monitoring agents and display servers"
	inUseInstance = "a client uses the instance: stop it, or wait until it ends"
)

// entry begins the journal's line of the step.
func (s Step) entry() JournalEntry {
	return JournalEntry{Action: string(s.Op), Instance: s.Instance.String()}
}
