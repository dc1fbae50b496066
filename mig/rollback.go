package mig

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// undo brings the device back to the layout and mode that were there. It looks
// at what the device holds instead of at what was meant to be done, so that a
// step that failed half-way is undone as well.
func (a *applier) undo(ctx context.Context, cause error) error {
	timeout := a.opts.RollbackTimeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	e := &ApplyError{Device: a.report.Device, Err: cause, Failed: a.failed, Done: slices.Clone(a.report.Done)}
	e.RollbackErr = a.restore(ctx)
	e.Undone = a.undone
	if left, err := a.dev.State(ctx); err == nil {
		e.Left = &left
		e.RolledBack = left.Mode == a.before.Mode && left.Pending == a.before.Pending &&
			slices.EqualFunc(left.Layout().Instances, a.before.Layout().Instances, sameInstance)
		a.report.After = left.Layout()
	} else {
		e.RollbackErr = errors.Join(e.RollbackErr, err)
	}
	if e.RolledBack {
		e.RollbackErr = nil
	} else if e.RollbackErr == nil {
		e.RollbackErr = errors.New("mig: the device does not hold what was there before")
	}
	return e
}

// restore goes on past a step that fails, so that as much as possible comes
// back, and joins the errors.
func (a *applier) restore(ctx context.Context) error {
	now, err := a.dev.State(ctx)
	if err != nil {
		return opError("read state", a.report.Device, err)
	}
	target := a.before.Layout()
	var errs []error
	try := func(op Op, in Instance, do func() (Optional[int], error)) {
		err := a.undoStep(JournalEntry{Action: op.String(), Instance: in.String()}, do)
		if err == nil {
			a.undone = append(a.undone, Step{op, in})
		}
		errs = append(errs, err)
	}
	standing := map[Placement]bool{}
	for _, d := range now.Instances {
		in := d.instance()
		i := slices.IndexFunc(target.Instances, func(t Instance) bool { return t.Profile == in.Profile && t.Placement == in.Placement })
		if i < 0 {
			try(OpDestroy, in, func() (Optional[int], error) { return optional.Of(d.ID), a.destroy(ctx, d) })
			continue
		}
		standing[in.Placement] = true
		if want := target.Instances[i]; !sameInstance(in, want) {
			try(OpCreate, want, func() (Optional[int], error) {
				return optional.Of(d.ID), a.createCompute(ctx, d.ID, in.Profile, missing(want, in))
			})
		}
	}
	for _, want := range target.Instances {
		if !standing[want.Placement] {
			try(OpCreate, want, func() (Optional[int], error) {
				return a.create(ctx, want)
			})
		}
	}
	if now.Mode != a.before.Mode || now.Pending != a.before.Pending {
		mode := a.before.Mode
		errs = append(errs, a.undoStep(JournalEntry{Action: "set-mode", Mode: optional.Of(mode)}, func() (Optional[int], error) {
			return Optional[int]{}, opError("restore MIG mode", a.report.Device, a.dev.SetMode(ctx, mode))
		}))
	}
	return errors.Join(errs...)
}

// undoStep does and journals one step of undoing. What is undone is undone even
// where the journal can't be written.
func (a *applier) undoStep(e JournalEntry, do func() (Optional[int], error)) error {
	e.Undo = true
	id, err := do()
	e.Status, e.ID = "done", id
	if err != nil {
		e.Status, e.Error = "failed", err.Error()
	}
	if jerr := a.journal(e); jerr != nil && err == nil {
		a.log.Error("mig undo: journal", "error", jerr)
	}
	return err
}

// missing returns the slices of the compute instances that want has and in has
// not.
func missing(want, in Instance) []int {
	left := slices.Clone(want.Compute)
	if want.Compute == nil {
		left = []int{want.Profile.ComputeSlices}
	}
	for _, c := range in.Compute {
		if i := slices.Index(left, c); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}
