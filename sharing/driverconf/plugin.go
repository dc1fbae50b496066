package driverconf

import (
	"slices"

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
	Name string // nvidia.com/gpu, or under time-slicing also nvidia.com/mig-...
	// Replicas is 2 or more: clients of each GPU under MPS, turns under time-slicing, which are no capacity.
	Replicas int
}

// Block is a document's sharing.mps or sharing.timeSlicing. Under MPS the plugin
// gives each replica an equal share of memory and of active threads.
type Block struct {
	// RenameByDefault offers the replicas under the resource's name with ".shared" behind it.
	RenameByDefault bool
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas. Missing
	// leaves the plugin's default: true under MPS, false under time-slicing, where
	// NVIDIA recommends true, for several replicas give no larger share.
	FailRequestsGreaterThanOne Optional[bool]
	Resources                  []Resource // at least one; under MPS nvidia.com/gpu alone
}

// Flags are the flags of the plugin and of GPU feature discovery that the document
// holds. Empty and missing leave a flag out.
type Flags struct {
	MIGStrategy             string // none, single or mixed
	FailOnInitError         Optional[bool]
	MPSRoot                 string // where the MPS daemon's folders are, by default /run/nvidia/mps
	NvidiaDriverRoot        string
	NvidiaDevRoot           string
	GDSEnabled              Optional[bool]
	MOFEDEnabled            Optional[bool]
	UseNodeFeatureAPI       Optional[bool]
	DeviceDiscoveryStrategy string
	Plugin                  PluginFlags
	GFD                     GFDFlags
}

// PluginFlags stand under flags.plugin.
type PluginFlags struct {
	PassDeviceSpecs               Optional[bool]
	DeviceListStrategy            []string // envvar, volume-mounts, cdi-annotations, cdi-cri
	DeviceIDStrategy              string   // uuid or index
	CDIAnnotationPrefix           string
	NvidiaCTKPath                 string
	ContainerDriverRoot           string
	SharedDevicesAllocationPolicy string // distributed or packed
}

// GFDFlags stand under flags.gfd.
type GFDFlags struct {
	Oneshot         Optional[bool]
	NoTimestamp     Optional[bool]
	SleepInterval   string
	OutputFile      string
	MachineTypeFile string
}

// Plugin is a configuration document (version v1) of NVIDIA's Kubernetes device
// plugin. The zero value shares nothing. With both blocks MPS wins.
type Plugin struct {
	Flags       Flags
	TimeSlicing *Block
	MPS         *Block
}

type wirePlugin struct {
	Version   string       `yaml:"version,required"`
	Flags     wireFlags    `yaml:"flags"`
	Resources ignoredValue `yaml:"resources"`
	Sharing   wireBlocks   `yaml:"sharing"`
}

type wireBlocks struct {
	TimeSlicing *wireBlock `yaml:"timeSlicing"`
	MPS         *wireBlock `yaml:"mps"`
}

type wireBlock struct {
	RenameByDefault            bool           `yaml:"renameByDefault"`
	FailRequestsGreaterThanOne Optional[bool] `yaml:"failRequestsGreaterThanOne"`
	Resources                  []wireResource `yaml:"resources,required"`
}

type wireResource struct {
	Name     string       `yaml:"name,required"`
	Rename   ignoredValue `yaml:"rename"`
	Devices  ignoredValue `yaml:"devices"`
	Replicas int          `yaml:"replicas,required"`
}

type wireFlags struct {
	MIGStrategy             string          `yaml:"migStrategy"`
	FailOnInitError         Optional[bool]  `yaml:"failOnInitError"`
	MPSRoot                 string          `yaml:"mpsRoot"`
	NvidiaDriverRoot        string          `yaml:"nvidiaDriverRoot"`
	NvidiaDevRoot           string          `yaml:"nvidiaDevRoot"`
	GDSEnabled              Optional[bool]  `yaml:"gdsEnabled"`
	MOFEDEnabled            Optional[bool]  `yaml:"mofedEnabled"`
	UseNodeFeatureAPI       Optional[bool]  `yaml:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string          `yaml:"deviceDiscoveryStrategy"`
	Plugin                  wireFlagsPlugin `yaml:"plugin"`
	GFD                     wireGFDFlags    `yaml:"gfd"`
	RenameByDefault         ignoredValue    `yaml:"renameByDefault"`
	FailRequests            ignoredValue    `yaml:"failRequestsGreaterThanOne"`
}

type wireFlagsPlugin struct {
	PassDeviceSpecs               Optional[bool] `yaml:"passDeviceSpecs"`
	DeviceListStrategy            stringOrList   `yaml:"deviceListStrategy"`
	DeviceIDStrategy              string         `yaml:"deviceIDStrategy"`
	CDIAnnotationPrefix           string         `yaml:"cdiAnnotationPrefix"`
	NvidiaCTKPath                 string         `yaml:"nvidiaCTKPath"`
	ContainerDriverRoot           string         `yaml:"containerDriverRoot"`
	SharedDevicesAllocationPolicy string         `yaml:"sharedDevicesAllocationPolicy"`
}

type wireGFDFlags struct {
	Oneshot         Optional[bool] `yaml:"oneshot"`
	NoTimestamp     Optional[bool] `yaml:"noTimestamp"`
	SleepInterval   string         `yaml:"sleepInterval"`
	OutputFile      string         `yaml:"outputFile"`
	MachineTypeFile string         `yaml:"machineTypeFile"`
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

func parsePlugin(data []byte) (*Plugin, []sharing.Warning, error) {
	var w wirePlugin
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, err
	}
	d := &Plugin{Flags: w.Flags.flags(), TimeSlicing: w.Sharing.TimeSlicing.block(), MPS: w.Sharing.MPS.block()}
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

func (f wireFlags) flags() Flags {
	p, g := f.Plugin, f.GFD
	return Flags{
		MIGStrategy: f.MIGStrategy, FailOnInitError: f.FailOnInitError, MPSRoot: f.MPSRoot,
		NvidiaDriverRoot: f.NvidiaDriverRoot, NvidiaDevRoot: f.NvidiaDevRoot,
		GDSEnabled: f.GDSEnabled, MOFEDEnabled: f.MOFEDEnabled, UseNodeFeatureAPI: f.UseNodeFeatureAPI,
		DeviceDiscoveryStrategy: f.DeviceDiscoveryStrategy,
		Plugin: PluginFlags{p.PassDeviceSpecs, slices.Clone(p.DeviceListStrategy), p.DeviceIDStrategy,
			p.CDIAnnotationPrefix, p.NvidiaCTKPath, p.ContainerDriverRoot, p.SharedDevicesAllocationPolicy},
		GFD: GFDFlags(g),
	}
}

// Marshal validates the document and writes it as the plugin reads it. The same
// value gives the same bytes. Errors match ErrInvalid.
func (d *Plugin) Marshal() ([]byte, error) {
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
				"passDeviceSpecs", f.Plugin.PassDeviceSpecs, "deviceListStrategy", f.Plugin.DeviceListStrategy,
				"deviceIDStrategy", given(f.Plugin.DeviceIDStrategy), "cdiAnnotationPrefix", given(f.Plugin.CDIAnnotationPrefix),
				"nvidiaCTKPath", given(f.Plugin.NvidiaCTKPath), "containerDriverRoot", given(f.Plugin.ContainerDriverRoot),
				"sharedDevicesAllocationPolicy", given(f.Plugin.SharedDevicesAllocationPolicy)),
			"gfd", yamlnode.Map(
				"oneshot", f.GFD.Oneshot, "noTimestamp", f.GFD.NoTimestamp, "sleepInterval", given(f.GFD.SleepInterval),
				"outputFile", given(f.GFD.OutputFile), "machineTypeFile", given(f.GFD.MachineTypeFile))),
		"sharing", yamlnode.Map("timeSlicing", node(d.TimeSlicing), "mps", node(d.MPS)))
	return yamlnode.Encode(nil, doc)
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
	rename := Optional[bool]{}
	if b.RenameByDefault {
		rename = Some(true)
	}
	list := yamlnode.List()
	for _, r := range b.Resources {
		list.Content = append(list.Content, yamlnode.Map("name", r.Name, "replicas", r.Replicas))
	}
	return yamlnode.Map("renameByDefault", rename, "failRequestsGreaterThanOne", b.FailRequestsGreaterThanOne, "resources",
		list)
}
