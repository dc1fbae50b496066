package mps

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/pluginconf"
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

// PluginSettings is the sharing.mps block of the NVIDIA device plugin's
// configuration (version v1). The plugin gives each replica an equal share of
// memory and of active threads; it knows no unequal shares.
type PluginSettings struct {
	// RenameByDefault offers the replicas as nvidia.com/gpu.shared.
	RenameByDefault bool
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas.
	// Missing leaves the plugin's default, which for MPS is true.
	FailRequestsGreaterThanOne Optional[bool]
	// Resources are what is replicated. The plugin shares only nvidia.com/gpu
	// by MPS, so there is exactly one.
	Resources []PluginResource
}

// PluginResource is a resource that the plugin replicates: its Name, here
// nvidia.com/gpu, and its Replicas, the clients for each GPU, 2 or more.
type PluginResource = pluginconf.Resource

// ParsePluginSettings reads the sharing.mps block of a device-plugin
// configuration document, YAML or JSON. The whole document is read strictly:
// unknown keys, which the plugin would drop without a word, are errors, and
// what the plugin reads but ignores becomes a warning. A document without the
// block is an error. Errors match ErrConfig.
func ParsePluginSettings(data []byte) (*PluginSettings, []sharing.Warning, error) {
	d, ws, err := pluginconf.Parse(data)
	if err != nil {
		return nil, nil, configError(err)
	}
	if d.MPS == nil {
		return nil, nil, fmt.Errorf("%w: sharing.mps: is missing (a time-slicing document is read by package timeslice)", ErrConfig)
	}
	c := (*PluginSettings)(d.MPS)
	return c, append(ws, c.Warnings()...), nil
}

// Marshal validates c and writes it as a complete configuration document. The
// same value gives the same bytes. Errors match ErrConfig and name every reason
// for which the plugin would refuse c.
func (c *PluginSettings) Marshal() ([]byte, error) {
	b, err := (&pluginconf.Document{MPS: (*pluginconf.Block)(c)}).Marshal()
	return b, configError(err)
}

// Warnings lists what the plugin accepts in c and does otherwise than it
// looks: percentages that do not divide 100 leave a rest unused.
func (c *PluginSettings) Warnings() []sharing.Warning {
	var out []sharing.Warning
	for i, r := range c.Resources {
		if r.Replicas < 2 || 100%r.Replicas == 0 {
			continue
		}
		share := PluginShare{Replicas: r.Replicas}
		out = append(out, sharing.Warning{
			Code: sharing.WarnUnevenPercentage, Path: fmt.Sprintf("sharing.mps.resources[%d].replicas", i), Source: "k8s-device-plugin-mps",
			Message: fmt.Sprintf("the plugin gives each of %d replicas %d%% of the threads and leaves %d%% to nobody",
				r.Replicas, share.ActiveThreadPercentage(), 100-r.Replicas*share.ActiveThreadPercentage()),
			Remedy: "the daemon itself takes fractions: set the percentage with a client of your own",
		})
	}
	return out
}

// WarningsFor lists what the plugin does with c on a GPU of the given compute
// capability. The plugin allows 48 replicas from capability 7.5 on and 16 below:
// a V100 (7.0) is among the latter, although its hardware takes 48 clients.
func (c *PluginSettings) WarningsFor(major, minor int) []sharing.Warning {
	limit := 16
	if major > 7 || major == 7 && minor >= 5 {
		limit = 48
	}
	var out []sharing.Warning
	for i, r := range c.Resources {
		if r.Replicas > limit {
			out = append(out, sharing.Warning{
				Code: sharing.WarnReplicaCap, Path: fmt.Sprintf("sharing.mps.resources[%d].replicas", i), Source: "k8s-device-plugin-mps",
				Message: fmt.Sprintf("the plugin allows %d replicas on a GPU of compute capability %d.%d, not %d", limit, major, minor, r.Replicas),
				Remedy:  fmt.Sprintf("ask for %d or fewer", limit),
			})
		}
	}
	return out
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
