// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ApplyOptions tune Apply. The zero value is the documented default.
type ApplyOptions struct {
	// DryRun checks the device's state and journals the steps as planned, and changes nothing.
	DryRun bool
	// Journal gets every step before it is tried and after it ended. An error
	// stops the change before the device is touched further, and it is undone.
	Journal func(JournalEntry) error
}

// JournalEntry is one line of the journal of a change.
type JournalEntry struct {
	Seq    int    `json:"seq"`
	Action string `json:"action"` // set-mode, or an Op's text
	// Status is planned (dry run), started, done, failed, or pending: the mode is set and waits for a reset.
	Status   string         `json:"status"`
	Device   string         `json:"device"`
	Instance string         `json:"instance,omitempty"` // as Instance.String writes it
	ID       Optional[int]  `json:"id,omitzero"`        // the driver's id of the GPU instance, once it is known
	Mode     Optional[bool] `json:"mode,omitzero"`      // of set-mode: whether MIG is on
	Undo     bool           `json:"undo,omitempty"`     // the step undoes an earlier one
	Error    string         `json:"error,omitempty"`
}

// String writes the entry for people, without its number and device: "destroy 1g.18gb@0: done (GPU instance 13)".
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

// ApplyError is the error of a failed change, with the exact state that is left. Unwrap gives
// the cause and, where undoing failed too, its error.
type ApplyError struct {
	Device string
	Err    error  // why the change failed
	Failed string // the step that failed, in words
	Done   []Step // steps that had been made when it failed
	Undone []Step // the steps that undid them, and the remains of a step that failed half-way
	// RolledBack is set where Apply undid all of its changes. The device holds the earlier layout again, except for
	// changes by others (ErrConflict), which stay. Created again, instances have new ids and UUIDs.
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

// Apply makes the changes of a plan on a device. It first reads the device: it must hold the layout that the plan
// starts from, and no instance that the plan destroys may have become busy, else nothing is touched (ErrStale,
// ErrBusy). A device that holds the plan's result already is left alone. MIG mode is switched where the plan needs
// it; where that takes a reset, the error is an ErrPendingReset.
//
// Each step waits for the one before; ctx is honoured between steps. Before each the device is read again: where it
// holds anything that Apply did not leave there, somebody else is changing it, and the step is not made
// (ErrConflict). When a step fails all changes of Apply are undone, and none of others: an instance is Apply's own
// when the driver returned it to Apply. Some drivers refuse after they have acted: the device is read after every
// call that failed, and a change like that of the call is Apply's own as well, except for an instance at a place for
// which the driver reported no room, which is left alone and named. The error is then an *ApplyError, which also has
// the state that is left where undoing failed. A device that is a Locker is locked meanwhile.
func Apply(ctx context.Context, dev Device, plan ChangePlan, opts ApplyOptions) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	if l, ok := dev.(Locker); ok && !opts.DryRun {
		unlock, err := l.Lock(ctx)
		if err != nil {
			return Report{}, err
		}
		defer unlock()
	}
	a := &applier{dev: dev, opts: opts}
	state, err := dev.State(ctx)
	if err != nil {
		return Report{}, opError("read state", state.UUID, err)
	}
	a.report = Report{Device: state.UUID, DryRun: opts.DryRun, After: state.Layout()}
	done, err := check(state, plan)
	if done || err != nil {
		return a.report, err
	}
	a.before, a.mode, a.expected = state, state.Mode, slices.Clone(state.Instances)
	err = a.run(ctx, plan)
	switch {
	case opts.DryRun:
		if a.report.Done = nil; err == nil {
			a.report.After = plan.Want
		}
		return a.report, err
	case err != nil:
		var pending *pendingError
		if errors.As(err, &pending) {
			a.report.After = DeviceState{Model: state.Model, Instances: a.expected}.Layout()
			return a.report, pending
		}
		return a.report, a.undo(ctx, err)
	}
	after, err := dev.State(context.WithoutCancel(ctx))
	if err != nil {
		return a.report, &ApplyError{Device: state.UUID, Err: err, Failed: "reading the new layout back", Done: a.report.Done,
			RollbackErr: errors.New("mig: every step was made and none was undone")}
	}
	a.report.After = after.Layout()
	return a.report, nil
}

// check compares the device with the plan's start, and reports whether it holds the plan's result already.
func check(state DeviceState, plan ChangePlan) (done bool, err error) {
	mode := plan.mode(state.Mode)
	if state.Mode != state.Pending {
		pending := newPending(state)
		if mode != state.Pending {
			return false, fmt.Errorf("mig: another change waits, which the plan does not want: %w", pending)
		}
		return false, pending
	}
	now := state.Layout()
	for _, step := range plan.Steps {
		if p := step.Instance.Profile; p == nil || p.model != state.Model {
			return false, fmt.Errorf("%w: it is a %s, and the plan is for a %s; plan with the model that the device reports",
				ErrStale, state.Model, plan.Model)
		}
	}
	if !slices.EqualFunc(now.Instances, plan.Have.Instances, sameInstance) {
		if mode == state.Mode && slices.EqualFunc(now.Instances, plan.Want.Instances, sameInstance) {
			return true, nil
		}
		return false, fmt.Errorf("%w: it holds [%s], and the plan starts from [%s]; plan again", ErrStale, now, plan.Have)
	}
	var busy []Instance
	for i, in := range now.Instances {
		goes := slices.ContainsFunc(plan.Destroy, func(d Instance) bool { return sameInstance(in, d) })
		if goes && in.Busy && !plan.Have.Instances[i].Busy {
			busy = append(busy, in)
		}
	}
	if len(busy) > 0 {
		return false, &busyError{Busy: busy, Plan: plan}
	}
	return false, nil
}

// mode is the MIG mode that the plan leaves a GPU in.
func (p *ChangePlan) mode(now bool) bool { return p.Mode.Or(now || len(p.Create) > 0) }

func modeText(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}

// opError wraps err unless it is nil or says the device already.
func opError(op, device string, err error) error {
	var oe *problem.Operation
	if err == nil || errors.As(err, &oe) {
		return err
	}
	return &problem.Operation{Package: "mig", Op: op, Device: device, Err: err}
}

// fail is opError about the device that is changed.
func (a *applier) fail(err error, format string, args ...any) error {
	return opError(fmt.Sprintf(format, args...), a.report.Device, err)
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
