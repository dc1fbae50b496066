// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// rollbackTimeout bounds undoing, which goes on when the context is cancelled.
const rollbackTimeout = time.Minute

// undo takes back the changes of Apply, last ones first. It reads the device, so that a step that failed
// half-way is undone as well, and touches only instances that the driver returned to Apply.
func (a *applier) undo(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	e := &ApplyError{Device: a.report.Device, Err: cause, Failed: a.failed, Done: slices.Clone(a.report.Done)}
	var errs []error
	for _, eff := range slices.Backward(a.effects) {
		now, err := a.dev.State(ctx)
		if err = a.fail(err, "read state"); err == nil {
			a.observe(now)
			err = a.undoEffect(ctx, now, eff)
		}
		errs = append(errs, err)
	}
	e.Undone = a.undone
	left, err := a.dev.State(ctx)
	if err != nil {
		e.RollbackErr = errors.Join(append(errs, a.fail(err, "read state"))...)
		return e
	}
	e.Left = &left
	a.report.After = left.Layout()
	failed := errors.Join(append(errs, a.doubt(left), a.missing(left))...)
	// An undoing step may fail and have had its effect, so the layout counts,
	// unless others may have made a similar change.
	contested := failed != nil && (refused(failed) || errors.Is(failed, ErrConflict) || errors.Is(cause, ErrConflict))
	restored := !contested && left.Mode == a.before.Mode && left.Pending == a.before.Pending &&
		slices.EqualFunc(a.report.After.Instances, a.before.Layout().Instances, sameInstance)
	if !restored {
		e.RollbackErr = failed
	}
	e.RolledBack = e.RollbackErr == nil
	e.others = e.RolledBack && !restored
	return e
}

// missing names the instances that Apply destroyed and that do not exist again.
func (a *applier) missing(left DeviceState) error {
	var errs []error
	for _, eff := range a.effects {
		if eff.op != opDestroy || eff.setMode || eff.lost || !eff.gone && len(eff.hit) == 0 {
			continue
		}
		was := eff.at.instance()
		if !slices.ContainsFunc(left.Instances, func(d DeviceInstance) bool { return sameInstance(d.instance(), was) }) {
			errs = append(errs, fmt.Errorf("mig: %s was destroyed on %s and is not restored", was, a.report.Device))
		}
	}
	return errors.Join(errs...)
}

// doubt reports instances for a person to check: where a create failed and an instance
// is in its place, the call may have made it, or somebody else.
func (a *applier) doubt(left DeviceState) error {
	if a.maybe == nil {
		return nil
	}
	for _, d := range left.Instances {
		if d.Profile == a.maybe.Profile && d.Placement == a.maybe.Placement &&
			!slices.ContainsFunc(a.before.Instances, d.isSame) {
			return fmt.Errorf("mig: %s exists on %s: the call that failed may have made it, or somebody else; it was kept",
				d.instance(), a.report.Device)
		}
	}
	return nil
}

func (a *applier) undoEffect(ctx context.Context, now DeviceState, eff *effect) error {
	if eff.setMode {
		return a.undoMode(ctx, now)
	}
	found := now.find(eff.at)
	switch {
	case eff.op == opDestroy && (eff.gone || found == nil && eff.maybeGone):
		return a.recreate(ctx, now, eff)
	case found == nil:
		return nil // somebody else destroyed it
	case eff.lost && len(eff.hit)+len(eff.made) == 0 && eff.op != opCreate:
		return nil // nothing was done to it
	case eff.lost:
		return fmt.Errorf("%w: %s is kept, somebody else destroyed or changed what this change had there", ErrConflict,
			found.instance())
	case eff.op == opDestroy:
		if others := without(found.Compute, eff.at.Compute); len(others) > 0 {
			return fmt.Errorf("%w: %s can't come back, %s is in its place", ErrConflict, eff.at.instance(),
				found.instance())
		}
		err := a.refill(ctx, eff, without(eff.hit, found.Compute))
		if err == nil && eff.maybeGone {
			err = fmt.Errorf("mig: %s is in doubt: the call that failed may have destroyed it, and somebody else made the "+
				"one that is there", eff.at.instance())
		}
		return err
	}
	if others := without(found.Compute, eff.made); len(others) > 0 {
		return fmt.Errorf("mig: %s holds compute instances that the driver did not return to this change; it was kept",
			found.instance())
	}
	step := Step{opDestroy, found.instance()}
	if eff.op == opComplete {
		if len(found.Compute) == 0 {
			return nil
		}
		step.Op = opEmpty
	}
	return a.undoStep(step, optional.Of(found.ID), func(*JournalEntry) error {
		gone := &effect{at: *found}
		if err := a.destroyCompute(ctx, gone, found.Compute); err != nil || step.Op == opEmpty {
			return err
		}
		err := a.dev.DestroyGPUInstance(ctx, found.ID)
		return a.fail(explain(err, inUseInstance), "destroy GPU instance %d", found.ID)
	})
}

// refill creates compute instances again in a GPU instance that still exists.
func (a *applier) refill(ctx context.Context, eff *effect, lost []DeviceCompute) error {
	if len(lost) == 0 {
		return nil
	}
	return a.undoStep(Step{opComplete, eff.at.instance()}, optional.Of(eff.at.ID), func(*JournalEntry) error {
		return a.addAll(ctx, &effect{at: eff.at}, lost)
	})
}

// addAll creates compute instances of the profiles that were there.
func (a *applier) addAll(ctx context.Context, eff *effect, compute []DeviceCompute) error {
	for _, c := range slices.SortedStableFunc(slices.Values(compute),
		func(a, b DeviceCompute) int { return b.Slices - a.Slices }) {
		if err := a.addCompute(ctx, eff, c.Profile); err != nil {
			return err
		}
	}
	return nil
}

// mayHaveMade reports whether Apply made an instance, or a call of it that failed may have.
func (a *applier) mayHaveMade(d DeviceInstance) bool {
	return a.maybe != nil && a.maybe.Profile == d.Profile && a.maybe.Placement == d.Placement ||
		slices.ContainsFunc(a.effects, func(eff *effect) bool { return eff.op == opCreate && d.isSame(eff.at) })
}

// recreate creates a destroyed instance again where its place is free.
func (a *applier) recreate(ctx context.Context, now DeviceState, eff *effect) error {
	in := eff.at.instance()
	in.Busy = false
	var taken []string
	others := false
	for _, d := range now.Instances {
		if d.Start < in.End() && in.Start < d.End() {
			taken = append(taken, d.instance().String())
			others = others || !a.mayHaveMade(d)
		}
	}
	why := fmt.Sprintf("%s can't come back, [%s] is in its place", in, strings.Join(taken, ","))
	switch {
	case others:
		return fmt.Errorf("%w: %s", ErrConflict, why)
	case len(taken) > 0:
		return errors.New("mig: " + why)
	}
	return a.undoStep(Step{opCreate, in}, sharing.Optional[int]{}, func(e *JournalEntry) error {
		d, err := a.dev.CreateGPUInstance(ctx, in.Profile, in.Placement)
		if err != nil {
			return a.fail(explain(err, inUseGPU), "create GPU instance %s", in)
		}
		e.ID = optional.Of(d.ID)
		return a.addAll(ctx, &effect{at: d}, eff.at.Compute)
	})
}

// undoMode switches MIG mode back, unless the change waits for a reset, which
// the caller is to make, or somebody uses the mode.
func (a *applier) undoMode(ctx context.Context, now DeviceState) error {
	switch {
	case now.Mode != now.Pending:
		return newPending(now)
	case now.Mode == a.before.Mode:
		return nil
	case len(now.Instances) > 0 && !a.before.Mode:
		return fmt.Errorf("mig: MIG stays enabled: it holds [%s]", now.Layout())
	}
	return a.journalUndo(JournalEntry{Action: "set-mode", Mode: optional.Of(a.before.Mode)},
		func(*JournalEntry) error { return a.fail(a.dev.SetMode(ctx, a.before.Mode), "restore MIG mode") })
}

// undoStep does and journals one step of undoing, of the GPU instance with the id where it has one.
func (a *applier) undoStep(step Step, id sharing.Optional[int], do func(*JournalEntry) error) error {
	e := step.entry()
	e.ID = id
	err := a.journalUndo(e, do)
	if err == nil {
		a.undone = append(a.undone, step)
	}
	return err
}

// journalUndo journals an undoing step do. It is made even where the journal can't be written.
func (a *applier) journalUndo(e JournalEntry, do func(*JournalEntry) error) error {
	e.Undo, e.Status = true, "done"
	err := do(&e)
	if err != nil {
		e.Status, e.Error = "failed", err.Error()
	}
	_ = a.journal(e)
	return err
}

// unchanged reads the device, which must be as Apply left it.
func (a *applier) unchanged(ctx context.Context) (DeviceState, error) {
	state, err := a.dev.State(ctx)
	if err != nil {
		return state, a.fail(err, "read state")
	}
	a.observe(state)
	if changes := a.changes(state); len(changes) > 0 {
		return state, fmt.Errorf("%w: on %s %s", ErrConflict, a.report.Device, strings.Join(changes, ", "))
	}
	return state, nil
}

// observe records the parts that others took from the GPU instances that Apply made or began to destroy.
func (a *applier) observe(now DeviceState) {
	for _, eff := range a.effects {
		if eff.setMode || eff.gone {
			continue
		}
		d := now.find(eff.at)
		if d == nil {
			eff.lost = eff.lost || !eff.maybeGone
		} else if kept := without(slices.Concat(eff.at.Compute, eff.made), eff.hit); len(without(kept, d.Compute)) > 0 {
			eff.lost = true
		}
	}
}

// acted reads the device after a failed call, and reports whether seen finds the
// call's effect in it: some drivers refuse after they have acted.
func (a *applier) acted(ctx context.Context, seen func(now DeviceState) bool) bool {
	a.own = false
	for range stateTries {
		if now, err := a.dev.State(context.WithoutCancel(ctx)); err == nil {
			a.own = seen(now)
			break
		}
	}
	return a.own
}

// stateTries bounds how often the state is read after a failed call: that state decides which steps are undone.
const stateTries = 3

// blame turns a driver's refusal into a conflict where somebody else changed the device since it was read.
func (a *applier) blame(ctx context.Context, err error) error {
	if !refused(err) || a.own {
		return err
	}
	var changes []string
	if state, serr := a.dev.State(context.WithoutCancel(ctx)); serr == nil {
		a.observe(state)
		changes = a.changes(state)
	}
	if n := len(a.effects); n > 0 && errors.Is(err, ErrNotFound) { // the instance there is gone
		a.effects[n-1].lost = !a.effects[n-1].gone
		if len(changes) == 0 {
			changes = []string{a.effects[n-1].at.instance().String() + " was destroyed"}
		}
	}
	if errors.Is(err, ErrDisabled) && len(changes) == 0 { // for a moment
		changes = []string{"MIG was disabled"}
	}
	if len(changes) > 0 {
		return fmt.Errorf("%w: on %s %s; %w", ErrConflict, a.report.Device, strings.Join(changes, ", "), err)
	}
	return err
}

// changes lists the changes of others on the device.
func (a *applier) changes(now DeviceState) []string {
	var out []string
	switch {
	case now.Mode != a.mode:
		out = append(out, "MIG was "+modeText(now.Mode))
	case now.Pending != a.mode:
		out = append(out, fmt.Sprintf("a change was requested: MIG will be %s after a reset", modeText(now.Pending)))
	}
	for i := range now.Instances {
		d := &now.Instances[i]
		j := slices.IndexFunc(a.expected, d.isSame)
		switch {
		case j < 0:
			out = append(out, d.instance().String()+" was created")
		case len(a.expected[j].Compute) == len(d.Compute) && len(without(a.expected[j].Compute, d.Compute)) == 0:
		case len(a.expected[j].Compute) == len(d.Compute):
			out = append(out, d.instance().String()+" was made again")
		default:
			out = append(out, fmt.Sprintf("%s became %s", a.expected[j].instance(), d.instance()))
		}
	}
	for _, d := range a.expected {
		if !slices.ContainsFunc(now.Instances, func(n DeviceInstance) bool { return n.isSame(d) }) {
			out = append(out, d.instance().String()+" was destroyed")
		}
	}
	return out
}

// isSame reports whether two reports are of one GPU instance, as far as the driver's ids tell.
func (d *DeviceInstance) isSame(o DeviceInstance) bool {
	return d.ID == o.ID && d.Profile == o.Profile && d.Placement == o.Placement
}

// isSame reports whether two reports are of one compute instance. Where the
// driver names MIG devices, one made again has another name.
func (c DeviceCompute) isSame(o DeviceCompute) bool {
	return c.ID == o.ID && (c.UUID == o.UUID || c.UUID == "" || o.UUID == "")
}

// without returns those of a that are not in b.
func without(a, b []DeviceCompute) []DeviceCompute {
	var out []DeviceCompute
	for _, c := range a {
		if !slices.ContainsFunc(b, c.isSame) {
			out = append(out, c)
		}
	}
	return out
}

// find returns the device's report of a GPU instance, or nil.
func (s DeviceState) find(d DeviceInstance) *DeviceInstance {
	if i := slices.IndexFunc(s.Instances, d.isSame); i >= 0 {
		return &s.Instances[i]
	}
	return nil
}
