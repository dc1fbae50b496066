// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// applier makes one change.
type applier struct {
	dev    Device
	opts   ApplyOptions
	before DeviceState
	// mode and expected are the state of the device, provided that no one else changes it.
	mode     bool
	expected []DeviceInstance
	effects  []*effect // the changes that were made, or begun, in order
	maybe    *Instance // the instance that a failed create may have made all the same
	own      bool      // the call that failed had its effect all the same
	report   Report
	undone   []Step
	failed   string
}

// effect is one change of the device: of an instance, or of the mode.
type effect struct {
	op      string
	setMode bool
	// at is the GPU instance: as it stood before it was destroyed, and as the driver returned it when it was created.
	at   DeviceInstance
	want Instance
	// made are the compute instances that the driver returned, and hit those that it destroyed, or may have. gone says
	// that it destroyed the GPU instance, and maybeGone that it may have: the call failed in another way than a refusal.
	made, hit       []DeviceCompute
	gone, maybeGone bool
	// lost is set when the GPU instance was seen to be gone or without a compute instance that should be there: an
	// instance in its place may be another one, even with the same id.
	lost bool
}

func (a *applier) journal(e JournalEntry) error {
	e.Seq, e.Device = len(a.report.Journal)+1, a.report.Device
	a.report.Journal = append(a.report.Journal, e)
	if a.opts.Journal == nil {
		return nil
	}
	return a.opts.Journal(e)
}

// step journals an action around do, which gets the device's state. In a dry run it is journalled as planned only.
func (a *applier) step(ctx context.Context, e JournalEntry, do func(DeviceState) (sharing.Optional[int], error)) error {
	if a.opts.DryRun {
		e.Status = "planned"
		return a.journal(e)
	}
	a.failed = strings.TrimSpace(e.Action + " " + e.Instance)
	if err := ctx.Err(); err != nil {
		return err
	}
	e.Status = "started"
	if err := a.journal(e); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	state, err := a.unchanged(ctx)
	if err == nil {
		e.ID, err = do(state)
		err = a.blame(ctx, err)
	}
	switch {
	case err == nil:
		e.Status = "done"
	case errors.Is(err, ErrPendingReset):
		e.Status = "pending"
	default:
		e.Status, e.Error = "failed", err.Error()
	}
	if jerr := a.journal(e); jerr != nil && err == nil {
		return fmt.Errorf("journal: %w", jerr)
	}
	return err
}

func (a *applier) run(ctx context.Context, plan ChangePlan) error {
	mode := plan.mode(a.before.Mode)
	if mode && !a.before.Mode {
		if err := a.setMode(ctx, mode); err != nil {
			return err
		}
	}
	for _, s := range plan.Steps {
		err := a.step(ctx, s.entry(), func(now DeviceState) (sharing.Optional[int], error) {
			if s.Op == opCreate {
				return a.create(ctx, s.Instance)
			}
			i := slices.IndexFunc(now.Instances, func(d DeviceInstance) bool {
				return d.Profile == s.Instance.Profile && d.Placement == s.Instance.Placement
			})
			if i < 0 {
				return sharing.Optional[int]{}, fmt.Errorf("%w: the plan has a step for %s, which does not exist", ErrInvalid,
					s.Instance)
			}
			d := now.Instances[i]
			switch {
			case s.Op == opComplete:
				return optional.Of(d.ID), a.complete(ctx, d, s.Instance)
			case d.Busy && !s.Instance.Busy:
				return optional.Of(d.ID), &busyError{Busy: []Instance{d.instance()}, Plan: plan}
			}
			return optional.Of(d.ID), a.destroy(ctx, d, s.Instance)
		})
		if err != nil {
			return err
		}
		a.report.Done = append(a.report.Done, s)
	}
	if !mode && a.before.Mode {
		return a.setMode(ctx, mode)
	}
	return nil
}

func (a *applier) setMode(ctx context.Context, mode bool) error {
	return a.step(ctx, JournalEntry{Action: "set-mode", Mode: optional.Of(mode)},
		func(now DeviceState) (sharing.Optional[int], error) {
			if !mode && len(now.Instances) > 0 {
				return sharing.Optional[int]{}, fmt.Errorf("%w: [%s] exists on %s, which the plan does not destroy", ErrInvalid,
					now.Layout(), a.report.Device)
			}
			a.effects = append(a.effects, &effect{setMode: true})
			if err := a.dev.SetMode(ctx, mode); err != nil {
				a.acted(ctx, func(now DeviceState) bool { return now.Pending == mode })
				return sharing.Optional[int]{}, a.fail(explain(err, inUseGPU), "set MIG mode")
			}
			state, err := a.dev.State(ctx)
			switch {
			case err != nil:
				a.own = true // the mode was set, whatever reading it back says
				return sharing.Optional[int]{}, a.fail(err, "read the MIG mode back")
			case state.Mode != mode && state.Pending == mode:
				return sharing.Optional[int]{}, newPending(state)
			case state.Mode != mode:
				return sharing.Optional[int]{}, fmt.Errorf("%w: MIG is %s on %s after it was switched", ErrConflict,
					modeText(state.Mode), a.report.Device)
			}
			a.mode = mode
			return sharing.Optional[int]{}, nil
		})
}

// destroy destroys the instance at d.
func (a *applier) destroy(ctx context.Context, d DeviceInstance, want Instance) error {
	eff := &effect{op: opDestroy, at: d, want: want}
	a.effects = append(a.effects, eff)
	if err := a.destroyCompute(ctx, eff, d.Compute); err != nil {
		return err
	}
	err := a.dev.DestroyGPUInstance(ctx, d.ID)
	eff.maybeGone = !refused(err)
	eff.gone = err == nil || a.acted(ctx, func(now DeviceState) bool { return now.find(d) == nil })
	if err != nil {
		return a.fail(explain(err, inUseInstance), "destroy GPU instance %d", d.ID)
	}
	a.expected = slices.DeleteFunc(a.expected, d.isSame)
	return nil
}

// setExpected notes which compute instances are in a GPU instance.
func (a *applier) setExpected(d DeviceInstance, compute []DeviceCompute) {
	if i := slices.IndexFunc(a.expected, d.isSame); i >= 0 {
		a.expected[i].Compute = compute
	}
}

func (a *applier) destroyCompute(ctx context.Context, eff *effect, compute []DeviceCompute) error {
	for _, c := range compute {
		err := a.dev.DestroyComputeInstance(ctx, eff.at.ID, c.ID)
		if err == nil || a.acted(ctx, func(now DeviceState) bool {
			d := now.find(eff.at)
			return d != nil && !slices.ContainsFunc(d.Compute, c.isSame)
		}) || !refused(err) {
			eff.hit = append(eff.hit, c)
		}
		if err != nil {
			return a.fail(explain(err, inUseInstance), "destroy compute instance %d of GPU instance %d", c.ID, eff.at.ID)
		}
		a.setExpected(eff.at, without(eff.at.Compute, eff.hit))
	}
	return nil
}

// refused reports whether an error says that the driver did nothing, which is not
// always so: see acted. After any other the call may have had its effect later.
func refused(err error) bool {
	return slices.ContainsFunc([]error{ErrInUse, ErrInsufficient, ErrDisabled, ErrNotSupported, ErrPermission,
		ErrNotFound},
		func(sentinel error) bool { return errors.Is(err, sentinel) })
}

// create returns the driver's id where the GPU instance was made.
func (a *applier) create(ctx context.Context, in Instance) (sharing.Optional[int], error) {
	eff := &effect{op: opCreate, want: in}
	d, err := a.dev.CreateGPUInstance(ctx, in.Profile, in.Placement)
	if err != nil {
		// A GPU instance is made without compute instances: one that has some is
		// somebody else's. So may be one without, where there was no room for ours.
		made := a.acted(ctx, func(now DeviceState) bool {
			i := slices.IndexFunc(now.Instances, func(d DeviceInstance) bool {
				return d.Profile == in.Profile && d.Placement == in.Placement && len(d.Compute) == 0 &&
					!slices.ContainsFunc(a.expected, d.isSame)
			})
			if i >= 0 {
				eff.at = now.Instances[i]
			}
			return i >= 0
		})
		switch {
		case !refused(err), made && errors.Is(err, ErrInsufficient):
			a.maybe = &in
		case made:
			a.effects, a.expected = append(a.effects, eff), append(a.expected, eff.at)
		}
		return sharing.Optional[int]{}, a.fail(explain(err, inUseGPU), "create GPU instance %s", in)
	}
	eff.at = d
	a.effects = append(a.effects, eff)
	a.expected = append(a.expected, d)
	if d.Placement != in.Placement {
		return optional.Of(d.ID), a.fail(fmt.Errorf("the driver placed it at %s", d.Placement), "create GPU instance %s", in)
	}
	return optional.Of(d.ID), a.createCompute(ctx, eff, in.Compute)
}

// complete creates the compute instances of a GPU instance that has none.
func (a *applier) complete(ctx context.Context, d DeviceInstance, want Instance) error {
	eff := &effect{op: opComplete, at: d, want: want}
	a.effects = append(a.effects, eff)
	return a.createCompute(ctx, eff, want.Compute)
}

// createCompute creates compute instances of the given slices, or one that
// spans the GPU instance, each with the most SMs that there are.
func (a *applier) createCompute(ctx context.Context, eff *effect, compute []int) error {
	id := eff.at.ID
	if compute == nil {
		compute = []int{eff.want.Profile.ComputeSlices}
	}
	// Largest first: an aligned driver might put a small one in a large one's way.
	for _, width := range slices.SortedFunc(slices.Values(compute), func(a, b int) int { return b - a }) {
		profiles, err := a.dev.ComputeProfiles(ctx, id)
		if err != nil {
			return a.fail(err, "list compute profiles of GPU instance %d", id)
		}
		best, ok := BestComputeProfile(profiles, width)
		if !ok {
			return a.fail(fmt.Errorf("%w: GPU instance %d offers none of %d slices", ErrNotSupported, id, width),
				"create compute instance")
		}
		if err := a.addCompute(ctx, eff, best.ID); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) addCompute(ctx context.Context, eff *effect, profile int) error {
	c, err := a.dev.CreateComputeInstance(ctx, eff.at.ID, profile)
	if err != nil {
		a.acted(ctx, func(now DeviceState) bool {
			d := now.find(eff.at)
			if d == nil {
				return false
			}
			more := without(d.Compute, slices.Concat(eff.at.Compute, eff.made))
			if len(more) != 1 || more[0].Profile != profile {
				return false
			}
			if refused(err) && !errors.Is(err, ErrInsufficient) { // else it may be somebody else's
				eff.made = append(eff.made, more[0])
			}
			return true
		})
		return a.fail(err, "create compute instance of profile %d in GPU instance %d", profile, eff.at.ID)
	}
	eff.made = append(eff.made, c)
	a.setExpected(eff.at, slices.Concat(eff.at.Compute, eff.made))
	return nil
}

// Apply makes the changes of a plan on a device. It first reads the device: unless it has the layout that the plan
// starts from, and no instance that the plan destroys has become busy, nothing is touched (ErrStale, ErrBusy). A device
// that already has the plan's result is left unchanged. MIG mode is switched if the plan needs it; if that needs a
// reset, the error is ErrPendingReset.
//
// ctx is honoured between steps. Before each step the device is read again: if it differs from the state that Apply
// left, another program is changing it, and the step is not made (ErrConflict). When a step fails, Apply undoes all of
// its own changes and no others: an instance is Apply's own if the driver returned it to Apply, or if a failed call
// left a change like its own, except at a placement for which the driver reported no room. The error is then an
// *ApplyError, with the remaining state. A Locker is locked for the whole call.
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

// fail is opError about the device that is changed.
func (a *applier) fail(err error, format string, args ...any) error {
	return opError(fmt.Sprintf(format, args...), a.report.Device, err)
}
