package mps

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/pluginconf"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ErrConfig is matched by every error about a configuration document: one that
// cannot be read, or that its reader would refuse. Such an error names every
// problem with its path and, where there is one, the remedy.
var ErrConfig = errors.New("mps: configuration refused")

func configError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, err)
}

// Codes of the warnings that ParsePluginConfig, ParseDRAConfig and their
// Warnings methods give.
const (
	WarnRenameIgnored       sharing.WarningCode = pluginconf.RenameIgnored       // the plugin ignores a resource's rename
	WarnDevicesIgnored      sharing.WarningCode = pluginconf.DevicesIgnored      // the plugin ignores a resource's devices
	WarnFlagIgnored         sharing.WarningCode = pluginconf.FlagIgnored         // a sharing key stands under flags
	WarnResourcesIgnored    sharing.WarningCode = pluginconf.ResourcesIgnored    // the plugin ignores custom resources
	WarnTimeSlicingIgnored  sharing.WarningCode = pluginconf.TimeSlicingIgnored  // both blocks are present and MPS wins
	WarnMIGStrategyConflict sharing.WarningCode = pluginconf.MIGStrategyConflict // MPS and a MIG strategy in one document
	WarnReplicaCap          sharing.WarningCode = "replica-cap"                  // more replicas than the plugin allows on this GPU
	WarnUnevenPercentage    sharing.WarningCode = "uneven-percentage"            // whole percentages leave SMs unused
)

// PluginConfig is the sharing.mps block of the NVIDIA device plugin's
// configuration (version v1). The plugin gives each replica an equal share of
// memory and of active threads; it knows no unequal shares.
type PluginConfig struct {
	// RenameByDefault offers the replicas as nvidia.com/gpu.shared.
	RenameByDefault bool
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas.
	// nil leaves the plugin's default, which for MPS is true.
	FailRequestsGreaterThanOne *bool
	// Resources are what is replicated. The plugin shares only nvidia.com/gpu
	// by MPS, so there is exactly one.
	Resources []PluginResource
}

// PluginResource is a resource that the plugin replicates.
type PluginResource struct {
	Name     string // nvidia.com/gpu
	Replicas int    // clients for each GPU, 2 or more
}

// ParsePluginConfig reads the sharing.mps block of a device-plugin
// configuration document, YAML or JSON. The whole document is read strictly:
// unknown keys, which the plugin would drop without a word, are errors, and
// what the plugin reads but ignores becomes a warning. A document without the
// block is an error. Errors match ErrConfig.
func ParsePluginConfig(data []byte) (*PluginConfig, []sharing.Warning, error) {
	d, ws, err := pluginconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.MPS == nil {
		return nil, nil, fmt.Errorf("%w: sharing.mps: is missing (a time-slicing document is read by package timeslice)", ErrConfig)
	}
	c := &PluginConfig{RenameByDefault: d.MPS.RenameByDefault, FailRequestsGreaterThanOne: d.MPS.FailRequestsGreaterThanOne}
	for _, r := range d.MPS.Resources {
		c.Resources = append(c.Resources, PluginResource(r))
	}
	return c, append(warnings(ws), c.Warnings()...), nil
}

func warnings(ws []problem.Warning) []sharing.Warning {
	out := make([]sharing.Warning, 0, len(ws))
	for _, w := range ws {
		out = append(out, sharing.Warning{Code: sharing.WarningCode(w.Code), Path: w.Path, Message: w.Message, Remedy: w.Remedy, Source: sharing.SourceID(w.Source)})
	}
	return out
}

func (c *PluginConfig) document() *pluginconf.Document {
	b := &pluginconf.Block{RenameByDefault: c.RenameByDefault, FailRequestsGreaterThanOne: c.FailRequestsGreaterThanOne}
	for _, r := range c.Resources {
		b.Resources = append(b.Resources, pluginconf.Resource(r))
	}
	return &pluginconf.Document{MPS: b}
}

// Validate returns nil, or an error that matches ErrConfig and names every
// reason for which the plugin would refuse the block.
func (c *PluginConfig) Validate() error { return configError(c.document().Validate()) }

// Marshal validates c and writes it as a complete configuration document. The
// same value gives the same bytes.
func (c *PluginConfig) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}

// Warnings lists what the plugin accepts in c and does otherwise than it
// looks: percentages that do not divide 100 leave a rest unused.
func (c *PluginConfig) Warnings() []sharing.Warning {
	var out []sharing.Warning
	for i, r := range c.Resources {
		if r.Replicas < 2 || 100%r.Replicas == 0 {
			continue
		}
		share := PluginShare{Replicas: r.Replicas}
		out = append(out, sharing.Warning{
			Code: WarnUnevenPercentage, Path: fmt.Sprintf("sharing.mps.resources[%d].replicas", i), Source: "k8s-device-plugin-mps",
			Message: fmt.Sprintf("the plugin gives each of %d replicas %d%% of the threads and leaves %d%% to nobody",
				r.Replicas, share.ActiveThreadPercentage(), 100-r.Replicas*share.ActiveThreadPercentage()),
			Remedy: "the daemon itself takes fractions: set the percentage with a client of your own",
		})
	}
	return out
}

// WarningsFor lists what the plugin does with c on a GPU of the given compute
// capability. The plugin allows 48 replicas, and 16 on GPUs below compute
// capability 7.5: a V100 (7.0) counts among those, although its hardware
// takes 48 clients.
func (c *PluginConfig) WarningsFor(major, minor int) []sharing.Warning {
	limit := PluginMaxReplicas(major, minor)
	var out []sharing.Warning
	for i, r := range c.Resources {
		if r.Replicas > limit {
			out = append(out, sharing.Warning{
				Code: WarnReplicaCap, Path: fmt.Sprintf("sharing.mps.resources[%d].replicas", i), Source: "k8s-device-plugin-mps",
				Message: fmt.Sprintf("the plugin allows %d replicas on a GPU of compute capability %d.%d, not %d", limit, major, minor, r.Replicas),
				Remedy:  fmt.Sprintf("ask for %d or fewer", limit),
			})
		}
	}
	return out
}

// PluginMaxReplicas is the number of MPS replicas that the device plugin
// v0.20.0 allows on a GPU of the given compute capability (source KDP): 48
// from 7.5 on and 16 below.
func PluginMaxReplicas(major, minor int) int {
	if major > 7 || major == 7 && minor >= 5 {
		return 48
	}
	return 16
}

// PluginShare is what the plugin gives each replica of a GPU.
type PluginShare struct {
	Replicas int           // 2 or more
	Total    sharing.Bytes // memory of the GPU
}

// ActiveThreadPercentage is the limit that the plugin sets: 100/Replicas,
// rounded down to a whole number.
func (s PluginShare) ActiveThreadPercentage() int {
	if s.Replicas < 1 {
		return 100
	}
	return 100 / s.Replicas
}

// PinnedMemoryLimit is the limit that the plugin sets for each client process
// (not for each container): Total/Replicas, rounded down to whole mebibytes.
func (s PluginShare) PinnedMemoryLimit() sharing.Bytes {
	if s.Replicas < 1 {
		return s.Total
	}
	return s.Total / sharing.Bytes(s.Replicas) / sharing.MiB * sharing.MiB
}
