// SPDX-License-Identifier: Apache-2.0

package migtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
)

func gpu(t testing.TB, name string, opts migtest.Options) (*migtest.GPU, *mig.Model) {
	t.Helper()
	m := must.Get(mig.Lookup(name))(t)
	g := must.Get(migtest.New(m, opts))(t)
	return g, m
}

func profile(t testing.TB, m *mig.Model, name string) *mig.Profile {
	t.Helper()
	return must.Get(m.Profile(name))(t)
}

// TestStrict tries calls that go-nvml's mocks accept and hardware refuses.
func TestStrict(t *testing.T) {
	ctx := context.Background()
	g, m := gpu(t, "A100 80GB", migtest.Options{})
	create := func(name string, start int) (mig.DeviceInstance, error) {
		p := profile(t, m, name)
		return g.CreateGPUInstance(ctx, p, mig.Placement{Start: start, Size: p.PlacementUnits})
	}
	half := must.Get(create("3g.40gb", 4))(t)
	for _, c := range []struct {
		name  string
		start int
		want  error
	}{{"3g.40gb", 1, mig.ErrInsufficient}, {"1g.10gb", 5, mig.ErrInsufficient}, {"1g.10gb", 7, mig.ErrInsufficient}, {"7g.80gb", 0, mig.ErrInsufficient}} {
		if _, err := create(c.name, c.start); !errors.Is(err, c.want) {
			t.Errorf("%s@%d: %v", c.name, c.start, err)
		}
	}
	if _, err := create("1g.10gb+me", 0); err != nil {
		t.Error(err)
	}
	if _, err := create("1g.10gb+me", 1); !errors.Is(err, mig.ErrInsufficient) {
		t.Errorf("second +me: %v", err)
	}
	other := must.Get(mig.Lookup("A30"))(t)
	if _, err := g.CreateGPUInstance(ctx, other.Profiles[0], mig.Placement{Start: 1, Size: 1}); !errors.Is(err, mig.ErrNotSupported) {
		t.Errorf("a profile of another GPU: %v", err)
	}
	c := must.Get(g.CreateComputeInstance(ctx, half.ID, 2))(t)
	if _, err := g.CreateComputeInstance(ctx, half.ID, 2); !errors.Is(err, mig.ErrInsufficient) {
		t.Errorf("a second full compute instance: %v", err)
	}
	if _, err := g.CreateComputeInstance(ctx, half.ID, 4); !errors.Is(err, mig.ErrNotSupported) {
		t.Errorf("7 slices in a 3g: %v", err)
	}
	if err := g.DestroyGPUInstance(ctx, half.ID); !errors.Is(err, mig.ErrInUse) {
		t.Errorf("destroyed with a compute instance: %v", err)
	}
	must.Do(t, g.DestroyComputeInstance(ctx, half.ID, c.ID))
	if err := g.DestroyComputeInstance(ctx, half.ID, c.ID); !errors.Is(err, mig.ErrNotFound) {
		t.Errorf("destroyed twice: %v", err)
	}
	must.Do(t, g.DestroyGPUInstance(ctx, half.ID))
	if err := g.DestroyGPUInstance(ctx, half.ID); !errors.Is(err, mig.ErrNotFound) {
		t.Errorf("destroyed twice: %v", err)
	}
	if err := g.SetMode(ctx, false); !errors.Is(err, mig.ErrInUse) {
		t.Errorf("mode off with an instance: %v", err)
	}
	if leaks := g.Leaks(mig.Layout{}); !slices.Equal(leaks, []string{"1g.10gb+me@0[] has no compute instance", "1g.10gb+me@0[] is left"}) {
		t.Errorf("%q", leaks)
	}
}

// TestAgainstEnumeration adds every profile everywhere to every layout: the simulated GPU, which has rules of its own,
// must accept exactly the layouts that are valid for the planner.
func TestAgainstEnumeration(t *testing.T) {
	for _, name := range []string{"A30", "a100-40gb", "rtx-pro-6000-blackwell-server"} {
		_, m := gpu(t, name, migtest.Options{})
		all := must.Get(m.Layouts())(t)
		n := 0
		for l := range all {
			if n++; n%7 != 0 { // every seventh is enough, and quick
				continue
			}
			for _, p := range m.Profiles {
				for _, at := range p.Placements {
					next := mig.NewLayout(m, append(slices.Clone(l.Instances), mig.Instance{Profile: p, Placement: at})...)
					_, err := migtest.New(m, migtest.Options{Layout: next})
					if (err == nil) != (next.Validate() == nil) {
						t.Errorf("%s [%s]: simulated %v, planner %v", name, next, err, next.Validate())
					}
				}
			}
		}
	}
}

// TestIDs: ids follow the size class and not the start, and differ by device.
func TestIDs(t *testing.T) {
	ctx := context.Background()
	seen := map[string]bool{}
	for seed := range uint64(8) {
		_, m := gpu(t, "H100 PCIe", migtest.Options{})
		l := must.Get(m.ParseLayout("1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,3g.40gb@4"))(t)
		g := must.Get(migtest.New(m, migtest.Options{Seed: seed, Layout: l}))(t)
		s := must.Get(g.State(ctx))(t)
		var ids []string
		for _, d := range s.Instances {
			low, high := 7, 14
			if d.Size == 4 {
				low, high = 1, 2
			}
			if d.ID < low || d.ID > high {
				t.Errorf("%s at %d has id %d", d.Profile, d.Start, d.ID)
			}
			ids = append(ids, fmt.Sprint(d.ID, "@", d.Start))
		}
		seen[strings.Join(ids, " ")] = true
	}
	if len(seen) < 4 {
		t.Errorf("only %d numberings in 8 devices", len(seen))
	}
}

func TestNewRefuses(t *testing.T) {
	_, m := gpu(t, "A30", migtest.Options{})
	unknown := must.Get(mig.Lookup("rtx-pro-5000-blackwell-48gb"))(t)
	p := profile(t, m, "1g.6gb")
	for name, c := range map[string]struct {
		m    *mig.Model
		opts migtest.Options
	}{
		"nil": {nil, migtest.Options{}}, "unknown placements": {unknown, migtest.Options{}},
		"bad placement":     {m, migtest.Options{Layout: mig.NewLayout(m, mig.Instance{Profile: p, Placement: mig.Placement{Start: 9, Size: 1}})}},
		"no profile":        {m, migtest.Options{Layout: mig.NewLayout(m, mig.Instance{})}},
		"disabled and full": {m, migtest.Options{Disabled: true, Layout: mig.NewLayout(m, mig.Instance{Profile: p, Placement: p.Placements[0]})}},
	} {
		if g, err := migtest.New(c.m, c.opts); err == nil || g != nil {
			t.Errorf("%s: %v", name, g)
		}
	}
}

func Example() {
	model, _ := mig.Lookup("A30")
	device, _ := migtest.New(model, migtest.Options{})
	plan, _ := mig.Diff(model, device.Layout(), []mig.Count{{Profile: "2g.12gb", N: 2}}, mig.DiffOptions{})
	_, err := mig.Apply(context.Background(), device, plan, mig.ApplyOptions{})
	fmt.Println(device.Layout(), err, device.Leaks(plan.Want))
	// Output:
	// 2g.12gb@0,2g.12gb@2 <nil> []
}

func ExampleGPU_Fail() {
	model, _ := mig.Lookup("A30")
	device, _ := migtest.New(model, migtest.Options{})
	plan, _ := mig.Diff(model, device.Layout(), []mig.Count{{Profile: "2g.12gb", N: 2}}, mig.DiffOptions{})
	// The fourth call has its effect and fails all the same.
	device.Fail(migtest.Fault{Call: 4, After: true})
	_, err := mig.Apply(context.Background(), device, plan, mig.ApplyOptions{})
	fmt.Println(errors.Is(err, migtest.ErrInjected), device.Leaks(mig.Layout{}))
	// Output:
	// true []
}

func ExampleGPU_Reset() {
	ctx := context.Background()
	model, _ := mig.Lookup("A30") // Ampere: a change of mode waits for a reset
	device, _ := migtest.New(model, migtest.Options{Disabled: true})
	_ = device.SetMode(ctx, true)
	before, _ := device.State(ctx)
	err := device.Reset()
	after, _ := device.State(ctx)
	fmt.Println(before.Mode, before.Pending, after.Mode, err)
	// Output:
	// false true true <nil>
}
