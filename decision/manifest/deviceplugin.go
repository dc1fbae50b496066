package manifest

import (
	"github.com/cotenant/cotenant/internal/pluginconf"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// PluginFlags are the flags of the device plugin and of GPU feature discovery that
// its configuration document holds. Empty and missing leave a flag out.
type PluginFlags struct {
	MIGStrategy             string // none, single or mixed
	FailOnInitError         Optional[bool]
	MPSRoot                 string // where the MPS daemon's folders are, by default /run/nvidia/mps
	NvidiaDriverRoot        string
	NvidiaDevRoot           string
	GDSEnabled              Optional[bool]
	MOFEDEnabled            Optional[bool]
	UseNodeFeatureAPI       Optional[bool]
	DeviceDiscoveryStrategy string

	// Under flags.plugin.
	PassDeviceSpecs               Optional[bool]
	DeviceListStrategy            []string // envvar, volume-mounts, cdi-annotations, cdi-cri
	DeviceIDStrategy              string   // uuid or index
	CDIAnnotationPrefix           string
	NvidiaCTKPath                 string
	ContainerDriverRoot           string
	SharedDevicesAllocationPolicy string // distributed or packed

	// Under flags.gfd.
	Oneshot         Optional[bool]
	NoTimestamp     Optional[bool]
	SleepInterval   string
	OutputFile      string
	MachineTypeFile string
}

// PluginConfig is a configuration document (version v1) of the NVIDIA
// device plugin. The zero value shares nothing. With both blocks MPS wins.
type PluginConfig struct {
	Flags       PluginFlags
	TimeSlicing *timeslice.PluginSettings
	MPS         *mps.PluginSettings
}

// ParsePluginConfig reads a document, YAML or JSON, strictly: unknown
// keys, which the plugin drops without a word, and what it would refuse are
// errors that match ErrInvalid; what it reads and ignores becomes a warning.
func ParsePluginConfig(data []byte) (*PluginConfig, []sharing.Warning, error) {
	d, ws, err := pluginconf.Parse(data)
	if err != nil {
		return nil, nil, invalid(err)
	}
	c := &PluginConfig{Flags: PluginFlags(d.Flags), TimeSlicing: (*timeslice.PluginSettings)(d.TimeSlicing), MPS: (*mps.PluginSettings)(d.MPS)}
	return c, ws, nil
}

func (c *PluginConfig) document() *pluginconf.Document {
	return &pluginconf.Document{Flags: pluginconf.Flags(c.Flags), TimeSlicing: (*pluginconf.Block)(c.TimeSlicing), MPS: (*pluginconf.Block)(c.MPS)}
}

// Warnings lists what the plugin accepts in c and does otherwise than it looks.
func (c *PluginConfig) Warnings() []sharing.Warning { return c.document().Warnings() }

// Marshal validates c and writes the document.
func (c *PluginConfig) Marshal() ([]byte, error) {
	b, err := c.document().Marshal()
	return b, invalid(err)
}

// exclusiveKey is the configuration of nodes that share nothing. It is the
// default, so that a node without a label never shares.
const exclusiveKey = "exclusive"

// byPlugin reports whether the device plugin hands out the devices.
func byPlugin(m sharing.Mechanism) bool {
	switch m {
	case sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismMIGLikeEmulation:
		return true
	}
	return false
}

// pluginKey names the group's device-plugin configuration.
func (g *group) pluginKey() string {
	if g.Mechanism == sharing.MechanismExclusive || g.Mechanism == sharing.MechanismInServer {
		return exclusiveKey
	}
	return g.key
}

// pluginConfig is the device-plugin configuration of the group's nodes.
func (g *group) pluginConfig() *PluginConfig {
	c := &PluginConfig{Flags: PluginFlags{MIGStrategy: "none"}}
	switch g.Mechanism {
	case sharing.MechanismTimeSlicing:
		c.TimeSlicing = &timeslice.PluginSettings{FailRequestsGreaterThanOne: Some(true),
			Resources: []timeslice.PluginResource{{Name: pluginconf.GPU, Replicas: g.clients()}}}
	case sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		c.Flags.MPSRoot = mpsRoot
		c.MPS = &mps.PluginSettings{FailRequestsGreaterThanOne: Some(true),
			Resources: []mps.PluginResource{{Name: pluginconf.GPU, Replicas: g.clients()}}}
	case sharing.MechanismMIG:
		c.Flags.MIGStrategy = "mixed"
	}
	return c
}

// mpsRoot is the plugin's and the GPU Operator's default (k8s-device-plugin,
// nvidia-gpu-operator).
const mpsRoot = "/run/nvidia/mps"
