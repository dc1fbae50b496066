package mig_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/migtest"
	"github.com/cotenant/cotenant/sharing"
)

func TestCheckpointRestore(t *testing.T) {
	ctx := context.Background()
	m := lookup(t, "H200")
	g := simulated(t, m, migtest.Options{Layout: parse(t, m, "3g.71gb@4[2+1]!busy,1g.35gb@0,1g.18gb@3[]")})
	state, err := g.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(mig.NewCheckpoint(state), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/checkpoint.json", append(data, '\n'))
	c, err := mig.ParseCheckpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := c.Layout(m)
	if want := strings.ReplaceAll(state.Layout().String(), "!busy", ""); err != nil || saved.String() != want || c.Enabled != mig.ModeEnabled {
		t.Errorf("%s, %v, want %s", saved, err, want)
	}
	// A reboot: nothing is left, and MIG mode is off.
	g = simulated(t, m, migtest.Options{Disabled: true})
	if _, err := mig.Restore(ctx, g, c, mig.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if g.Layout().String() != saved.String() {
		t.Errorf("restored [%s]", g.Layout())
	}
	// Back to a GPU without MIG, and to one in MIG mode that holds nothing.
	for _, mode := range []mig.Mode{mig.ModeDisabled, mig.ModeEnabled} {
		empty := mig.Checkpoint{Version: 1, Device: c.Device, Enabled: mode}
		if _, err := mig.Restore(ctx, g, empty, mig.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if state, err := g.State(ctx); err != nil || state.Mode != mode || len(state.Instances) > 0 {
			t.Errorf("%+v, %v", state, err)
		}
	}
	busy := simulated(t, m, migtest.Options{Layout: parse(t, m, "7g.141gb@0!busy")})
	if _, err := mig.Restore(ctx, busy, c, mig.ApplyOptions{}); !errors.Is(err, mig.ErrBusy) {
		t.Errorf("err = %v", err)
	}
	// Another GPU of the same model is refused until it is named.
	other := simulated(t, m, migtest.Options{UUID: "GPU-other"})
	if _, err := mig.Restore(ctx, other, c, mig.ApplyOptions{}); !errors.Is(err, mig.ErrInvalid) || !strings.Contains(err.Error(), "this is GPU-other") {
		t.Errorf("err = %v", err)
	}
	c.Device = "GPU-other"
	if _, err := mig.Restore(ctx, other, c, mig.ApplyOptions{}); err != nil || other.Layout().String() != saved.String() {
		t.Errorf("[%s], %v", other.Layout(), err)
	}
	a30 := simulated(t, lookup(t, "A30"), migtest.Options{UUID: "GPU-other"})
	if _, err := mig.Restore(ctx, a30, c, mig.ApplyOptions{}); !errors.Is(err, mig.ErrInvalid) || !strings.Contains(err.Error(), "no profile of constant 2") {
		t.Errorf("err = %v", err)
	}
}

// A mode that does not change, because the GPU needs a reset, is no success.
func TestRestorePendingMode(t *testing.T) {
	a100 := lookup(t, "a100-80gb")
	g := simulated(t, a100, migtest.Options{})
	off := mig.Checkpoint{Version: 1, Device: "GPU-simulated-a100-80gb"}
	if _, err := mig.Restore(context.Background(), g, off, mig.ApplyOptions{}); !errors.Is(err, mig.ErrPendingReset) {
		t.Errorf("err = %v", err)
	}
}

// TestCheckpointOutsideCatalogue: a GPU that answers otherwise than the
// catalogue comes back after a reboot, when its model is made anew.
func TestCheckpointOutsideCatalogue(t *testing.T) {
	ctx := context.Background()
	discover := func() *mig.Model {
		m, err := mig.Discover(mig.DeviceIdentity{Name: "NVIDIA Next", Memory: 64 * sharing.GiB, Resetless: sharing.AnswerYes}, []mig.DeviceProfile{
			{Const: 0, ID: 19, Slices: 1, MaxInstances: 4, Memory: 16 * sharing.GiB, SMs: 10, Placements: []mig.Placement{{Start: 0, Size: 1}, {Start: 1, Size: 1}, {Start: 2, Size: 1}, {Start: 3, Size: 1}}},
			{Const: 3, ID: 0, Slices: 4, MaxInstances: 1, Memory: 64 * sharing.GiB, SMs: 40, Placements: []mig.Placement{{Start: 0, Size: 4}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := discover()
	g := simulated(t, before, migtest.Options{Layout: parse(t, before, "1g.16gb@1,1g.16gb@3")})
	state, err := g.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// A plan for the GPU holds for it when it is opened again.
	plan, err := mig.Diff(discover(), parse(t, discover(), "1g.16gb@1,1g.16gb@3"), want(t, "1g.16gb=3"), mig.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mig.Apply(ctx, simulated(t, before, migtest.Options{Layout: state.Layout()}), plan, mig.ApplyOptions{}); err != nil {
		t.Error(err)
	}
	data, err := json.Marshal(mig.NewCheckpoint(state))
	if err != nil {
		t.Fatal(err)
	}
	c, err := mig.ParseCheckpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	g = simulated(t, discover(), migtest.Options{UUID: state.UUID, Disabled: true})
	if _, err := mig.Restore(ctx, g, c, mig.ApplyOptions{}); err != nil || g.Layout().String() != "1g.16gb@1,1g.16gb@3" {
		t.Errorf("[%s], %v", g.Layout(), err)
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add(`{"version":1,"device":"GPU-1","mig_enabled":true,"gpu":"a30","instances":[{"profile":"1g.6gb","nvml_const":0,"start":3,"size":1,"compute":[1]}]}`)
	f.Add(`{"version":2,"gpu":"H100"}`)
	f.Fuzz(func(t *testing.T, s string) {
		c, err := mig.ParseCheckpoint([]byte(s))
		if err != nil {
			if !cmp.Equal(c, mig.Checkpoint{}) {
				t.Errorf("%+v with %v", c, err)
			}
			return
		}
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := mig.ParseCheckpoint(data)
		if err != nil || !cmp.Equal(back, c) {
			t.Errorf("%s: %+v, %v", data, back, err)
		}
		if m, err := mig.Lookup(c.GPU); err == nil {
			if l, err := c.Layout(m); err == nil && l.Validate() != nil {
				t.Errorf("%s is not valid", l)
			}
		}
	})
}
