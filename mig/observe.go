package mig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unchanged reads the device, which must hold what Apply left there.
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

// observe notes what others took from the GPU instances that Apply made or began to destroy.
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

// stateTries bounds how often the state is read after a failed call: what it shows decides what is undone.
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
	if n := len(a.effects); n > 0 && errors.Is(err, ErrNotFound) { // what stood there is gone
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

// changes says what others changed on the device.
func (a *applier) changes(now DeviceState) []string {
	var out []string
	switch {
	case now.Mode != a.mode:
		out = append(out, fmt.Sprintf("MIG was %s", now.Mode))
	case now.Pending != a.mode:
		out = append(out, fmt.Sprintf("a change was requested: MIG will be %s after a reset", now.Pending))
	}
	for i := range now.Instances {
		d := &now.Instances[i]
		j := slices.IndexFunc(a.stands, d.isSame)
		switch {
		case j < 0:
			out = append(out, d.instance().String()+" was created")
		case len(a.stands[j].Compute) == len(d.Compute) && len(without(a.stands[j].Compute, d.Compute)) == 0:
		case len(a.stands[j].Compute) == len(d.Compute):
			out = append(out, d.instance().String()+" was made again")
		default:
			out = append(out, fmt.Sprintf("%s became %s", a.stands[j].instance(), d.instance()))
		}
	}
	for _, d := range a.stands {
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
