// Package pluginconf reads and writes the configuration document of the NVIDIA
// Kubernetes device plugin (version v1). Packages mps and timeslice show one
// block of it to users, package manifest the whole.
package pluginconf

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// GPU is the resource name of a whole GPU; MIGPrefix begins those of MIG
// devices under the mixed strategy.
const (
	GPU       = "nvidia.com/gpu"
	MIGPrefix = "nvidia.com/mig-"
)

// Codes of what the plugin reads and does not act on.
const (
	RenameIgnored        = "rename-ignored"
	DevicesIgnored       = "devices-ignored"
	FlagIgnored          = "flag-ignored"
	ResourcesIgnored     = "resources-ignored"
	TimeSlicingIgnored   = "time-slicing-ignored"
	ReplicasNotCapacity  = "replicas-not-capacity"
	LargeRequestsAllowed = "large-requests-allowed"
	MIGStrategyConflict  = "mig-strategy-conflict"
)

// Resource is one replicated resource.
type Resource struct {
	Name     string
	Replicas int
}

// Block is sharing.mps or sharing.timeSlicing.
type Block struct {
	RenameByDefault            bool
	FailRequestsGreaterThanOne *bool
	Resources                  []Resource
}

// Flags are the flags of the plugin and of GPU feature discovery in one flat
// struct; empty and nil mean that the flag is not set.
type Flags struct {
	MIGStrategy             string
	FailOnInitError         *bool
	MPSRoot                 string
	NvidiaDriverRoot        string
	NvidiaDevRoot           string
	GDSEnabled              *bool
	MOFEDEnabled            *bool
	UseNodeFeatureAPI       *bool
	DeviceDiscoveryStrategy string

	PassDeviceSpecs               *bool
	DeviceListStrategy            []string
	DeviceIDStrategy              string
	CDIAnnotationPrefix           string
	NvidiaCTKPath                 string
	ContainerDriverRoot           string
	SharedDevicesAllocationPolicy string

	Oneshot         *bool
	NoTimestamp     *bool
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
	RenameByDefault            bool           `yaml:"renameByDefault"`
	FailRequestsGreaterThanOne *bool          `yaml:"failRequestsGreaterThanOne"`
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
	FailOnInitError         *bool           `yaml:"failOnInitError"`
	MPSRoot                 string          `yaml:"mpsRoot"`
	NvidiaDriverRoot        string          `yaml:"nvidiaDriverRoot"`
	NvidiaDevRoot           string          `yaml:"nvidiaDevRoot"`
	GDSEnabled              *bool           `yaml:"gdsEnabled"`
	MOFEDEnabled            *bool           `yaml:"mofedEnabled"`
	UseNodeFeatureAPI       *bool           `yaml:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string          `yaml:"deviceDiscoveryStrategy"`
	Plugin                  wirePluginFlags `yaml:"plugin"`
	GFD                     wireGFDFlags    `yaml:"gfd"`
	RenameByDefault         ignoredValue    `yaml:"renameByDefault"`
	FailRequests            ignoredValue    `yaml:"failRequestsGreaterThanOne"`
}

type wirePluginFlags struct {
	PassDeviceSpecs               *bool        `yaml:"passDeviceSpecs"`
	DeviceListStrategy            stringOrList `yaml:"deviceListStrategy"`
	DeviceIDStrategy              string       `yaml:"deviceIDStrategy"`
	CDIAnnotationPrefix           string       `yaml:"cdiAnnotationPrefix"`
	NvidiaCTKPath                 string       `yaml:"nvidiaCTKPath"`
	ContainerDriverRoot           string       `yaml:"containerDriverRoot"`
	SharedDevicesAllocationPolicy string       `yaml:"sharedDevicesAllocationPolicy"`
}

type wireGFDFlags struct {
	Oneshot         *bool  `yaml:"oneshot"`
	NoTimestamp     *bool  `yaml:"noTimestamp"`
	SleepInterval   string `yaml:"sleepInterval"`
	OutputFile      string `yaml:"outputFile"`
	MachineTypeFile string `yaml:"machineTypeFile"`
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
func Parse(data []byte) (*Document, []problem.Warning, error) {
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
		out.Resources = append(out.Resources, Resource{Name: r.Name, Replicas: r.Replicas})
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

func (w *wireDocument) warnings(d *Document) []problem.Warning {
	var out []problem.Warning
	add := func(code, path, message, remedy string) {
		out = append(out, problem.Warning{Code: code, Path: path, Message: message, Remedy: remedy, Source: "k8s-device-plugin-config"})
	}
	if w.Resources.present {
		add(ResourcesIgnored, "resources", "the plugin ignores custom resources", "remove it")
	}
	if w.Flags.RenameByDefault.present {
		add(FlagIgnored, "flags.renameByDefault", "ignored without a word when it stands under flags",
			"move it into the sharing block")
	}
	if w.Flags.FailRequests.present {
		add(FlagIgnored, "flags.failRequestsGreaterThanOne", "ignored without a word when it stands under flags",
			"move it into the sharing block")
	}
	for _, b := range []struct {
		path  string
		block *wireBlock
	}{{"sharing.mps", w.Sharing.MPS}, {"sharing.timeSlicing", w.Sharing.TimeSlicing}} {
		if b.block == nil {
			continue
		}
		for i, r := range b.block.Resources {
			at := fmt.Sprintf("%s.resources[%d]", b.path, i)
			if r.Rename.present {
				add(RenameIgnored, at+".rename", "the plugin ignores it", "use renameByDefault")
			}
			if r.Devices.present {
				add(DevicesIgnored, at+".devices", "the plugin ignores it and replicates every device of this name",
					"give GPUs that are to be shared differently a node pool of their own")
			}
		}
	}
	return append(out, d.Warnings()...)
}

// Warnings lists what is legal in the document and misleads.
func (d *Document) Warnings() []problem.Warning {
	var out []problem.Warning
	add := func(code, path, message, remedy string) {
		out = append(out, problem.Warning{Code: code, Path: path, Message: message, Remedy: remedy, Source: "k8s-device-plugin"})
	}
	if d.MPS != nil && d.TimeSlicing != nil {
		add(TimeSlicingIgnored, "sharing.timeSlicing", "MPS wins when both blocks are present; this one has no effect",
			"keep one of them: a node shares by one mechanism")
	}
	if d.MPS != nil && d.Flags.MIGStrategy == "single" {
		add(MIGStrategyConflict, "flags.migStrategy", "the plugin refuses MPS on the MIG devices of a node with this strategy",
			`set it to "none", or share MIG devices by MPS through the DRA driver`)
	}
	if b := d.TimeSlicing; b != nil && d.MPS == nil {
		if b.FailRequestsGreaterThanOne == nil || !*b.FailRequestsGreaterThanOne {
			add(LargeRequestsAllowed, "sharing.timeSlicing.failRequestsGreaterThanOne",
				"a pod that asks for several replicas gets no larger share of compute for them", "set it to true")
		}
		for i, r := range b.Resources {
			if strings.HasPrefix(r.Name, MIGPrefix) && d.Flags.MIGStrategy != "" && d.Flags.MIGStrategy != "mixed" {
				add(MIGStrategyConflict, fmt.Sprintf("sharing.timeSlicing.resources[%d].name", i),
					fmt.Sprintf("the resource %s exists only under the mixed strategy", r.Name), "set flags.migStrategy to mixed")
			}
		}
		add(ReplicasNotCapacity, "sharing.timeSlicing.resources",
			"replicas are turns on the same GPU, not capacity: no replica has memory or compute of its own", "")
	}
	return out
}
