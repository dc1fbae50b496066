// SPDX-License-Identifier: Apache-2.0

package migtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/mig"
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

// ComputeProfiles implements mig.Device. SMs are multiples of the smallest profile's where the catalogue has no figure.
func (g *GPU) ComputeProfiles(ctx context.Context, gpuInstance int) ([]mig.ComputeProfile, error) {
	return call(ctx, g, fmt.Sprintf("compute profiles of gi %d", gpuInstance), func() ([]mig.ComputeProfile, error) {
		d, err := g.find(gpuInstance)
		if err != nil {
			return nil, err
		}
		return g.profilesOf(d), nil
	})
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
