package mig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// ApplyOptions tune Apply. The zero value is the documented default.
type ApplyOptions struct {
	// DryRun checks the device's state and journals the steps as planned, and
	// changes nothing.
	DryRun bool
	// Journal gets every step before it is tried and after it ended. An error
	// stops the change before the device is touched further, and it is undone.
	Journal func(JournalEntry) error
	// RollbackTimeout bounds undoing, which goes on when ctx is cancelled; 0
	// means one minute.
	RollbackTimeout time.Duration
	// Logger gets each step; nil discards.
	Logger *slog.Logger
}

// JournalEntry is one line of the journal of a change.
type JournalEntry struct {
	Seq    int    `json:"seq"`
	Action string `json:"action"` // set-mode, create or destroy
	// Status is planned (dry run), started, done or failed.
	Status   string `json:"status"`
	Device   string `json:"device"`
	Instance string `json:"instance,omitempty"` // as Instance.String writes it
	// ID is the driver's id of the GPU instance, once it is known.
	ID    Optional[int]  `json:"id,omitzero"`
	Mode  Optional[Mode] `json:"mode,omitzero"`  // of set-mode
	Undo  bool           `json:"undo,omitempty"` // the step undoes an earlier one
	Error string         `json:"error,omitempty"`
}

// Report says what Apply did.
type Report struct {
	Device  string
	DryRun  bool
	Journal []JournalEntry
	Done    []Step
	// After is the layout the device reports at the end; in a dry run the one
	// it would have.
	After Layout
}

// ApplyError says that a change failed, and exactly what is left. Unwrap gives
// the cause and, where undoing failed too, its error.
type ApplyError struct {
	Device string
	Err    error  // why the change failed
	Failed string // the step that failed, in words
	Done   []Step // steps that had been made when it failed
	// Undone are the steps that undid them, and what a step that failed
	// half-way had left.
	Undone []Step
	// RolledBack says that the device holds the earlier layout again. Created
	// again, instances have new ids and UUIDs.
	RolledBack bool
	// RollbackErr says why undoing failed, where it did.
	RollbackErr error
	// Left is what the device holds now; nil where it could not be read.
	Left *DeviceState
}

// Error says what failed and what is left.
func (e *ApplyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mig: %s failed on %s: %v", e.Failed, e.Device, e.Err)
	switch {
	case e.RolledBack:
		b.WriteString("; the earlier layout stands again")
	case e.Left != nil:
		fmt.Fprintf(&b, "; undoing failed (%v) and the device holds [%s]", e.RollbackErr, e.Left.Layout())
	default:
		fmt.Fprintf(&b, "; undoing failed (%v) and the device can't be read", e.RollbackErr)
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *ApplyError) Unwrap() []error {
	if e.RollbackErr == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.RollbackErr}
}

// Apply makes the changes of a plan on a device. It first reads the device: it
// must hold what the plan starts from, and no instance that the plan destroys
// may have become busy, else nothing is touched (ErrStale, ErrBusy). MIG mode
// is switched where the plan needs it. Each step waits for the one before; ctx is
// honoured between steps. When a step fails everything is undone, so that the
// device holds the earlier placed layout and mode again. The error is then an
// *ApplyError, which also says what is left where undoing failed.
func Apply(ctx context.Context, dev Device, plan ChangePlan, opts ApplyOptions) (Report, error) {
	a := &applier{dev: dev, opts: opts, log: opts.Logger}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	state, err := dev.State(ctx)
	if err != nil {
		return Report{}, opError("read state", state.UUID, err)
	}
	a.report = Report{Device: state.UUID, DryRun: opts.DryRun}
	if err := check(state, plan); err != nil {
		return a.report, err
	}
	if opts.DryRun {
		return a.dryRun(state, plan)
	}
	a.before = state
	if err := a.run(ctx, plan); err != nil {
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

// check compares the device with what the plan starts from.
func check(state DeviceState, plan ChangePlan) error {
	if state.Mode != state.Pending {
		return &OpError{"change MIG", state.UUID, pendingError(state, state.Pending)}
	}
	now := state.Layout()
	if plan.Model != nil && len(now.Instances) > 0 && now.Model != plan.Model {
		return fmt.Errorf("%w: it is a %s, and the plan is for a %s", ErrStale, now.Model, plan.Model)
	}
	if !slices.EqualFunc(now.Instances, plan.Have.Instances, sameInstance) {
		return fmt.Errorf("%w: it holds [%s], and the plan starts from [%s]; plan again", ErrStale, now, plan.Have)
	}
	var busy []Instance
	for i, in := range now.Instances {
		goes := slices.ContainsFunc(plan.Destroy, func(d Instance) bool { return sameInstance(in, d) })
		if goes && in.Busy && !plan.Have.Instances[i].Busy {
			busy = append(busy, in)
		}
	}
	if len(busy) > 0 {
		return &BusyError{Busy: busy, Plan: plan}
	}
	return nil
}

// pendingError explains a mode change that did not take effect.
func pendingError(state DeviceState, want Mode) error {
	why := "the driver does not say whether this GPU changes mode without a reset"
	switch state.Resetless.String() {
	case "no":
		why = "this GPU changes mode only by a reset"
	case "yes":
		why = "this GPU should change mode without a reset, and a client may hold it"
	}
	return fmt.Errorf("%w: MIG will be %s after a reset of %s (%s); stop its clients and reset it, for example with nvidia-smi --gpu-reset -i %s",
		ErrPendingReset, want, state.UUID, why, state.UUID)
}

type applier struct {
	dev    Device
	opts   ApplyOptions
	log    *slog.Logger
	before DeviceState
	report Report
	undone []Step
	failed string
}

func (a *applier) dryRun(state DeviceState, plan ChangePlan) (Report, error) {
	var entries []JournalEntry
	for _, s := range plan.Steps {
		entries = append(entries, JournalEntry{Action: s.Op.String(), Instance: s.Instance.String()})
	}
	if mode := plan.mode(state.Mode); mode != state.Mode {
		entry := JournalEntry{Action: "set-mode", Mode: optional.Of(mode)}
		if mode == ModeEnabled {
			entries = slices.Insert(entries, 0, entry)
		} else {
			entries = append(entries, entry)
		}
	}
	for _, e := range entries {
		e.Status = "planned"
		if err := a.journal(e); err != nil {
			return a.report, err
		}
	}
	a.report.After = plan.Want
	return a.report, nil
}

func (a *applier) journal(e JournalEntry) error {
	e.Seq, e.Device = len(a.report.Journal)+1, a.report.Device
	a.report.Journal = append(a.report.Journal, e)
	a.log.Info("mig apply", "seq", e.Seq, "action", e.Action, "status", e.Status, "instance", e.Instance, "undo", e.Undo, "error", e.Error)
	if a.opts.Journal == nil {
		return nil
	}
	return a.opts.Journal(e)
}

// step journals an action around do.
func (a *applier) step(ctx context.Context, e JournalEntry, do func() (Optional[int], error)) error {
	a.failed = strings.TrimSpace(e.Action + " " + e.Instance)
	if err := ctx.Err(); err != nil {
		return err
	}
	e.Status = "started"
	if err := a.journal(e); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	id, err := do()
	e.Status, e.ID = "done", id
	if err != nil {
		e.Status, e.Error = "failed", err.Error()
	}
	if jerr := a.journal(e); jerr != nil && err == nil {
		return fmt.Errorf("journal: %w", jerr)
	}
	return err
}

func (a *applier) run(ctx context.Context, plan ChangePlan) error {
	mode := plan.mode(a.before.Mode)
	if mode == ModeEnabled && a.before.Mode == ModeDisabled {
		if err := a.setMode(ctx, mode); err != nil {
			return err
		}
	}
	ids := map[Placement]DeviceInstance{}
	for _, d := range a.before.Instances {
		ids[d.Placement] = d
	}
	for _, s := range plan.Steps {
		e := JournalEntry{Action: s.Op.String(), Instance: s.Instance.String()}
		err := a.step(ctx, e, func() (Optional[int], error) {
			if s.Op == OpDestroy {
				d := ids[s.Instance.Placement]
				return optional.Of(d.ID), a.destroy(ctx, d)
			}
			return a.create(ctx, s.Instance)
		})
		if err != nil {
			return err
		}
		a.report.Done = append(a.report.Done, s)
	}
	if mode == ModeDisabled && a.before.Mode == ModeEnabled {
		return a.setMode(ctx, mode)
	}
	return nil
}

// mode is the MIG mode that the plan leaves a GPU in.
func (p *ChangePlan) mode(now Mode) Mode {
	if len(p.Create) > 0 {
		now = ModeEnabled
	}
	return p.Mode.Or(now)
}

func (a *applier) setMode(ctx context.Context, mode Mode) error {
	return a.step(ctx, JournalEntry{Action: "set-mode", Mode: optional.Of(mode)}, func() (Optional[int], error) {
		err := explain(a.dev.SetMode(ctx, mode), inUseGPU)
		if err == nil {
			var state DeviceState
			if state, err = a.dev.State(ctx); err == nil && state.Mode != mode {
				err = pendingError(state, mode)
			}
		}
		return Optional[int]{}, opError("set MIG mode", a.report.Device, err)
	})
}

func (a *applier) destroy(ctx context.Context, d DeviceInstance) error {
	for _, c := range d.Compute {
		if err := a.dev.DestroyComputeInstance(ctx, d.ID, c.ID); err != nil {
			return opError(fmt.Sprintf("destroy compute instance %d of GPU instance %d", c.ID, d.ID), a.report.Device, explain(err, inUseInstance))
		}
	}
	err := explain(a.dev.DestroyGPUInstance(ctx, d.ID), inUseInstance)
	return opError(fmt.Sprintf("destroy GPU instance %d", d.ID), a.report.Device, err)
}

// create returns the driver's id where the GPU instance was made.
func (a *applier) create(ctx context.Context, in Instance) (Optional[int], error) {
	d, err := a.dev.CreateGPUInstance(ctx, in.Profile, in.Placement)
	switch {
	case err != nil:
		return Optional[int]{}, opError("create GPU instance "+in.String(), a.report.Device, explain(err, inUseGPU))
	case d.Placement != in.Placement:
		err = opError("create GPU instance "+in.String(), a.report.Device, fmt.Errorf("the driver placed it at %s", d.Placement))
	default:
		err = a.createCompute(ctx, d.ID, in.Profile, in.Compute)
	}
	return optional.Of(d.ID), err
}

// createCompute creates compute instances of the given slices, or one that
// spans the GPU instance, each with the most SMs that there are.
func (a *applier) createCompute(ctx context.Context, id int, p *Profile, compute []int) error {
	if compute == nil {
		compute = []int{p.ComputeSlices}
	}
	// Largest first: an aligned driver might put a small one in a large one's way.
	for _, width := range slices.SortedFunc(slices.Values(compute), func(a, b int) int { return b - a }) {
		profiles, err := a.dev.ComputeProfiles(ctx, id)
		if err != nil {
			return opError(fmt.Sprintf("list compute profiles of GPU instance %d", id), a.report.Device, err)
		}
		best, ok := BestComputeProfile(profiles, width)
		if !ok {
			return opError("create compute instance", a.report.Device, fmt.Errorf("%w: GPU instance %d offers none of %d slices", ErrNotSupported, id, width))
		}
		if _, err := a.dev.CreateComputeInstance(ctx, id, best.ID); err != nil {
			return opError(fmt.Sprintf("create compute instance of %d slices in GPU instance %d", width, id), a.report.Device, err)
		}
	}
	return nil
}

// opError wraps err unless it is nil or says the device already.
func opError(op, device string, err error) error {
	var oe *OpError
	if err == nil || errors.As(err, &oe) {
		return err
	}
	return &OpError{Op: op, Device: device, Err: err}
}

// explain says what the driver's bare "in use" means for an operation.
func explain(err error, why string) error {
	if errors.Is(err, ErrInUse) {
		return fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

const (
	inUseGPU = "the mode changes, and the first instance is created, only while no client holds the GPU: stop every process that has it open, " +
		"among them profilers, monitoring agents and display servers"
	inUseInstance = "a client uses the instance: stop it, or wait until it ends"
)
