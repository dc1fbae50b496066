package timeslice

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/draconf"
	"github.com/cotenant/cotenant/internal/pluginconf"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ErrConfig is matched by every error about a configuration document: one that
// cannot be read, or that its reader would refuse. Such an error names every
// problem with its path and, where there is one, the remedy.
var ErrConfig = errors.New("timeslice: configuration refused")

func configError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, err)
}

// Codes of the warnings about configuration documents.
const (
	WarnRenameIgnored        sharing.WarningCode = pluginconf.RenameIgnored        // the plugin ignores a resource's rename
	WarnDevicesIgnored       sharing.WarningCode = pluginconf.DevicesIgnored       // the plugin ignores a resource's devices
	WarnFlagIgnored          sharing.WarningCode = pluginconf.FlagIgnored          // a sharing key stands under flags
	WarnResourcesIgnored     sharing.WarningCode = pluginconf.ResourcesIgnored     // the plugin ignores custom resources
	WarnTimeSlicingIgnored   sharing.WarningCode = pluginconf.TimeSlicingIgnored   // both blocks are present and MPS wins
	WarnMIGStrategyConflict  sharing.WarningCode = pluginconf.MIGStrategyConflict  // the resource exists only under another MIG strategy
	WarnReplicasNotCapacity  sharing.WarningCode = pluginconf.ReplicasNotCapacity  // replicas have no memory or compute of their own
	WarnLargeRequestsAllowed sharing.WarningCode = pluginconf.LargeRequestsAllowed // several replicas give no larger share
	WarnFeatureGate          sharing.WarningCode = draconf.FeatureGate             // an alpha feature gate must be on
)

// PluginConfig is the sharing.timeSlicing block of the NVIDIA device plugin's
// configuration (version v1).
type PluginConfig struct {
	// RenameByDefault offers the replicas under the resource's name with
	// ".shared" behind it.
	RenameByDefault bool
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas;
	// nil leaves the plugin's default, which for time-slicing is false. NVIDIA
	// recommends true, for several replicas give no larger share.
	FailRequestsGreaterThanOne *bool
	// Resources are what is replicated: nvidia.com/gpu, or a MIG resource
	// (nvidia.com/mig-...) under the mixed strategy. At least one.
	Resources []PluginResource
}

// PluginResource is a resource that the plugin replicates.
type PluginResource struct {
	Name     string // for example nvidia.com/gpu
	Replicas int    // 2 or more; a number of turns, not of capacity
}

// ParsePluginConfig reads the sharing.timeSlicing block of a device-plugin
// configuration document, YAML or JSON. The whole document is read strictly:
// unknown keys, which the plugin would drop without a word, are errors, and
// what the plugin reads but ignores becomes a warning; when an mps block is
// there too, that is this whole block. A document without the block is an
// error. Errors match ErrConfig.
func ParsePluginConfig(data []byte) (*PluginConfig, []sharing.Warning, error) {
	d, ws, err := pluginconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.TimeSlicing == nil {
		return nil, nil, fmt.Errorf("%w: sharing.timeSlicing: is missing (an MPS document is read by package mps)", ErrConfig)
	}
	c := &PluginConfig{RenameByDefault: d.TimeSlicing.RenameByDefault, FailRequestsGreaterThanOne: d.TimeSlicing.FailRequestsGreaterThanOne}
	for _, r := range d.TimeSlicing.Resources {
		c.Resources = append(c.Resources, PluginResource(r))
	}
	return c, warnings(ws), nil
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
	return &pluginconf.Document{TimeSlicing: b}
}

// Validate returns nil, or an error that matches ErrConfig and names every
// reason for which the plugin would refuse the block.
func (c *PluginConfig) Validate() error { return configError(c.document().Validate()) }

// Warnings lists what the plugin accepts in c and does otherwise than it looks.
func (c *PluginConfig) Warnings() []sharing.Warning { return warnings(c.document().Warnings()) }

// Marshal validates c and writes it as a complete configuration document. The
// same value gives the same bytes.
func (c *PluginConfig) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}

// DRAConfig is the time-slicing form of the NVIDIA DRA driver's opaque
// parameters (resource.nvidia.com/v1beta1): a GpuConfig, or a MigDeviceConfig,
// whose sharing.strategy is TimeSlicing. The zero value is a GpuConfig with
// the driver's default interval.
type DRAConfig struct {
	// MIGDevice makes it a MigDeviceConfig, which has no interval.
	MIGDevice bool
	// Interval is the time-slice level of the GPU; it must be LevelDefault for
	// a MIG device.
	Interval Level
}

// ParseDRAConfig reads a GpuConfig or MigDeviceConfig with the TimeSlicing
// strategy, YAML or JSON, strictly. An interval that is not given is
// LevelDefault. Errors match ErrConfig.
func ParseDRAConfig(data []byte) (*DRAConfig, []sharing.Warning, error) {
	d, ws, err := draconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.Strategy != draconf.TimeSlicing {
		return nil, nil, fmt.Errorf("%w: sharing.strategy: is %q, not TimeSlicing", ErrConfig, d.Strategy)
	}
	c := &DRAConfig{MIGDevice: d.MIG}
	if d.Interval != "" {
		if err := c.Interval.UnmarshalText([]byte(d.Interval)); err != nil {
			return nil, nil, configError(err)
		}
	}
	return c, warnings(ws), nil
}

func (c *DRAConfig) document() *draconf.Document {
	d := &draconf.Document{MIG: c.MIGDevice, Strategy: draconf.TimeSlicing}
	if !c.MIGDevice || c.Interval != LevelDefault {
		d.Interval = c.Interval.String()
	}
	return d
}

// Validate returns nil, or an error that matches ErrConfig and names every
// reason for which the driver would refuse c.
func (c *DRAConfig) Validate() error { return configError(c.document().Validate()) }

// Warnings names the feature gate that c needs.
func (c *DRAConfig) Warnings() []sharing.Warning { return warnings(c.document().Warnings()) }

// Marshal validates c and writes it as a GpuConfig or MigDeviceConfig.
func (c *DRAConfig) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}
