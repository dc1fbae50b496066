package manifest

import (
	"github.com/cotenant/cotenant/internal/pluginconf"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Flags are the flags of the device plugin and of GPU feature discovery that
// its configuration document holds. Empty and nil leave a flag out.
type Flags struct {
	MIGStrategy             string // none, single or mixed
	FailOnInitError         *bool
	MPSRoot                 string // where the MPS daemon's folders are, by default /run/nvidia/mps
	NvidiaDriverRoot        string
	NvidiaDevRoot           string
	GDSEnabled              *bool
	MOFEDEnabled            *bool
	UseNodeFeatureAPI       *bool
	DeviceDiscoveryStrategy string

	// Under flags.plugin.
	PassDeviceSpecs               *bool
	DeviceListStrategy            []string // envvar, volume-mounts, cdi-annotations, cdi-cri
	DeviceIDStrategy              string   // uuid or index
	CDIAnnotationPrefix           string
	NvidiaCTKPath                 string
	ContainerDriverRoot           string
	SharedDevicesAllocationPolicy string // distributed or packed

	// Under flags.gfd.
	Oneshot         *bool
	NoTimestamp     *bool
	SleepInterval   string
	OutputFile      string
	MachineTypeFile string
}

// DevicePluginConfig is a configuration document (version v1) of the NVIDIA
// device plugin. The zero value shares nothing. With both blocks MPS wins.
type DevicePluginConfig struct {
	Flags       Flags
	TimeSlicing *timeslice.PluginConfig
	MPS         *mps.PluginConfig
}

// ParseDevicePluginConfig reads a document, YAML or JSON, strictly: unknown
// keys, which the plugin drops without a word, and what it would refuse are
// errors that match ErrInvalid; what it reads and ignores becomes a warning.
func ParseDevicePluginConfig(data []byte) (*DevicePluginConfig, []sharing.Warning, error) {
	d, ws, err := pluginconf.Parse(data)
	if err != nil {
		return nil, nil, invalid(err)
	}
	c := &DevicePluginConfig{Flags: Flags(d.Flags)}
	if b := d.TimeSlicing; b != nil {
		c.TimeSlicing = &timeslice.PluginConfig{RenameByDefault: b.RenameByDefault, FailRequestsGreaterThanOne: b.FailRequestsGreaterThanOne}
		for _, r := range b.Resources {
			c.TimeSlicing.Resources = append(c.TimeSlicing.Resources, timeslice.PluginResource(r))
		}
	}
	if b := d.MPS; b != nil {
		c.MPS = &mps.PluginConfig{RenameByDefault: b.RenameByDefault, FailRequestsGreaterThanOne: b.FailRequestsGreaterThanOne}
		for _, r := range b.Resources {
			c.MPS.Resources = append(c.MPS.Resources, mps.PluginResource(r))
		}
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

func (c *DevicePluginConfig) document() *pluginconf.Document {
	d := &pluginconf.Document{Flags: pluginconf.Flags(c.Flags)}
	if s := c.TimeSlicing; s != nil {
		d.TimeSlicing = &pluginconf.Block{RenameByDefault: s.RenameByDefault, FailRequestsGreaterThanOne: s.FailRequestsGreaterThanOne}
		for _, r := range s.Resources {
			d.TimeSlicing.Resources = append(d.TimeSlicing.Resources, pluginconf.Resource(r))
		}
	}
	if s := c.MPS; s != nil {
		d.MPS = &pluginconf.Block{RenameByDefault: s.RenameByDefault, FailRequestsGreaterThanOne: s.FailRequestsGreaterThanOne}
		for _, r := range s.Resources {
			d.MPS.Resources = append(d.MPS.Resources, pluginconf.Resource(r))
		}
	}
	return d
}

// Validate returns nil, or an error that matches ErrInvalid and names every
// reason for which the plugin would refuse the document.
func (c *DevicePluginConfig) Validate() error { return invalid(c.document().Validate()) }

// Warnings lists what the plugin accepts in c and does otherwise than it looks.
func (c *DevicePluginConfig) Warnings() []sharing.Warning { return warnings(c.document().Warnings()) }

// Marshal validates c and writes the document.
func (c *DevicePluginConfig) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, invalid(err)
}

// exclusiveKey is the configuration of nodes that share nothing. It is the
// default, so that a node without a label never shares.
const exclusiveKey = "exclusive"

// byPlugin reports whether the device plugin hands out the group's devices.
func (g *Group) byPlugin() bool {
	switch g.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismMIGLikeEmulation:
		return true
	}
	return false
}

// pluginKey names the group's device-plugin configuration.
func (g *Group) pluginKey() string {
	if g.Mechanism == sharing.MechanismExclusive || g.Mechanism == sharing.MechanismInServer {
		return exclusiveKey
	}
	return g.Key()
}

// pluginConfig is the device-plugin configuration of the group's nodes.
func (g *Group) pluginConfig() *DevicePluginConfig {
	yes := true
	c := &DevicePluginConfig{Flags: Flags{MIGStrategy: "none"}}
	switch g.Mechanism {
	case sharing.MechanismTimeSlicing:
		c.TimeSlicing = &timeslice.PluginConfig{FailRequestsGreaterThanOne: &yes,
			Resources: []timeslice.PluginResource{{Name: pluginconf.GPU, Replicas: g.clients()}}}
	case sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		c.Flags.MPSRoot = mpsRoot
		c.MPS = &mps.PluginConfig{FailRequestsGreaterThanOne: &yes,
			Resources: []mps.PluginResource{{Name: pluginconf.GPU, Replicas: g.clients()}}}
	case sharing.MechanismMIG:
		c.Flags.MIGStrategy = "mixed"
	}
	return c
}

// mpsRoot is the plugin's and the GPU Operator's default (KDP, GPUOP).
const mpsRoot = "/run/nvidia/mps"
