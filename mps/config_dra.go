package mps

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/draconf"
	"github.com/cotenant/cotenant/sharing"
)

// DRASettings is the MPS form of the NVIDIA DRA driver's opaque parameters
// (resource.nvidia.com/v1beta1): a GpuConfig, or a MigDeviceConfig, whose
// sharing.strategy is MPS. The zero value is a GpuConfig without limits.
type DRASettings struct {
	// MIGDevice makes it a MigDeviceConfig. The driver ignores a GpuConfig on
	// MIG devices without a word.
	MIGDevice bool
	// DefaultActiveThreadPercentage is 0 to 100.
	DefaultActiveThreadPercentage Optional[int]
	// DefaultPinnedDeviceMemoryLimit holds for each client process on each
	// device; 0 leaves it unset. The driver rounds it down to whole mebibytes.
	DefaultPinnedDeviceMemoryLimit sharing.Bytes
	// DefaultPerDevicePinnedMemoryLimit overrides it for a device, named by its
	// index in the claim ("0") or its UUID.
	DefaultPerDevicePinnedMemoryLimit map[string]sharing.Bytes
	// MultiUser lets clients of different users share one server.
	MultiUser Optional[bool]
}

// ParseDRASettings reads a GpuConfig or MigDeviceConfig with the MPS strategy,
// YAML or JSON, strictly. Errors match ErrConfig.
func ParseDRASettings(data []byte) (*DRASettings, []sharing.Warning, error) {
	d, ws, err := draconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.Strategy != draconf.MPS {
		return nil, nil, fmt.Errorf("%w: sharing.strategy: is %q, not MPS", ErrConfig, d.Strategy)
	}
	c := &DRASettings{MIGDevice: d.MIG}
	if m := d.MPS; m != nil {
		c.DefaultActiveThreadPercentage, c.MultiUser = m.ActiveThreadPercentage, m.MultiUser
		c.DefaultPinnedDeviceMemoryLimit, c.DefaultPerDevicePinnedMemoryLimit = m.PinnedMemory, m.PerDevicePinnedMemory
	}
	return c, ws, nil
}

func (c *DRASettings) document() *draconf.Document {
	return &draconf.Document{MIG: c.MIGDevice, Strategy: draconf.MPS, MPS: &draconf.Limits{
		ActiveThreadPercentage: c.DefaultActiveThreadPercentage, MultiUser: c.MultiUser,
		PinnedMemory: c.DefaultPinnedDeviceMemoryLimit, PerDevicePinnedMemory: c.DefaultPerDevicePinnedMemoryLimit,
	}}
}

// Warnings lists what the driver accepts in c and does otherwise than it
// looks, and the feature gate that it needs.
func (c *DRASettings) Warnings() []sharing.Warning { return c.document().Warnings() }

// Marshal validates c and writes it as a GpuConfig or MigDeviceConfig. Errors
// match ErrConfig and name every reason for which the driver would refuse c.
func (c *DRASettings) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}
