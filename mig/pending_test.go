// SPDX-License-Identifier: Apache-2.0

package mig_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
)

// TestPendingMode: MIG mode that changes by a reset stays pending, whichever
// way, and the same call goes on after the reset.
func TestPendingMode(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "a100-80gb")
	on := must.Get(mig.Diff(m, mig.Layout{}, want(t, "3g.40gb,1g.10gb"), mig.DiffOptions{}))(t)
	held := parse(t, m, "1g.10gb@0")
	off := must.Get(mig.Diff(m, held, nil, mig.DiffOptions{}))(t)
	off.Mode = optional.Of(false)
	empty := mig.ChangePlan{Model: m, Mode: off.Mode}
	for _, c := range []struct {
		name string
		opts migtest.Options
		plan mig.ChangePlan
		mode bool
		done int
		want string
	}{
		{"enable", migtest.Options{Disabled: true}, on, true, 0, "1g.10gb@0,3g.40gb@4"},
		{"disable", migtest.Options{Layout: held}, off, false, 1, ""},
		{"disable an empty GPU", migtest.Options{}, empty, false, 0, ""},
	} {
		g := simulated(t, m, c.opts)
		for call := range 2 { // the second finds the mode pending
			report, err := mig.Apply(ctx, g, c.plan, mig.ApplyOptions{})
			if !errors.Is(err, mig.ErrPendingReset) || !strings.Contains(err.Error(), "MIG will be "+map[bool]string{true: "enabled", false: "disabled"}[c.mode]) || !strings.Contains(err.Error(), "reset it") || !strings.Contains(err.Error(), "same call again") {
				t.Fatalf("%s: call %d: %v", c.name, call, err)
			}
			if call == 0 && (len(report.Done) != c.done || report.Journal[len(report.Journal)-1].Status != "pending") {
				t.Errorf("%s: %v done, journal %+v", c.name, report.Done, report.Journal)
			}
			if state, err := g.State(ctx); err != nil || state.Mode == c.mode || state.Pending != c.mode {
				t.Fatalf("%s: call %d: MIG is %v and pending %v, %v", c.name, call, state.Mode, state.Pending, err)
			}
		}
		must.Do(t, g.Reset())
		if _, err := mig.Apply(ctx, g, c.plan, mig.ApplyOptions{}); err != nil || g.Layout().String() != c.want {
			t.Errorf("%s: [%s], %v", c.name, g.Layout(), err)
		}
		if state, err := g.State(ctx); err != nil || state.Mode != c.mode {
			t.Errorf("%s: MIG is %v, %v", c.name, state.Mode, err)
		}
	}
}

// TestPendingResume: a plan that disables MIG and was stopped by the reset is done when it is applied again.
func TestPendingResume(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "a100-80gb")
	have := parse(t, m, "1g.10gb@0")
	off := must.Get(mig.Diff(m, have, nil, mig.DiffOptions{}))(t)
	off.Mode = optional.Of(false)
	g := simulated(t, m, migtest.Options{Layout: have})
	if _, err := mig.Apply(ctx, g, off, mig.ApplyOptions{}); !errors.Is(err, mig.ErrPendingReset) {
		t.Fatal(err)
	}
	must.Do(t, g.Reset())
	if _, err := mig.Apply(ctx, g, off, mig.ApplyOptions{}); err != nil {
		t.Error(err)
	}
	// A pending change that the plan does not want is in the way of it.
	g = simulated(t, m, migtest.Options{})
	must.Do(t, g.SetMode(ctx, false))
	on := must.Get(mig.Diff(m, mig.Layout{}, want(t, "1g.10gb"), mig.DiffOptions{}))(t)
	if _, err := mig.Apply(ctx, g, on, mig.ApplyOptions{}); !errors.Is(err, mig.ErrPendingReset) || !strings.Contains(err.Error(), "which the plan does not want") {
		t.Errorf("err = %v", err)
	}
}

// TestPendingUnread: the mode is pending though the call that requested it
// failed, or its result could not be read. Undoing leaves it and reports that.
func TestPendingUnread(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "a100-80gb")
	plan := must.Get(mig.Diff(m, mig.Layout{}, want(t, "3g.40gb"), mig.DiffOptions{}))(t)
	for _, fault := range []migtest.Fault{{Call: 3, After: true}, {Call: 4}} {
		g := simulated(t, m, migtest.Options{Disabled: true})
		g.Fail(fault)
		_, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{})
		var ae *mig.ApplyError
		if !errors.As(err, &ae) || ae.RolledBack || !errors.Is(err, mig.ErrPendingReset) || !errors.Is(err, migtest.ErrInjected) {
			t.Errorf("%+v: %v", fault, err)
		}
		if state, err := g.State(ctx); err != nil || !state.Pending {
			t.Errorf("%+v: pending %v, %v", fault, state.Pending, err)
		}
	}
}

// TestUndoMode: MIG mode goes back to disabled only while nobody has an
// instance, and not when somebody else switched it.
func TestUndoMode(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "H200")
	plan := must.Get(mig.Diff(m, mig.Layout{}, want(t, "3g.71gb"), mig.DiffOptions{}))(t)
	g := &contested{GPU: simulated(t, m, migtest.Options{Disabled: true})}
	g.act = func(call string) {
		if call == "create" {
			must.Get(g.GPU.CreateGPUInstance(ctx, m.Profiles[0], mig.Placement{Start: 4, Size: 1}))(t)
		}
	}
	var ae *mig.ApplyError
	if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrConflict) || !errors.As(err, &ae) || ae.RolledBack || !strings.Contains(err.Error(), "MIG stays enabled") {
		t.Errorf("err = %v", err)
	}
	if now := g.Layout().String(); now != "1g.18gb@4[]" {
		t.Errorf("[%s]", now)
	}
	g = &contested{GPU: simulated(t, m, migtest.Options{})}
	n := 0
	g.act = func(call string) {
		if n++; n == 2 {
			must.Do(t, g.GPU.SetMode(ctx, false))
		}
	}
	if _, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{}); !errors.Is(err, mig.ErrConflict) || !strings.Contains(err.Error(), "MIG was disabled") {
		t.Errorf("err = %v", err)
	}
	if state, err := g.GPU.State(ctx); err != nil || state.Mode {
		t.Errorf("MIG is %v, %v", state.Mode, err)
	}
}
