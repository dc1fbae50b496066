// Package pluginconf reads and writes the configuration document of the NVIDIA
// Kubernetes device plugin (version v1). Packages mps and timeslice show one
// block of it to users, package manifest the whole.
package pluginconf

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// GPU is the resource name of a whole GPU; migPrefix begins those of MIG
// devices under the mixed strategy.
const (
	GPU       = "nvidia.com/gpu"
	migPrefix = "nvidia.com/mig-"
)

// Resource is one replicated resource.
type Resource struct {
	Name     string
	Replicas int
}

// Block is sharing.mps or sharing.timeSlicing.
type Block struct {
	RenameByDefault            bool
	FailRequestsGreaterThanOne optional.Value[bool]
	Resources                  []Resource
}

// Flags are the flags of the plugin and of GPU feature discovery in one flat
// struct; empty and missing mean that the flag is not set.
type Flags struct {
	MIGStrategy             string
	FailOnInitError         optional.Value[bool]
	MPSRoot                 string
	NvidiaDriverRoot        string
	NvidiaDevRoot           string
	GDSEnabled              optional.Value[bool]
	MOFEDEnabled            optional.Value[bool]
	UseNodeFeatureAPI       optional.Value[bool]
	DeviceDiscoveryStrategy string

	PassDeviceSpecs               optional.Value[bool]
	DeviceListStrategy            []string
	DeviceIDStrategy              string
	CDIAnnotationPrefix           string
	NvidiaCTKPath                 string
	ContainerDriverRoot           string
	SharedDevicesAllocationPolicy string

	Oneshot         optional.Value[bool]
	NoTimestamp     optional.Value[bool]
	SleepInterval   string
	OutputFile      string
	MachineTypeFile string
}

// Document is a configuration document of the plugin.
type Document struct {
	Flags       Flags
	TimeSlicing *Block
	MPS         *Block
}

type wireDocument struct {
	Version   string       `yaml:"version,required"`
	Flags     wireFlags    `yaml:"flags"`
	Resources ignoredValue `yaml:"resources"`
	Sharing   wireSharing  `yaml:"sharing"`
}

type wireSharing struct {
	TimeSlicing *wireBlock `yaml:"timeSlicing"`
	MPS         *wireBlock `yaml:"mps"`
}

type wireBlock struct {
	RenameByDefault            bool                 `yaml:"renameByDefault"`
	FailRequestsGreaterThanOne optional.Value[bool] `yaml:"failRequestsGreaterThanOne"`
	Resources                  []wireResource       `yaml:"resources,required"`
}

type wireResource struct {
	Name     string       `yaml:"name,required"`
	Rename   ignoredValue `yaml:"rename"`
	Devices  ignoredValue `yaml:"devices"`
	Replicas int          `yaml:"replicas,required"`
}

type wireFlags struct {
	MIGStrategy             string               `yaml:"migStrategy"`
	FailOnInitError         optional.Value[bool] `yaml:"failOnInitError"`
	MPSRoot                 string               `yaml:"mpsRoot"`
	NvidiaDriverRoot        string               `yaml:"nvidiaDriverRoot"`
	NvidiaDevRoot           string               `yaml:"nvidiaDevRoot"`
	GDSEnabled              optional.Value[bool] `yaml:"gdsEnabled"`
	MOFEDEnabled            optional.Value[bool] `yaml:"mofedEnabled"`
	UseNodeFeatureAPI       optional.Value[bool] `yaml:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string               `yaml:"deviceDiscoveryStrategy"`
	Plugin                  wirePluginFlags      `yaml:"plugin"`
	GFD                     wireGFDFlags         `yaml:"gfd"`
	RenameByDefault         ignoredValue         `yaml:"renameByDefault"`
	FailRequests            ignoredValue         `yaml:"failRequestsGreaterThanOne"`
}

type wirePluginFlags struct {
	PassDeviceSpecs               optional.Value[bool] `yaml:"passDeviceSpecs"`
	DeviceListStrategy            stringOrList         `yaml:"deviceListStrategy"`
	DeviceIDStrategy              string               `yaml:"deviceIDStrategy"`
	CDIAnnotationPrefix           string               `yaml:"cdiAnnotationPrefix"`
	NvidiaCTKPath                 string               `yaml:"nvidiaCTKPath"`
	ContainerDriverRoot           string               `yaml:"containerDriverRoot"`
	SharedDevicesAllocationPolicy string               `yaml:"sharedDevicesAllocationPolicy"`
}

type wireGFDFlags struct {
	Oneshot         optional.Value[bool] `yaml:"oneshot"`
	NoTimestamp     optional.Value[bool] `yaml:"noTimestamp"`
	SleepInterval   string               `yaml:"sleepInterval"`
	OutputFile      string               `yaml:"outputFile"`
	MachineTypeFile string               `yaml:"machineTypeFile"`
}

// ignoredValue is a value that the plugin accepts and does not act on.
type ignoredValue struct{ present bool }

// DecodeNode takes any value.
func (v *ignoredValue) DecodeNode(*strictyaml.Decoder, string, *yaml.Node) { v.present = true }

// stringOrList is one string or a list of them.
type stringOrList []string

// DecodeNode reads a string as a list of one.
func (s *stringOrList) DecodeNode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		var one string
		d.Value(path, n, &one)
		*s = []string{one}
		return
	}
	d.Value(path, n, (*[]string)(s))
}

// Parse reads a document strictly. What the plugin would read and not act on
// becomes a warning; what it would refuse, or drop because it doesn't know the
// key, is part of the error, which names every problem.
func Parse(data []byte) (*Document, []sharing.Warning, error) {
	var w wireDocument
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, err
	}
	d := &Document{Flags: w.Flags.flat(), TimeSlicing: w.Sharing.TimeSlicing.block(), MPS: w.Sharing.MPS.block()}
	var l problem.List
	if w.Version != "v1" {
		l.Addf("version", `write "v1"`, "%q is not a version that the plugin reads", w.Version)
	}
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
	out := &Block{RenameByDefault: b.RenameByDefault, FailRequestsGreaterThanOne: b.FailRequestsGreaterThanOne}
	for _, r := range b.Resources {
		out.Resources = append(out.Resources, Resource{r.Name, r.Replicas})
	}
	return out
}

func (f wireFlags) flat() Flags {
	return Flags{
		MIGStrategy: f.MIGStrategy, FailOnInitError: f.FailOnInitError, MPSRoot: f.MPSRoot,
		NvidiaDriverRoot: f.NvidiaDriverRoot, NvidiaDevRoot: f.NvidiaDevRoot,
		GDSEnabled: f.GDSEnabled, MOFEDEnabled: f.MOFEDEnabled, UseNodeFeatureAPI: f.UseNodeFeatureAPI,
		DeviceDiscoveryStrategy: f.DeviceDiscoveryStrategy,
		PassDeviceSpecs:         f.Plugin.PassDeviceSpecs, DeviceListStrategy: slices.Clone(f.Plugin.DeviceListStrategy),
		DeviceIDStrategy: f.Plugin.DeviceIDStrategy, CDIAnnotationPrefix: f.Plugin.CDIAnnotationPrefix,
		NvidiaCTKPath: f.Plugin.NvidiaCTKPath, ContainerDriverRoot: f.Plugin.ContainerDriverRoot,
		SharedDevicesAllocationPolicy: f.Plugin.SharedDevicesAllocationPolicy,
		Oneshot:                       f.GFD.Oneshot, NoTimestamp: f.GFD.NoTimestamp, SleepInterval: f.GFD.SleepInterval,
		OutputFile: f.GFD.OutputFile, MachineTypeFile: f.GFD.MachineTypeFile,
	}
}

// Marshal writes the document as the plugin reads it, under the comment lines
// of header. It validates first.
func (d *Document) Marshal(header ...string) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	f := d.Flags
	doc := yamlnode.Map("version", "v1",
		"flags", yamlnode.Map(
			"migStrategy", given(f.MIGStrategy), "failOnInitError", f.FailOnInitError, "mpsRoot", given(f.MPSRoot),
			"nvidiaDriverRoot", given(f.NvidiaDriverRoot), "nvidiaDevRoot", given(f.NvidiaDevRoot),
			"gdsEnabled", f.GDSEnabled, "mofedEnabled", f.MOFEDEnabled, "useNodeFeatureAPI", f.UseNodeFeatureAPI,
			"deviceDiscoveryStrategy", given(f.DeviceDiscoveryStrategy),
			"plugin", yamlnode.Map(
				"passDeviceSpecs", f.PassDeviceSpecs, "deviceListStrategy", f.DeviceListStrategy,
				"deviceIDStrategy", given(f.DeviceIDStrategy), "cdiAnnotationPrefix", given(f.CDIAnnotationPrefix),
				"nvidiaCTKPath", given(f.NvidiaCTKPath), "containerDriverRoot", given(f.ContainerDriverRoot),
				"sharedDevicesAllocationPolicy", given(f.SharedDevicesAllocationPolicy)),
			"gfd", yamlnode.Map(
				"oneshot", f.Oneshot, "noTimestamp", f.NoTimestamp, "sleepInterval", given(f.SleepInterval),
				"outputFile", given(f.OutputFile), "machineTypeFile", given(f.MachineTypeFile))),
		"sharing", yamlnode.Map("timeSlicing", node(d.TimeSlicing), "mps", node(d.MPS)))
	return yamlnode.Encode(header, doc)
}

// given leaves an empty text out.
func given(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func node(b *Block) any {
	if b == nil {
		return nil
	}
	rename := optional.Value[bool]{}
	if b.RenameByDefault {
		rename = optional.Of(true)
	}
	list := yamlnode.List()
	for _, r := range b.Resources {
		list.Content = append(list.Content, yamlnode.Map("name", r.Name, "replicas", r.Replicas))
	}
	return yamlnode.Map("renameByDefault", rename, "failRequestsGreaterThanOne", b.FailRequestsGreaterThanOne, "resources", list)
}
