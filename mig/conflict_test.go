// SPDX-License-Identifier: Apache-2.0

package mig_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
)

// contested is a GPU that somebody else uses too: act runs before each of Apply's calls.
type contested struct {
	*migtest.GPU
	act func(call string)
}

func (c *contested) State(ctx context.Context) (mig.DeviceState, error) {
	c.act("state")
	return c.GPU.State(ctx)
}

func (c *contested) SetMode(ctx context.Context, mode bool) error {
	c.act("set mode")
	return c.GPU.SetMode(ctx, mode)
}

func (c *contested) CreateGPUInstance(ctx context.Context, p *mig.Profile, at mig.Placement) (mig.DeviceInstance, error) {
	c.act("create")
	return c.GPU.CreateGPUInstance(ctx, p, at)
}

func (c *contested) DestroyGPUInstance(ctx context.Context, id int) error {
	c.act("destroy")
	return c.GPU.DestroyGPUInstance(ctx, id)
}

func (c *contested) ComputeProfiles(ctx context.Context, id int) ([]mig.ComputeProfile, error) {
	c.act("compute profiles")
	return c.GPU.ComputeProfiles(ctx, id)
}

func (c *contested) CreateComputeInstance(ctx context.Context, id, profile int) (mig.DeviceCompute, error) {
	c.act("create compute")
	return c.GPU.CreateComputeInstance(ctx, id, profile)
}

func (c *contested) DestroyComputeInstance(ctx context.Context, gi, id int) error {
	c.act("destroy compute")
	return c.GPU.DestroyComputeInstance(ctx, gi, id)
}

// TestApplyForeignInstance: somebody makes 1g@1 where Apply is about to make its own. It is theirs, and stays.
func TestApplyForeignInstance(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "a100-80gb")
	plan := must.Get(mig.Diff(m, mig.Layout{}, want(t, "1g.10gb=2,3g.40gb"), mig.DiffOptions{}))(t)
	conflicts := 0
	for call := 1; ; call++ {
		g := &contested{GPU: simulated(t, m, migtest.Options{})}
		n, made := 0, false
		g.act = func(string) {
			if n++; n != call {
				return
			}
			d, err := g.GPU.CreateGPUInstance(ctx, m.Profiles[0], mig.Placement{Start: 1, Size: 1})
			if errors.Is(err, mig.ErrInsufficient) {
				return // Apply's is there
			}
			if _, cerr := g.GPU.CreateComputeInstance(ctx, d.ID, 0); err != nil || cerr != nil {
				t.Fatal(err, cerr)
			}
			made = true
		}
		_, err := mig.Apply(ctx, g, plan, mig.ApplyOptions{})
		if n < call {
			break
		}
		var ae *mig.ApplyError
		switch now := g.Layout().String(); {
		case !made || errors.Is(err, mig.ErrStale):
		case !errors.Is(err, mig.ErrConflict) || !errors.As(err, &ae) || !ae.RolledBack || !strings.Contains(err.Error(), "1g.10gb@1 was created") || now != "1g.10gb@1":
			t.Errorf("call %d: [%s] after %v", call, now, err)
		default:
			conflicts++
		}
	}
	if conflicts < 5 {
		t.Errorf("%d conflicts", conflicts)
	}
}

// other is a second actor on a GPU. It knows its own instances.
type other struct {
	g     *migtest.GPU
	model *mig.Model
	rng   *rand.Rand
	own   []mig.DeviceInstance
	harsh bool // it also destroys instances of others
	lost  []string
	// added are its compute instances in GPU instances that are not its own.
	added   []string // UUIDs
	release []func()
}

// act does up to three things at random.
func (o *other) act() {
	ctx := context.Background()
	for range o.rng.IntN(4) {
		switch k := o.rng.IntN(8); {
		case k < 3:
			profiles := o.model.Profiles
			p := profiles[o.rng.IntN(len(profiles))]
			if d, err := o.g.CreateGPUInstance(ctx, p, p.Placements[o.rng.IntN(len(p.Placements))]); err == nil {
				o.own = append(o.own, d)
			}
		case k < 5 && len(o.own) > 0:
			d := &o.own[o.rng.IntN(len(o.own))]
			profiles, err := o.g.ComputeProfiles(ctx, d.ID)
			if err != nil {
				continue
			}
			if c, err := o.g.CreateComputeInstance(ctx, d.ID, profiles[len(profiles)-1].ID); err == nil {
				d.Compute = append(d.Compute, c)
			}
		case k < 6 && len(o.own) > 0:
			i := o.rng.IntN(len(o.own))
			// A call that failed may have left Apply in doubt about an empty
			// instance in its place, which it then fills: nothing is lost by that.
			compute := o.own[i].Compute
			if state, err := o.g.State(ctx); err == nil {
				for _, d := range state.Instances {
					if d.ID == o.own[i].ID && len(compute) == 0 {
						compute = d.Compute
					}
				}
			}
			for _, c := range compute {
				if err := o.g.DestroyComputeInstance(ctx, o.own[i].ID, c.ID); err != nil {
					o.lost = append(o.lost, "compute instance: "+err.Error())
				}
			}
			if err := o.g.DestroyGPUInstance(ctx, o.own[i].ID); err != nil {
				o.lost = append(o.lost, "GPU instance: "+err.Error())
			}
			o.own = slices.Delete(o.own, i, i+1)
		case k == 6 && o.harsh:
			o.meddle(ctx)
			return // an instance that it makes there before Apply's next call can't be attributed
		}
	}
}

// meddle changes an instance of somebody else: it destroys it, adds a compute instance, uses it, or switches MIG off.
func (o *other) meddle(ctx context.Context) {
	state, err := o.g.State(ctx)
	if err != nil || len(state.Instances) == 0 {
		_ = o.g.SetMode(ctx, o.rng.IntN(4) > 0)
		return
	}
	d := state.Instances[o.rng.IntN(len(state.Instances))]
	if o.owns(d.ID) {
		return
	}
	switch o.rng.IntN(6) {
	case 0:
		if c, err := o.g.CreateComputeInstance(ctx, d.ID, 0); err == nil {
			o.added = append(o.added, c.UUID)
		}
	case 1:
		if release, err := o.g.Use(d.Start); err == nil {
			o.release = append(o.release, release)
		}
	case 2:
		for _, release := range o.release {
			release()
		}
	default:
		for _, c := range d.Compute {
			if o.g.DestroyComputeInstance(ctx, d.ID, c.ID) == nil {
				o.added = slices.DeleteFunc(o.added, func(uuid string) bool { return uuid == c.UUID })
			}
		}
		_ = o.g.DestroyGPUInstance(ctx, d.ID)
	}
}

func (o *other) owns(id int) bool {
	return slices.ContainsFunc(o.own, func(d mig.DeviceInstance) bool { return d.ID == id })
}

// flaky fails some of Apply's calls, before or after their effect, and notes when Apply destroys an instance of the other.
type flaky struct {
	contested
	o    *other
	fail int // call that fails; 0 is none
	late bool
	n    int
}

func (f *flaky) do(destroys int, call func() error) error {
	f.n++
	if f.n == f.fail && !f.late {
		return migtest.ErrInjected
	}
	foreign := destroys >= 0 && f.o.owns(destroys)
	err := call()
	if err == nil && foreign {
		f.o.lost = append(f.o.lost, "Apply destroyed it")
	}
	if f.n == f.fail && err == nil {
		return migtest.ErrInjected
	}
	return err
}

func (f *flaky) State(ctx context.Context) (s mig.DeviceState, err error) {
	f.act("")
	err = f.do(-1, func() (err error) { s, err = f.GPU.State(ctx); return err })
	return s, err
}

func (f *flaky) CreateGPUInstance(ctx context.Context, p *mig.Profile, at mig.Placement) (d mig.DeviceInstance, err error) {
	f.act("")
	if err = f.do(-1, func() (err error) { d, err = f.GPU.CreateGPUInstance(ctx, p, at); return err }); err != nil {
		return mig.DeviceInstance{}, err
	}
	return d, nil
}

func (f *flaky) DestroyGPUInstance(ctx context.Context, id int) error {
	f.act("")
	return f.do(id, func() error { return f.GPU.DestroyGPUInstance(ctx, id) })
}

func (f *flaky) CreateComputeInstance(ctx context.Context, id, profile int) (c mig.DeviceCompute, err error) {
	f.act("")
	if err = f.do(-1, func() (err error) { c, err = f.GPU.CreateComputeInstance(ctx, id, profile); return err }); err != nil {
		return mig.DeviceCompute{}, err
	}
	return c, nil
}

func (f *flaky) DestroyComputeInstance(ctx context.Context, gi, id int) error {
	f.act("")
	return f.do(gi, func() error { return f.GPU.DestroyComputeInstance(ctx, gi, id) })
}

type change struct {
	have mig.Layout
	plan mig.ChangePlan
}

// changesOf returns some changes of three models.
func changesOf(t *testing.T) []change {
	t.Helper()
	var changes []change
	for _, c := range [][3]string{
		{"a100-80gb", "", "1g.10gb=2,3g.40gb"}, {"a100-80gb", "3g.40gb@0[1+1],1g.10gb@4", "2g.20gb=2,3g.40gb"},
		{"a100-80gb", "1g.10gb@0,1g.10gb@1[],2g.20gb@2,3g.40gb@4", "1g.10gb=2,3g.40gb"}, {"a30", "2g.12gb@0", "1g.6gb=2"},
		{"H200", "7g.141gb@0", "1g.35gb=2"}, {"H200", "1g.35gb@0,3g.71gb@4", "1g.18gb=3"},
	} {
		m := lookup(t, c[0])
		have := parse(t, m, c[1])
		plan := must.Get(mig.Diff(m, have, want(t, c[2]), mig.DiffOptions{}))(t)
		changes = append(changes, change{have, plan})
	}
	return changes
}

// TestApplyInterleaved runs Apply against a second actor that creates and destroys between its calls, in random
// interleavings, some of them with a failing call. No instance of the other is lost, a change that others stop is
// called a conflict, and the error names the remaining state.
func TestApplyInterleaved(t *testing.T) {
	n := nightly.Cases(5_000, 100_000)
	changes := changesOf(t)
	outcomes := map[string]int{}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 15))
		c := changes[i%len(changes)]
		g := simulated(t, c.plan.Model, migtest.Options{Layout: c.have, Seed: uint64(i)})
		o := &other{g: g, model: c.plan.Model, rng: rng, harsh: rng.IntN(3) == 0}
		f := &flaky{contested: contested{GPU: g}, o: o, late: rng.IntN(2) == 0}
		rate := 1 + rng.IntN(30)
		f.act = func(string) {
			if f.n > 0 && rng.IntN(rate) == 0 {
				o.act()
			}
		}
		if rng.IntN(3) == 0 {
			f.fail = 1 + rng.IntN(30)
		}
		_, err := mig.Apply(context.Background(), f, c.plan, mig.ApplyOptions{})
		outcomes[checkOutcome(t, i, c.have, c.plan, f, err)]++
		if t.Failed() {
			t.Fatalf("interleaving %d: %v; calls %q", i, err, g.Calls())
		}
	}
	t.Log(outcomes)
	for _, outcome := range []string{"done", "conflict, undone", "conflict, not undone", "failed call, undone", "failed call, not undone"} {
		if outcomes[outcome] < n/1000 {
			t.Errorf("%s: %d of %d", outcome, outcomes[outcome], n)
		}
	}
}

// checkOutcome compares the outcome of one interleaving with the expected one.
func checkOutcome(t *testing.T, i int, have mig.Layout, plan mig.ChangePlan, f *flaky, err error) string {
	t.Helper()
	o := f.o
	if len(o.lost) > 0 {
		t.Errorf("%d: lost: %v", i, o.lost)
	}
	state, serr := f.GPU.State(context.Background())
	if serr != nil {
		t.Fatal(serr)
	}
	var mine []mig.Instance // instances that the other did not make
	for _, d := range state.Instances {
		k := slices.IndexFunc(o.own, func(own mig.DeviceInstance) bool { return own.ID == d.ID })
		switch {
		case k < 0:
			l := mig.DeviceState{Model: state.Model, Instances: []mig.DeviceInstance{d}}.Layout()
			mine = append(mine, l.Instances...)
		case o.own[k].Placement != d.Placement || !slices.Equal(o.own[k].Compute, d.Compute) && len(o.own[k].Compute) > 0:
			t.Errorf("%d: %+v became %+v", i, o.own[k], d)
		}
	}
	for _, uuid := range o.added {
		if !slices.ContainsFunc(state.Instances, func(d mig.DeviceInstance) bool {
			return slices.ContainsFunc(d.Compute, func(c mig.DeviceCompute) bool { return c.UUID == uuid })
		}) {
			t.Errorf("%d: compute instance %s is gone", i, uuid)
		}
	}
	for _, own := range o.own {
		if !slices.ContainsFunc(state.Instances, func(d mig.DeviceInstance) bool { return d.ID == own.ID }) {
			t.Errorf("%d: %+v is gone", i, own)
		}
	}
	now := mig.NewLayout(state.Model, mine...).String()
	failed := f.fail > 0 && f.n >= f.fail
	var ae *mig.ApplyError
	switch {
	case err == nil:
		if !o.harsh && now != plan.Want.String() {
			t.Errorf("%d: [%s], want [%s]", i, now, plan.Want)
		}
		return "done"
	case !errors.As(err, &ae):
		if !failed && !errors.Is(err, mig.ErrStale) && !errors.Is(err, mig.ErrBusy) && !errors.Is(err, mig.ErrPendingReset) {
			t.Errorf("%d: %v", i, err)
		}
		return "not begun"
	case errors.Is(err, mig.ErrInsufficient) && !errors.Is(err, mig.ErrConflict):
		return "refused, by a change that was gone again"
	case o.harsh && errors.Is(err, mig.ErrNotFound) && !errors.Is(err, mig.ErrConflict):
		return "refused, by an instance that the other had destroyed already"
	case errors.Is(err, mig.ErrBusy) || errors.Is(err, mig.ErrInUse):
		return "in use"
	case !failed && !errors.Is(err, mig.ErrConflict):
		t.Errorf("%d: neither a failed call nor a conflict: %v", i, err)
	case ae.Left != nil && ae.Left.Layout().String() != state.Layout().String():
		t.Errorf("%d: [%s] is left, not [%s]", i, state.Layout(), ae.Left.Layout())
	case ae.RolledBack && !o.harsh && now != have.String() && state.Layout().String() != have.String():
		t.Errorf("%d: [%s] is left, and [%s] was there", i, now, have)
	case !ae.RolledBack && ae.RollbackErr == nil:
		t.Errorf("%d: not rolled back, without a reason", i)
	}
	outcome := "conflict"
	if failed {
		outcome = "failed call"
	}
	if ae.RolledBack {
		return outcome + ", undone"
	}
	return outcome + ", not undone"
}

// TestApplyRefusedAfterActing: a driver refuses after it has acted, without another actor. Nobody else is blamed, and
// instances that its call destroyed are restored.
func TestApplyRefusedAfterActing(t *testing.T) {
	refusals := []error{mig.ErrInUse, mig.ErrInsufficient, mig.ErrNotFound}
	undone := 0
	for i, c := range changesOf(t) {
		for call := 1; ; call++ {
			ended := false
			for _, refusal := range refusals {
				g := simulated(t, c.plan.Model, migtest.Options{Layout: c.have})
				g.Fail(migtest.Fault{Call: call, Err: refusal, After: true})
				_, err := mig.Apply(t.Context(), g, c.plan, mig.ApplyOptions{})
				if calls := g.Calls(); len(calls) < call {
					ended = true
					break
				} else if strings.HasPrefix(calls[call-1], "destroy") && err != nil {
					undone++
					if g.Layout().String() != c.have.String() {
						t.Errorf("change %d, call %d: [%s] is left of [%s]: %v", i, call, g.Layout(), c.have, err)
					}
				}
				checkAlone(t, g, c, err)
			}
			if ended {
				break
			}
		}
	}
	if undone < 20 {
		t.Errorf("only %d calls that destroy were refused", undone)
	}
}

// TestApplyFaults makes changes on a driver with calls that fail before or after their effect, as a refusal or
// otherwise, once or twice a change.
func TestApplyFaults(t *testing.T) {
	errs := []error{nil, mig.ErrInUse, mig.ErrInsufficient, mig.ErrNotFound, mig.ErrDisabled, mig.ErrNotSupported, mig.ErrPermission}
	changes := changesOf(t)
	for i := range nightly.Cases(4_000, 200_000) {
		rng := rand.New(rand.NewPCG(uint64(i), 35))
		c := changes[rng.IntN(len(changes))]
		off := len(c.have.Instances) == 0 && rng.IntN(2) == 0
		g := simulated(t, c.plan.Model, migtest.Options{Layout: c.have, Seed: uint64(i), Disabled: off})
		for range 1 + rng.IntN(2) {
			g.Fail(migtest.Fault{Call: 1 + rng.IntN(30), Err: errs[rng.IntN(len(errs))], After: rng.IntN(2) == 0})
		}
		_, err := mig.Apply(t.Context(), g, c.plan, mig.ApplyOptions{})
		checkAlone(t, g, c, err)
		if t.Failed() {
			t.Fatalf("case %d: calls %q", i, g.Calls())
		}
	}
}

// checkAlone compares the outcome of a change without another actor with the state of the device.
func checkAlone(t *testing.T, g *migtest.GPU, c change, err error) {
	t.Helper()
	now := g.Layout().String()
	var ae *mig.ApplyError
	switch {
	case err == nil && now != c.plan.Want.String():
		t.Errorf("[%s] after a change to [%s]", now, c.plan.Want)
	case errors.Is(err, mig.ErrConflict) && !errors.Is(err, mig.ErrNotFound) && !errors.Is(err, mig.ErrDisabled):
		t.Errorf("somebody else is blamed: %v", err)
	case !errors.As(err, &ae):
		if err != nil && now != c.have.String() {
			t.Errorf("[%s] is left of [%s]: %v", now, c.have, err)
		}
	case ae.RolledBack && now != c.have.String():
		t.Errorf("rolled back, and [%s] is left of [%s]: %v", now, c.have, err)
	case ae.Left != nil && ae.Left.Layout().String() != now:
		t.Errorf("[%s] is left, and the error has [%s]", now, ae.Left.Layout())
	case !ae.RolledBack && ae.RollbackErr == nil:
		t.Errorf("not rolled back, without a reason: %v", err)
	}
}
