package mps

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/draconf"
	"github.com/cotenant/cotenant/sharing"
)

// Codes of the warnings about DRA parameters.
const (
	WarnFeatureGate      sharing.WarningCode = draconf.FeatureGate      // an alpha feature gate must be on
	WarnLimitRoundedDown sharing.WarningCode = draconf.LimitRoundedDown // the driver floors the limit to mebibytes
	WarnZeroPercentage   sharing.WarningCode = draconf.ZeroPercentage   // accepted by the driver, refused by the daemon
	WarnClaimScope       sharing.WarningCode = draconf.ClaimScope       // one daemon for each claim
	WarnMIGMemoryLimit   sharing.WarningCode = draconf.MIGMemoryLimit   // bypassing clients are not stopped on MIG devices
)

// DRAConfig is the MPS form of the NVIDIA DRA driver's opaque parameters
// (resource.nvidia.com/v1beta1): a GpuConfig, or a MigDeviceConfig, whose
// sharing.strategy is MPS. The zero value is a GpuConfig without limits.
type DRAConfig struct {
	// MIGDevice makes it a MigDeviceConfig. The driver ignores a GpuConfig on
	// MIG devices without a word.
	MIGDevice bool
	// DefaultActiveThreadPercentage is 0 to 100; nil leaves it unset.
	DefaultActiveThreadPercentage *int
	// DefaultPinnedDeviceMemoryLimit holds for each client process on each
	// device; 0 leaves it unset. The driver rounds it down to whole mebibytes.
	DefaultPinnedDeviceMemoryLimit sharing.Bytes
	// DefaultPerDevicePinnedMemoryLimit overrides it for a device, named by its
	// index in the claim ("0") or its UUID.
	DefaultPerDevicePinnedMemoryLimit map[string]sharing.Bytes
	// MultiUser lets clients of different users share one server; nil leaves
	// it unset.
	MultiUser *bool
}

// ParseDRAConfig reads a GpuConfig or MigDeviceConfig with the MPS strategy,
// YAML or JSON, strictly. Errors match ErrConfig.
func ParseDRAConfig(data []byte) (*DRAConfig, []sharing.Warning, error) {
	d, ws, err := draconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.Strategy != draconf.MPS {
		return nil, nil, fmt.Errorf("%w: sharing.strategy: is %q, not MPS", ErrConfig, d.Strategy)
	}
	c := &DRAConfig{MIGDevice: d.MIG}
	if m := d.MPS; m != nil {
		c.DefaultActiveThreadPercentage, c.MultiUser = m.ActiveThreadPercentage, m.MultiUser
		c.DefaultPinnedDeviceMemoryLimit = sharing.Bytes(m.PinnedMemory)
		for k, v := range m.PerDevicePinnedMemory {
			if c.DefaultPerDevicePinnedMemoryLimit == nil {
				c.DefaultPerDevicePinnedMemoryLimit = map[string]sharing.Bytes{}
			}
			c.DefaultPerDevicePinnedMemoryLimit[k] = sharing.Bytes(v)
		}
	}
	return c, warnings(ws), nil
}

func (c *DRAConfig) document() *draconf.Document {
	m := &draconf.Limits{ActiveThreadPercentage: c.DefaultActiveThreadPercentage, MultiUser: c.MultiUser,
		PinnedMemory: int64(c.DefaultPinnedDeviceMemoryLimit)}
	for k, v := range c.DefaultPerDevicePinnedMemoryLimit {
		if m.PerDevicePinnedMemory == nil {
			m.PerDevicePinnedMemory = map[string]int64{}
		}
		m.PerDevicePinnedMemory[k] = int64(v)
	}
	d := &draconf.Document{MIG: c.MIGDevice, Strategy: draconf.MPS}
	if m.ActiveThreadPercentage != nil || m.PinnedMemory != 0 || m.PerDevicePinnedMemory != nil || m.MultiUser != nil {
		d.MPS = m
	}
	return d
}

// Validate returns nil, or an error that matches ErrConfig and names every
// reason for which the driver would refuse c.
func (c *DRAConfig) Validate() error { return configError(c.document().Validate()) }

// Warnings lists what the driver accepts in c and does otherwise than it
// looks, and the feature gate that it needs.
func (c *DRAConfig) Warnings() []sharing.Warning { return warnings(c.document().Warnings()) }

// Marshal validates c and writes it as a GpuConfig or MigDeviceConfig.
func (c *DRAConfig) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, configError(err)
}
