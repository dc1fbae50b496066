// SPDX-License-Identifier: Apache-2.0

package migtest

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// State implements mig.Device.
func (g *GPU) State(ctx context.Context) (mig.DeviceState, error) {
	return call(ctx, g, "state", func() (mig.DeviceState, error) { return g.state(), nil })
}

// SetMode implements mig.Device. On a GPU that needs a reset the change stays pending until Reset.
func (g *GPU) SetMode(ctx context.Context, mode bool) error {
	return do(ctx, g, fmt.Sprintf("set mode %v", mode), func() error {
		if mode == g.pending {
			return nil
		}
		if !mode && len(g.instances) > 0 || g.held && g.model.Resetless {
			return mig.ErrInUse
		}
		g.pending = mode
		if g.model.Resetless {
			g.mode = mode
		}
		return nil
	})
}

// CreateGPUInstance implements mig.Device.
func (g *GPU) CreateGPUInstance(ctx context.Context, p *mig.Profile, at mig.Placement) (mig.DeviceInstance, error) {
	return call(ctx, g, fmt.Sprintf("create %s@%d", p, at.Start), func() (mig.DeviceInstance, error) {
		if !g.mode {
			return mig.DeviceInstance{}, mig.ErrDisabled
		}
		if g.held && len(g.instances) == 0 {
			return mig.DeviceInstance{}, fmt.Errorf("%w: the first instance needs an idle GPU", mig.ErrInUse)
		}
		d, err := g.create(p, at)
		if err != nil {
			return mig.DeviceInstance{}, err
		}
		return d.DeviceInstance, nil
	})
}

// create checks the rules on its own, apart from the planner's.
func (g *GPU) create(p *mig.Profile, at mig.Placement) (*instance, error) {
	if p == nil || p.Model() != g.model {
		return nil, fmt.Errorf("%w: %v is no profile of %s", mig.ErrNotSupported, p, g.model)
	}
	if !slices.Contains(p.Placements, at) {
		return nil, fmt.Errorf("%w: %s can't start at %s", mig.ErrInsufficient, p, at)
	}
	same, used := 1, engines(p.Engines)
	for _, d := range g.instances {
		if at.Start < d.End() && d.Start < at.End() {
			return nil, fmt.Errorf("%w: %s at %s is taken", mig.ErrInsufficient, p, at)
		}
		if d.Profile == p {
			same++
		}
		for e, n := range engines(d.Profile.Engines) {
			used[e].Value += n.Value
		}
	}
	if same > p.MaxInstances {
		return nil, fmt.Errorf("%w: at most %d of %s", mig.ErrInsufficient, p.MaxInstances, p)
	}
	for e, total := range engines(g.model.Engines) {
		if total.Known && used[e].Value > total.Value {
			return nil, fmt.Errorf("%w: engines", mig.ErrInsufficient)
		}
	}
	d := &instance{DeviceInstance: mig.DeviceInstance{ID: g.idOf(at), Profile: p, Placement: at}}
	g.instances = append(g.instances, d)
	return d, nil
}

func engines(e mig.Engines) []sharing.Cell[int] {
	return []sharing.Cell[int]{e.Copy, e.NVDEC, e.NVENC, e.JPEG, e.OFA}
}

// idOf numbers spans as the driver does: a class of ids for each size (whole 0, halves 1 and 2, quarters 3 to 6,
// eighths 7 to 14), in an order that differs from GPU to GPU.
func (g *GPU) idOf(at mig.Placement) int {
	class := 1
	for class*at.Size < g.model.Units && class < 8 {
		class *= 2
	}
	return class - 1 + g.order[class][at.Start/at.Size%class]
}

func (g *GPU) find(id int) (*instance, error) {
	for _, d := range g.instances {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: GPU instance %d", mig.ErrNotFound, id)
}

// DestroyGPUInstance implements mig.Device.
func (g *GPU) DestroyGPUInstance(ctx context.Context, id int) error {
	return do(ctx, g, fmt.Sprintf("destroy gi %d", id), func() error {
		d, err := g.find(id)
		switch {
		case err != nil:
			return err
		case d.Busy || len(d.Compute) > 0 || g.held && len(g.instances) == 1:
			return mig.ErrInUse
		}
		g.instances = slices.DeleteFunc(g.instances, func(o *instance) bool { return o == d })
		return nil
	})
}

// computeIDs are the NVML constants of compute-instance profiles by slices.
var computeIDs = map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 7: 4}

const rev1 = 7 // the constant of the one-slice compute profile that has all SMs of a double-memory instance

// ComputeProfiles implements mig.Device. SMs are multiples of the smallest
// profile's where the catalogue knows no better.
func (g *GPU) ComputeProfiles(ctx context.Context, gpuInstance int) ([]mig.ComputeProfile, error) {
	return call(ctx, g, fmt.Sprintf("compute profiles of gi %d", gpuInstance), func() ([]mig.ComputeProfile, error) {
		d, err := g.find(gpuInstance)
		if err != nil {
			return nil, err
		}
		return g.profilesOf(d), nil
	})
}

func (g *GPU) profilesOf(d *instance) []mig.ComputeProfile {
	slice := 0
	for _, p := range g.model.Profiles {
		if p.ComputeSlices == 1 && (slice == 0 || p.SMs.Value < slice) {
			slice = p.SMs.Value
		}
	}
	var out []mig.ComputeProfile
	for c := 1; c <= d.Profile.ComputeSlices; c++ {
		id, ok := computeIDs[c]
		if !ok || g.model.CIRule == "single-CI" && c < d.Profile.ComputeSlices {
			continue
		}
		sms := c * slice
		if c == d.Profile.ComputeSlices && d.Profile.DefaultCI.Value != rev1 {
			sms = d.Profile.SMs.Value
		}
		out = append(out, mig.ComputeProfile{ID: id, Slices: c, SMs: sms})
	}
	if d.Profile.DefaultCI.Value == rev1 {
		out = append(out, mig.ComputeProfile{ID: rev1, Slices: 1, SMs: d.Profile.SMs.Value})
	}
	return out
}

// CreateComputeInstance implements mig.Device.
func (g *GPU) CreateComputeInstance(ctx context.Context, gpuInstance, profile int) (mig.DeviceCompute, error) {
	return call(ctx, g, fmt.Sprintf("create ci %d in gi %d", profile, gpuInstance), func() (mig.DeviceCompute, error) {
		d, err := g.find(gpuInstance)
		if err != nil {
			return mig.DeviceCompute{}, err
		}
		return g.createCompute(d, profile)
	})
}

func (g *GPU) createCompute(d *instance, profile int) (mig.DeviceCompute, error) {
	profiles := g.profilesOf(d)
	i := slices.IndexFunc(profiles, func(p mig.ComputeProfile) bool { return p.ID == profile })
	if i < 0 {
		return mig.DeviceCompute{}, fmt.Errorf("%w: compute profile %d in %s", mig.ErrNotSupported, profile, d.Profile)
	}
	sum, slots := profiles[i].Slices, slotsOf(profiles[i].Slices)
	for _, c := range d.Compute {
		sum += c.Slices
		slots += slotsOf(c.Slices)
	}
	if sum > d.Profile.ComputeSlices || g.model.CIRule == "cts-aligned" && slots > slotsOf(d.Profile.ComputeSlices) ||
		g.model.CIRule == "single-CI" && len(d.Compute) > 0 {
		return mig.DeviceCompute{}, mig.ErrInsufficient
	}
	g.serial++
	c := mig.DeviceCompute{ID: d.nextCompute, Profile: profile, Slices: profiles[i].Slices,
		UUID: fmt.Sprintf("MIG-simulated-%s-%d", g.uuid, g.serial)}
	d.nextCompute++
	d.Compute = append(d.Compute, c)
	return c, nil
}

// slotsOf is the span of an aligned compute instance: the next power of two.
func slotsOf(slices int) int { return 1 << bits.Len(uint(slices-1)) }

// DestroyComputeInstance implements mig.Device.
func (g *GPU) DestroyComputeInstance(ctx context.Context, gpuInstance, id int) error {
	return do(ctx, g, fmt.Sprintf("destroy ci %d of gi %d", id, gpuInstance), func() error {
		d, err := g.find(gpuInstance)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(d.Compute, func(c mig.DeviceCompute) bool { return c.ID == id })
		switch {
		case d.Busy:
			return mig.ErrInUse
		case i < 0:
			return fmt.Errorf("%w: compute instance %d of GPU instance %d", mig.ErrNotFound, id, gpuInstance)
		}
		d.Compute = slices.Delete(d.Compute, i, i+1)
		return nil
	})
}
