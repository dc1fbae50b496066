package driverconf

import (
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

const (
	// GPU names the resource of a whole GPU.
	GPU = "nvidia.com/gpu"
	// migPrefix begins the names of MIG devices under the mixed strategy.
	migPrefix = "nvidia.com/mig-"
)

// Resource is a resource that the plugin replicates.
type Resource struct {
	Name string `yaml:"name,required"` // nvidia.com/gpu, or under time-slicing also nvidia.com/mig-...
	// Replicas is 2 or more: clients of each GPU under MPS, turns under time-slicing, which are no capacity.
	Replicas int `yaml:"replicas,required"`
}

// Block is a document's sharing.mps or sharing.timeSlicing. Under MPS the plugin
// gives each replica an equal share of memory and of active threads.
type Block struct {
	// RenameByDefault offers the replicas under the resource's name with ".shared" behind it.
	RenameByDefault bool `yaml:"renameByDefault"`
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas. Missing
	// leaves the plugin's default: true under MPS, false under time-slicing, where
	// NVIDIA recommends true, for several replicas give no larger share.
	FailRequestsGreaterThanOne Optional[bool] `yaml:"failRequestsGreaterThanOne"`
	Resources                  []Resource     `yaml:"resources,required"` // at least one; under MPS nvidia.com/gpu alone
}

// Flags are the flags of the plugin and of GPU feature discovery that the document
// holds. Empty and missing leave a flag out.
type Flags struct {
	MIGStrategy             string         `yaml:"migStrategy"` // none, single or mixed
	FailOnInitError         Optional[bool] `yaml:"failOnInitError"`
	MPSRoot                 string         `yaml:"mpsRoot"` // of the MPS daemon, by default /run/nvidia/mps
	NvidiaDriverRoot        string         `yaml:"nvidiaDriverRoot"`
	NvidiaDevRoot           string         `yaml:"nvidiaDevRoot"`
	GDSEnabled              Optional[bool] `yaml:"gdsEnabled"`
	MOFEDEnabled            Optional[bool] `yaml:"mofedEnabled"`
	UseNodeFeatureAPI       Optional[bool] `yaml:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string         `yaml:"deviceDiscoveryStrategy"`
	Plugin                  PluginFlags    `yaml:"plugin"`
	GFD                     GFDFlags       `yaml:"gfd"`
}

// PluginFlags stand under flags.plugin.
type PluginFlags struct {
	PassDeviceSpecs               Optional[bool]     `yaml:"passDeviceSpecs"`
	DeviceListStrategy            strictyaml.Strings `yaml:"deviceListStrategy"` // envvar, volume-mounts, cdi-...
	DeviceIDStrategy              string             `yaml:"deviceIDStrategy"`   // uuid or index
	CDIAnnotationPrefix           string             `yaml:"cdiAnnotationPrefix"`
	NvidiaCTKPath                 string             `yaml:"nvidiaCTKPath"`
	ContainerDriverRoot           string             `yaml:"containerDriverRoot"`
	SharedDevicesAllocationPolicy string             `yaml:"sharedDevicesAllocationPolicy"` // distributed or packed
}

// GFDFlags stand under flags.gfd.
type GFDFlags struct {
	Oneshot         Optional[bool] `yaml:"oneshot"`
	NoTimestamp     Optional[bool] `yaml:"noTimestamp"`
	SleepInterval   string         `yaml:"sleepInterval"`
	OutputFile      string         `yaml:"outputFile"`
	MachineTypeFile string         `yaml:"machineTypeFile"`
}

// Plugin is a configuration document (version v1) of NVIDIA's Kubernetes device
// plugin. The zero value shares nothing. With both blocks MPS wins.
type Plugin struct {
	Flags       Flags
	TimeSlicing *Block
	MPS         *Block
}

// wirePlugin reads a document with what the plugin ignores in it.
type wirePlugin struct {
	Version string `yaml:"version,required"`
	Flags   struct {
		Flags
		RenameByDefault ignoredValue `yaml:"renameByDefault"`
		FailRequests    ignoredValue `yaml:"failRequestsGreaterThanOne"`
	} `yaml:"flags"`
	Resources ignoredValue `yaml:"resources"`
	Sharing   struct {
		TimeSlicing *wireBlock `yaml:"timeSlicing"`
		MPS         *wireBlock `yaml:"mps"`
	} `yaml:"sharing"`
}

type wireBlock struct {
	Block
	Resources []wireResource `yaml:"resources,required"`
}

type wireResource struct {
	Resource
	Rename  ignoredValue `yaml:"rename"`
	Devices ignoredValue `yaml:"devices"`
}

// ignoredValue is a value that the plugin accepts and does not act on.
type ignoredValue struct{ present bool }

// DecodeNode takes any value.
func (v *ignoredValue) DecodeNode(*strictyaml.Decoder, string, *yaml.Node) { v.present = true }

func parsePlugin(data []byte) (*Plugin, []sharing.Warning, error) {
	var w wirePlugin
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, err
	}
	d := &Plugin{Flags: w.Flags.Flags, TimeSlicing: w.Sharing.TimeSlicing.block(), MPS: w.Sharing.MPS.block()}
	var l problem.List
	l.If(w.Version != "v1", "version", `write "v1"`, "%q is not a version that the plugin reads", w.Version)
	d.check(&l)
	if err := l.Err(); err != nil {
		return nil, nil, err
	}
	return d, w.warnings(d), nil
}

func (b *wireBlock) block() *Block {
	if b == nil {
		return nil
	}
	for _, r := range b.Resources {
		b.Block.Resources = append(b.Block.Resources, r.Resource)
	}
	return &b.Block
}

// Marshal validates the document and writes it as the plugin reads it. The same
// value gives the same bytes. Errors match ErrInvalid.
func (d *Plugin) Marshal() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return yamlnode.Encode(nil, yamlnode.Map("version", "v1", "flags", yamlnode.Struct(d.Flags), "sharing",
		yamlnode.Map("timeSlicing", yamlnode.Struct(d.TimeSlicing), "mps", yamlnode.Struct(d.MPS))))
}
