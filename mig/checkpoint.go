package mig

import (
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// checkpointVersion is the version that NewCheckpoint writes and ParseCheckpoint
// reads.
const checkpointVersion = 1

// Checkpoint is what stood on one GPU at some time, to be written down as JSON
// and restored: MIG instances do not survive a reboot. It names profiles as the
// driver does, and so holds what any GPU reports, in the catalogue or not.
type Checkpoint struct {
	Version   int             `json:"version" yaml:"version,required"`
	Device    string          `json:"device" yaml:"device,required"` // UUID
	Enabled   Mode            `json:"mig_enabled" yaml:"mig_enabled,required"`
	GPU       string          `json:"gpu" yaml:"gpu,required"` // key of the model
	Instances []SavedInstance `json:"instances" yaml:"instances,required"`
}

// SavedInstance is a GPU instance of a Checkpoint. The NVML constant says which
// profile it has; drivers have renamed profiles.
type SavedInstance struct {
	Profile string `json:"profile" yaml:"profile,required"`
	Const   int    `json:"nvml_const" yaml:"nvml_const,required"`
	Start   int    `json:"start" yaml:"start,required"`
	Size    int    `json:"size" yaml:"size,required"`
	Compute []int  `json:"compute,omitzero" yaml:"compute"` // as Instance.Compute has it
}

// NewCheckpoint takes a checkpoint of what a device reports. What is busy is not
// kept.
func NewCheckpoint(s DeviceState) Checkpoint {
	c := Checkpoint{Version: checkpointVersion, Device: s.UUID, Enabled: s.Mode, GPU: s.Model.String(), Instances: []SavedInstance{}}
	for _, in := range s.Layout().Instances {
		c.Instances = append(c.Instances, SavedInstance{in.Profile.Name, in.Profile.Const, in.Start, in.Size, in.Compute})
	}
	return c
}

// ParseCheckpoint reads a checkpoint strictly. The error names every problem.
// Whether a GPU can hold it is for Layout to say.
func ParseCheckpoint(data []byte) (Checkpoint, error) {
	var c Checkpoint
	if err := strictyaml.Decode(data, &c, strictyaml.Options{}); err != nil {
		return Checkpoint{}, invalid(err)
	}
	var list problems
	if c.Version != checkpointVersion {
		list.Addf("version", fmt.Sprintf("this release reads version %d", checkpointVersion), "is %d", c.Version)
	}
	if c.Enabled == ModeDisabled && len(c.Instances) > 0 {
		list.Addf("mig_enabled", "", "is false, and there are instances")
	}
	if err := list.err(); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// Layout returns the checkpoint's layout on a GPU of a model: that of the device
// that it is to be restored on, or the catalogue's. The error names every
// instance that such a GPU can't hold.
func (c Checkpoint) Layout(m *Model) (Layout, error) {
	var list problems
	l := Layout{Model: m}
	for i, in := range c.Instances {
		at := fmt.Sprintf("instances[%d]", i)
		p := m.ProfileByConst(in.Const)
		switch {
		case p == nil:
			list.Addf(at+".nvml_const", "", "%s has no profile of constant %d (%s)", m, in.Const, in.Profile)
		case !slices.Contains(p.Placements, Placement{in.Start, in.Size}):
			list.Addf(at, "its placements are "+placementsText(p), "%s can't stand at %d:%d on %s", p, in.Start, in.Size, m)
		default:
			l.Instances = append(l.Instances, Instance{Profile: p, Placement: Placement{in.Start, in.Size}, Compute: in.Compute})
		}
	}
	if err := list.err(); err != nil {
		return Layout{}, err
	}
	l.sort()
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// Restore brings a device to its checkpoint: what stands at the same place with
// the same profile stays, the rest is destroyed and created; the mode is
// switched where it differs, and where that takes a reset the error is a
// *PendingError: reset the GPU and restore again. It fails like Apply, and with a *BusyError when an
// instance in use would have to go. A checkpoint of another GPU is refused; set
// its Device to the GPU's UUID where that is meant.
func Restore(ctx context.Context, dev Device, c Checkpoint, opts ApplyOptions) (Report, error) {
	unlock, err := lock(ctx, dev, opts)
	if err != nil {
		return Report{}, err
	}
	defer unlock()
	state, err := dev.State(ctx)
	if err != nil {
		return Report{}, opError("read state", c.Device, err)
	}
	if state.UUID != c.Device {
		return Report{}, invalid(fmt.Errorf("the checkpoint is of %s, and this is %s", c.Device, state.UUID))
	}
	want, err := c.Layout(state.Model)
	if err != nil {
		return Report{}, err
	}
	plan, err := diffLayout(state.Model, state.Layout(), want, DiffOptions{})
	if err != nil {
		return Report{}, err
	}
	plan.Mode = optional.Of(c.Enabled)
	return apply(ctx, dev, plan, opts)
}
