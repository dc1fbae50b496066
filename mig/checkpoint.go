package mig

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cotenant/cotenant/internal/strictyaml"
)

// CheckpointVersion is the version that Checkpoint writes and reads.
const CheckpointVersion = 1

// Checkpoint is the placed layout of one GPU as it was at some time, to be
// written down and restored: MIG instances do not survive a reboot.
type Checkpoint struct {
	Device  string // UUID
	Enabled bool   // MIG mode
	// Layout is what stood on the GPU. What was busy is not kept.
	Layout Layout
}

// NewCheckpoint takes a checkpoint of what a device reports.
func NewCheckpoint(s DeviceState) Checkpoint {
	c := Checkpoint{Device: s.UUID, Enabled: s.Enabled, Layout: s.Layout()}
	for i := range c.Layout.Instances {
		c.Layout.Instances[i].Busy = false
	}
	return c
}

type rawCheckpoint struct {
	Version   int         `json:"version" yaml:"version,required"`
	Device    string      `json:"device" yaml:"device,required"`
	Enabled   bool        `json:"mig_enabled" yaml:"mig_enabled,required"`
	GPU       string      `json:"gpu" yaml:"gpu,required"`
	Instances []rawPlaced `json:"instances" yaml:"instances,required"`
}

type rawPlaced struct {
	Profile string `json:"profile" yaml:"profile,required"`
	Const   int    `json:"nvml_const" yaml:"nvml_const,required"`
	Start   int    `json:"start" yaml:"start,required"`
	Size    int    `json:"size" yaml:"size,required"`
	Compute []int  `json:"compute,omitzero" yaml:"compute"`
}

// MarshalJSON writes the checkpoint with its version. Profiles are written by
// NVML constant beside their name, since drivers rename them.
func (c Checkpoint) MarshalJSON() ([]byte, error) {
	r := rawCheckpoint{Version: CheckpointVersion, Device: c.Device, Enabled: c.Enabled, Instances: []rawPlaced{}}
	if c.Layout.Model != nil {
		r.GPU = c.Layout.Model.Key
	}
	for _, in := range c.Layout.Instances {
		if in.Profile == nil {
			return nil, invalid(fmt.Errorf("an instance at %s has no profile", in.Placement))
		}
		r.Instances = append(r.Instances, rawPlaced{in.Profile.Name, in.Profile.Const, in.Start, in.Size, in.Compute})
	}
	return json.Marshal(r)
}

// ParseCheckpoint reads a checkpoint strictly and validates its layout. The
// error names every problem.
func ParseCheckpoint(data []byte) (Checkpoint, error) {
	var r rawCheckpoint
	if err := strictyaml.Decode(data, &r, strictyaml.Options{}); err != nil {
		return Checkpoint{}, invalid(err)
	}
	var list problems
	if r.Version != CheckpointVersion {
		list.Addf("version", fmt.Sprintf("this release reads version %d", CheckpointVersion), "is %d", r.Version)
	}
	m, err := Lookup(r.GPU)
	if err != nil {
		list.add("gpu", err)
		return Checkpoint{}, list.err()
	}
	c := Checkpoint{Device: r.Device, Enabled: r.Enabled, Layout: Layout{Model: m}}
	for i, in := range r.Instances {
		at := fmt.Sprintf("instances[%d]", i)
		p := m.ProfileByConst(in.Const)
		if byName, err := m.Profile(in.Profile); err != nil {
			list.add(at+".profile", err)
			continue
		} else if p != byName {
			list.Addf(at+".nvml_const", fmt.Sprintf("%s has %d", byName.Name, byName.Const), "%d is not the constant of %s", in.Const, clip(in.Profile))
			continue
		}
		c.Layout.Instances = append(c.Layout.Instances, Instance{Profile: p, Placement: Placement{in.Start, in.Size}, Compute: in.Compute})
	}
	if !r.Enabled && len(r.Instances) > 0 {
		list.Addf("mig_enabled", "", "is false, and there are instances")
	}
	if err := list.err(); err != nil {
		return Checkpoint{}, err
	}
	c.Layout.sort()
	if err := c.Layout.Validate(); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// Restore brings a device to a checkpoint: what stands at the same place with
// the same profile stays, the rest is destroyed and created; the mode is
// switched where it differs. It fails like Apply, and with a *BusyError when an
// instance in use would have to go.
func Restore(ctx context.Context, dev Device, c Checkpoint, opt ApplyOptions) (Report, error) {
	state, err := dev.State(ctx)
	if err != nil {
		return Report{}, opError("read state", c.Device, err)
	}
	if state.Model != c.Layout.Model && c.Layout.Model != nil {
		return Report{}, invalid(fmt.Errorf("the checkpoint is of a %s, and %s is a %s", c.Layout.Model, state.UUID, state.Model))
	}
	plan, err := DiffLayout(state.Model, state.Layout(), c.Layout, DiffOptions{})
	if err != nil {
		return Report{}, err
	}
	report, err := Apply(ctx, dev, plan, opt)
	if err != nil || opt.DryRun || c.Enabled == state.Enabled || len(plan.Create) > 0 {
		return report, err
	}
	return report, opError("set MIG mode", state.UUID, dev.SetMode(ctx, c.Enabled))
}
