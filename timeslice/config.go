package timeslice

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/draconf"
	"github.com/cotenant/cotenant/internal/pluginconf"
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

// PluginSettings is the sharing.timeSlicing block of the NVIDIA device plugin's
// configuration (version v1).
type PluginSettings struct {
	// RenameByDefault offers the replicas under the resource's name with
	// ".shared" behind it.
	RenameByDefault bool
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas;
	// missing leaves the plugin's default, which for time-slicing is false. NVIDIA
	// recommends true, for several replicas give no larger share.
	FailRequestsGreaterThanOne Optional[bool]
	// Resources are what is replicated: nvidia.com/gpu, or a MIG resource
	// (nvidia.com/mig-...) under the mixed strategy. At least one.
	Resources []PluginResource
}

// PluginResource is a resource that the plugin replicates: its Name, for
// example nvidia.com/gpu, and its Replicas, 2 or more, which are a number of
// turns, not of capacity.
type PluginResource = pluginconf.Resource

// ParsePluginSettings reads the sharing.timeSlicing block of a device-plugin
// configuration document, YAML or JSON. The whole document is read strictly:
// unknown keys, which the plugin would drop without a word, are errors, and
// what the plugin reads but ignores becomes a warning; when an mps block is
// there too, that is this whole block. A document without the block is an
// error. Errors match ErrConfig.
func ParsePluginSettings(data []byte) (*PluginSettings, []sharing.Warning, error) {
	d, ws, err := pluginconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.TimeSlicing == nil {
		return nil, nil, fmt.Errorf("%w: sharing.timeSlicing: is missing (an MPS document is read by package mps)", ErrConfig)
	}
	return (*PluginSettings)(d.TimeSlicing), ws, nil
}

func (c *PluginSettings) document() *pluginconf.Document {
	return &pluginconf.Document{TimeSlicing: (*pluginconf.Block)(c)}
}

// Warnings lists what the plugin accepts in c and does otherwise than it looks.
func (c *PluginSettings) Warnings() []sharing.Warning { return c.document().Warnings() }

// Marshal validates c and writes it as a complete configuration document. The
// same value gives the same bytes. Errors match ErrConfig and name every reason
// for which the plugin would refuse c.
func (c *PluginSettings) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}

// DRASettings is the time-slicing form of the NVIDIA DRA driver's opaque
// parameters (resource.nvidia.com/v1beta1): a GpuConfig, or a MigDeviceConfig,
// whose sharing.strategy is TimeSlicing. The zero value is a GpuConfig with
// the driver's default interval.
type DRASettings struct {
	// MIGDevice makes it a MigDeviceConfig, which has no interval.
	MIGDevice bool
	// Interval is the time-slice level of the GPU; it must be LevelDefault for
	// a MIG device.
	Interval Level
}

// ParseDRASettings reads a GpuConfig or MigDeviceConfig with the TimeSlicing
// strategy, YAML or JSON, strictly. An interval that is not given is
// LevelDefault. Errors match ErrConfig.
func ParseDRASettings(data []byte) (*DRASettings, []sharing.Warning, error) {
	d, ws, err := draconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.Strategy != draconf.TimeSlicing {
		return nil, nil, fmt.Errorf("%w: sharing.strategy: is %q, not TimeSlicing", ErrConfig, d.Strategy)
	}
	c := &DRASettings{MIGDevice: d.MIG}
	if d.Interval != "" {
		if err := c.Interval.UnmarshalText([]byte(d.Interval)); err != nil {
			return nil, nil, configError(err)
		}
	}
	return c, ws, nil
}

func (c *DRASettings) document() *draconf.Document {
	d := &draconf.Document{MIG: c.MIGDevice, Strategy: draconf.TimeSlicing}
	if !c.MIGDevice || c.Interval != LevelDefault {
		d.Interval = c.Interval.String()
	}
	return d
}

// Warnings names the feature gate that c needs.
func (c *DRASettings) Warnings() []sharing.Warning { return c.document().Warnings() }

// Marshal validates c and writes it as a GpuConfig or MigDeviceConfig. Errors
// match ErrConfig and name every reason for which the driver would refuse c.
func (c *DRASettings) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}
