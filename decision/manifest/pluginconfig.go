package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

const (
	// gpuResource is a whole GPU.
	gpuResource = "nvidia.com/gpu"
	// migPrefix begins the names of MIG devices under the mixed strategy.
	migPrefix = "nvidia.com/mig-"
)

// ReplicatedResource is a resource that the plugin replicates.
type ReplicatedResource struct {
	Name string `yaml:"name,required"` // nvidia.com/gpu, or under time-slicing also nvidia.com/mig-...
	// Replicas is 2 or more: clients of each GPU under MPS, turns under time-slicing, which are no capacity.
	Replicas int `yaml:"replicas,required"`
}

// Replication is a document's sharing.mps or sharing.timeSlicing. Under MPS the plugin
// gives each replica an equal share of memory and of active threads.
type Replication struct {
	// RenameByDefault offers the replicas under the resource's name with ".shared" behind it.
	RenameByDefault bool `yaml:"renameByDefault"`
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas. Missing leaves the plugin's default: true
	// under MPS, false under time-slicing, where NVIDIA recommends true, for several replicas give no larger share.
	FailRequestsGreaterThanOne decision.Optional[bool] `yaml:"failRequestsGreaterThanOne"`
	Resources                  []ReplicatedResource    `yaml:"resources,required"` // one or more; MPS: nvidia.com/gpu
}

// PluginFlags are the flags of the plugin and of GPU feature discovery that the document
// holds, as api/config/v1 has them at 1b826acc (0.20). Empty and missing leave a flag out.
type PluginFlags struct {
	MIGStrategy             string                  `yaml:"migStrategy"` // none, single or mixed
	FailOnInitError         decision.Optional[bool] `yaml:"failOnInitError"`
	MPSRoot                 string                  `yaml:"mpsRoot"` // of the MPS daemon, by default /run/nvidia/mps
	NvidiaDriverRoot        string                  `yaml:"nvidiaDriverRoot"`
	NvidiaDevRoot           string                  `yaml:"nvidiaDevRoot"`
	GDRCopyEnabled          decision.Optional[bool] `yaml:"gdrcopyEnabled"`
	GDSEnabled              decision.Optional[bool] `yaml:"gdsEnabled"`
	MOFEDEnabled            decision.Optional[bool] `yaml:"mofedEnabled"`
	UseNodeFeatureAPI       decision.Optional[bool] `yaml:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string                  `yaml:"deviceDiscoveryStrategy"`
	Plugin                  struct {
		PassDeviceSpecs               decision.Optional[bool] `yaml:"passDeviceSpecs"`
		DeviceListStrategy            strictyaml.Strings      `yaml:"deviceListStrategy"` // envvar, volume-mounts, cdi-...
		DeviceIDStrategy              string                  `yaml:"deviceIDStrategy"`   // uuid or index
		CDIAnnotationPrefix           string                  `yaml:"cdiAnnotationPrefix"`
		NvidiaCTKPath                 string                  `yaml:"nvidiaCTKPath"`
		ContainerDriverRoot           string                  `yaml:"containerDriverRoot"`
		SharedDevicesAllocationPolicy string                  `yaml:"sharedDevicesAllocationPolicy"` // distributed or packed
	} `yaml:"plugin"`
	GFD struct {
		Oneshot         decision.Optional[bool] `yaml:"oneshot"`
		NoTimestamp     decision.Optional[bool] `yaml:"noTimestamp"`
		SleepInterval   string                  `yaml:"sleepInterval"`
		OutputFile      string                  `yaml:"outputFile"`
		MachineTypeFile string                  `yaml:"machineTypeFile"`
	} `yaml:"gfd"`
}

// IMEX are the channels that containers with GPUs get, to reach memory of other nodes.
type IMEX struct {
	ChannelIDs []int                   `yaml:"channelIDs"` // none, or 0
	Required   decision.Optional[bool] `yaml:"required"`
}

// PluginConfig is a configuration document (version v1) of NVIDIA's Kubernetes device
// plugin. The zero value shares nothing. With both blocks MPS wins.
type PluginConfig struct {
	Flags       PluginFlags
	TimeSlicing *Replication
	MPS         *Replication
	IMEX        *IMEX
}

// wirePlugin reads a document with what the plugin ignores in it.
type wirePlugin struct {
	Version string `yaml:"version,required"`
	Flags   struct {
		PluginFlags
		RenameByDefault ignoredValue `yaml:"renameByDefault"`
		FailRequests    ignoredValue `yaml:"failRequestsGreaterThanOne"`
	} `yaml:"flags"`
	Resources ignoredValue `yaml:"resources"`
	Sharing   struct {
		TimeSlicing *wireBlock `yaml:"timeSlicing"`
		MPS         *wireBlock `yaml:"mps"`
	} `yaml:"sharing"`
	IMEX *IMEX `yaml:"imex"`
}

type wireBlock struct {
	Replication
	Resources []wireResource `yaml:"resources,required"`
}

type wireResource struct {
	ReplicatedResource
	Rename  ignoredValue `yaml:"rename"`
	Devices ignoredValue `yaml:"devices"`
}

// ignoredValue is a value that the plugin accepts and does not act on.
type ignoredValue struct{ present bool }

// DecodeNode takes any value.
func (v *ignoredValue) DecodeNode(*strictyaml.Decoder, string, *yaml.Node) { v.present = true }

// ParseConfig reads a device plugin's document, YAML or JSON, strictly: unknown keys, which the plugin would drop
// without a word, and what it would refuse are errors that match ErrInvalid and come without a configuration; what it
// accepts and does otherwise than it looks is a warning with its source.
func ParseConfig(data []byte) (*PluginConfig, []sharing.Warning, error) {
	var w wirePlugin
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, invalid(err)
	}
	d := &PluginConfig{Flags: w.Flags.PluginFlags, TimeSlicing: w.Sharing.TimeSlicing.block(), MPS: w.Sharing.MPS.block(),
		IMEX: w.IMEX}
	var l problem.List
	l.If(w.Version != "v1", "version", `write "v1"`, "%q is not a version that the plugin reads", w.Version)
	d.check(&l)
	if err := l.Err(); err != nil {
		return nil, nil, invalid(err)
	}
	return d, w.warnings(d), nil
}

func (b *wireBlock) block() *Replication {
	if b == nil {
		return nil
	}
	for _, r := range b.Resources {
		b.Replication.Resources = append(b.Replication.Resources, r.ReplicatedResource)
	}
	return &b.Replication
}

// Marshal validates the document and writes it as the plugin reads it. The same
// value gives the same bytes. Errors match ErrInvalid.
func (d *PluginConfig) Marshal() ([]byte, error) {
	var l problem.List
	if d.check(&l); l.Err() != nil {
		return nil, l.Under(ErrInvalid)
	}
	return yamlnode.Encode(nil, yamlnode.Map("version", "v1", "flags", yamlnode.Struct(d.Flags), "sharing",
		yamlnode.Map("timeSlicing", yamlnode.Struct(d.TimeSlicing), "mps", yamlnode.Struct(d.MPS)), "imex",
		yamlnode.Struct(d.IMEX)))
}

// check finds every reason for which the plugin would refuse the document.
func (d *PluginConfig) check(l *problem.List) {
	oneOf(l, "flags.migStrategy", d.Flags.MIGStrategy, "none", "single", "mixed")
	oneOf(l, "flags.plugin.deviceIDStrategy", d.Flags.Plugin.DeviceIDStrategy, "uuid", "index")
	oneOf(l, "flags.plugin.sharedDevicesAllocationPolicy", d.Flags.Plugin.SharedDevicesAllocationPolicy, "distributed",
		"packed")
	for i, s := range d.Flags.Plugin.DeviceListStrategy {
		oneOf(l, fmt.Sprintf("flags.plugin.deviceListStrategy[%d]", i), s, "envvar", "volume-mounts", "cdi-annotations",
			"cdi-cri")
	}
	if x := d.IMEX; x != nil && len(x.ChannelIDs) > 0 && !slices.Equal(x.ChannelIDs, []int{0}) {
		l.Addf("imex.channelIDs", "write [0] or leave it out", "the plugin knows no other channel than 0")
	}
	if d.MPS != nil {
		checkMPS(l, "sharing.mps", d.MPS)
		l.If(d.Flags.MIGStrategy == "mixed", "flags.migStrategy",
			`set it to "none"; share MIG devices by MPS through the DRA driver`,
			"the plugin refuses MPS together with the mixed MIG strategy")
	}
	if d.TimeSlicing != nil {
		checkTimeSlicing(l, "sharing.timeSlicing", d.TimeSlicing)
	}
}

func oneOf(l *problem.List, path, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		remedy := problem.Meant(value, allowed, "one of "+strings.Join(allowed, ", "))
		l.Addf(path, remedy, "%q is not known to the plugin", value)
	}
}

func checkMPS(l *problem.List, path string, b *Replication) {
	checkBlock(l, path, b, func(at string, name string) {
		switch {
		case name == gpuResource:
		case strings.HasPrefix(name, migPrefix):
			l.Addf(at, "share MIG devices by MPS through the DRA driver", "the plugin does not share MIG devices by MPS")
		default:
			l.Addf(at, "write "+gpuResource, "the plugin shares only %s by MPS, not %q", gpuResource, name)
		}
	})
}

var migResource = regexp.MustCompile(`^nvidia\.com/mig-[0-9]+(c\.[0-9]+)?g\.[0-9]+gb([.-][a-z0-9.]*[a-z0-9])?$`)

func checkTimeSlicing(l *problem.List, path string, b *Replication) {
	checkBlock(l, path, b, func(at string, name string) {
		l.If(name != gpuResource && !migResource.MatchString(name), at,
			"write "+gpuResource+" or a MIG resource such as "+migPrefix+"1g.10gb", "the plugin offers no resource %q", name)
	})
}

func checkBlock(l *problem.List, path string, b *Replication, checkName func(at, name string)) {
	l.If(len(b.Resources) == 0, path+".resources", "name the resource to replicate, for example "+gpuResource,
		"has no entry")
	first := map[string]int{}
	for i, r := range b.Resources {
		at := fmt.Sprintf("%s.resources[%d]", path, i)
		checkName(at+".name", r.Name)
		if j, dup := first[r.Name]; dup {
			l.Addf(at+".name", "keep one of them", "%s stands in resources[%d] already", r.Name, j)
		} else {
			first[r.Name] = i
		}
		l.If(r.Replicas < 2, at+".replicas", "leave the block out to share nothing", "must be 2 or more, not %d",
			r.Replicas)
	}
}

func (w *wirePlugin) warnings(d *PluginConfig) []sharing.Warning {
	var out []sharing.Warning
	add := func(code sharing.WarningCode, path, message, remedy string) {
		out = append(out, sharing.Warning{Code: code, Path: path, Message: message, Remedy: remedy,
			Source: "k8s-device-plugin-config"})
	}
	if w.Resources.present {
		add(sharing.WarnResourcesIgnored, "resources", "the plugin ignores custom resources", "remove it")
	}
	if w.Flags.RenameByDefault.present {
		add(sharing.WarnFlagIgnored, "flags.renameByDefault", "ignored without a word when it stands under flags",
			"move it into the sharing block")
	}
	if w.Flags.FailRequests.present {
		add(sharing.WarnFlagIgnored, "flags.failRequestsGreaterThanOne", "ignored without a word when it stands under flags",
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
				add(sharing.WarnRenameIgnored, at+".rename", "the plugin ignores it", "use renameByDefault")
			}
			if r.Devices.present {
				add(sharing.WarnDevicesIgnored, at+".devices", "the plugin ignores it and replicates every device of this name",
					"give GPUs that are to be shared differently a node pool of their own")
			}
		}
	}
	return append(out, d.warnings()...)
}

// warnings lists what the plugin accepts in the document and does otherwise than it looks.
func (d *PluginConfig) warnings() []sharing.Warning {
	var out []sharing.Warning
	add := func(code sharing.WarningCode, path, message, remedy string) {
		out = append(out, sharing.Warning{Code: code, Path: path, Message: message, Remedy: remedy,
			Source: "k8s-device-plugin"})
	}
	if d.MPS != nil && d.TimeSlicing != nil {
		add(sharing.WarnTimeSlicingIgnored, "sharing.timeSlicing",
			"MPS wins when both blocks are present; this one has no effect",
			"keep one of them: a node shares by one mechanism")
	}
	if d.MPS != nil && d.Flags.MIGStrategy == "single" {
		add(sharing.WarnMIGStrategyConflict, "flags.migStrategy",
			"the plugin refuses MPS on the MIG devices of a node with this strategy",
			`set it to "none", or share MIG devices by MPS through the DRA driver`)
	}
	if b := d.TimeSlicing; b != nil && d.MPS == nil {
		if !b.FailRequestsGreaterThanOne.Or(false) {
			add(sharing.WarnLargeRequestsAllowed, "sharing.timeSlicing.failRequestsGreaterThanOne",
				"a pod that asks for several replicas gets no larger share of compute for them", "set it to true")
		}
		for i, r := range b.Resources {
			if strings.HasPrefix(r.Name, migPrefix) && d.Flags.MIGStrategy != "" && d.Flags.MIGStrategy != "mixed" {
				add(sharing.WarnMIGStrategyConflict, fmt.Sprintf("sharing.timeSlicing.resources[%d].name", i),
					fmt.Sprintf("the resource %s exists only under the mixed strategy", r.Name), "set flags.migStrategy to mixed")
			}
		}
		add(sharing.WarnReplicasNotCapacity, "sharing.timeSlicing.resources",
			"replicas are turns on the same GPU, not capacity: no replica has memory or compute of its own", "")
	}
	if d.MPS == nil {
		return out
	}
	for i, r := range d.MPS.Resources {
		if r.Replicas < 2 || 100%r.Replicas == 0 {
			continue
		}
		percent := 100 / r.Replicas
		out = append(out, sharing.Warning{
			Code: sharing.WarnUnevenPercentage, Path: fmt.Sprintf("sharing.mps.resources[%d].replicas", i),
			Source: "k8s-device-plugin-mps",
			Message: fmt.Sprintf("the plugin gives each of %d replicas %d%% of the threads and leaves %d%% to nobody",
				r.Replicas, percent, 100-r.Replicas*percent),
			Remedy: "the daemon itself takes fractions: set the percentage with a client of your own",
		})
	}
	return out
}
