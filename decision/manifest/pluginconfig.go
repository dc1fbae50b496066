// SPDX-License-Identifier: Apache-2.0

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

// pluginConfig is a configuration document (version v1) of NVIDIA's Kubernetes device plugin, as api/config/v1 has it
// at 1b826acc (0.20), including fields that the plugin ignores. With both blocks of sharing MPS wins.
type pluginConfig struct {
	Version   string       `yaml:"version,required"`
	Flags     pluginFlags  `yaml:"flags"`
	Resources ignoredValue `yaml:"resources"`
	Sharing   struct {
		TimeSlicing *replication `yaml:"timeSlicing"`
		MPS         *replication `yaml:"mps"`
	} `yaml:"sharing"`
	IMEX ignoredValue `yaml:"imex"`
}

// pluginFlags are the flags of the plugin and of GPU feature discovery that the document holds. Those that have nothing
// to do with sharing are taken whatever they say.
type pluginFlags struct {
	MIGStrategy       string       `yaml:"migStrategy"` // none, single or mixed
	MPSRoot           string       `yaml:"mpsRoot"`     // of the MPS daemon, by default /run/nvidia/mps
	RenameByDefault   ignoredValue `yaml:"renameByDefault"`
	FailRequests      ignoredValue `yaml:"failRequestsGreaterThanOne"`
	FailOnInitError   ignoredValue `yaml:"failOnInitError"`
	NvidiaDriverRoot  ignoredValue `yaml:"nvidiaDriverRoot"`
	NvidiaDevRoot     ignoredValue `yaml:"nvidiaDevRoot"`
	GDRCopyEnabled    ignoredValue `yaml:"gdrcopyEnabled"`
	GDSEnabled        ignoredValue `yaml:"gdsEnabled"`
	MOFEDEnabled      ignoredValue `yaml:"mofedEnabled"`
	UseNodeFeatureAPI ignoredValue `yaml:"useNodeFeatureAPI"`
	DiscoveryStrategy ignoredValue `yaml:"deviceDiscoveryStrategy"`
	Plugin            ignoredValue `yaml:"plugin"`
	GFD               ignoredValue `yaml:"gfd"`
}

// replication shares GPUs: under MPS the plugin gives each replica an equal share of memory and of active threads.
type replication struct {
	// RenameByDefault offers the replicas under the resource's name with ".shared" behind it.
	RenameByDefault bool `yaml:"renameByDefault"`
	// FailRequestsGreaterThanOne refuses pods that ask for several replicas. Missing leaves the plugin's default: true
	// under MPS, false under time-slicing, where NVIDIA recommends true, for several replicas give no larger share.
	FailRequestsGreaterThanOne decision.Optional[bool] `yaml:"failRequestsGreaterThanOne"`
	Resources                  []replicated            `yaml:"resources,required"` // one or more; MPS: nvidia.com/gpu
}

// replicated is a resource that the plugin replicates: nvidia.com/gpu, or under time-slicing also nvidia.com/mig-...
type replicated struct {
	Name     string       `yaml:"name,required"`
	Replicas int          `yaml:"replicas,required"` // 2 or more
	Rename   ignoredValue `yaml:"rename"`
	Devices  ignoredValue `yaml:"devices"`
}

// ignoredValue is true if the document sets a field that the plugin accepts and does not act on.
type ignoredValue bool

// DecodeNode takes any value.
func (v *ignoredValue) DecodeNode(*strictyaml.Decoder, string, *yaml.Node) { *v = true }

// CheckPluginConfig reads a device plugin's document, YAML or JSON, strictly. Unknown keys, which the plugin would
// silently drop, and values that it would refuse are errors that match ErrInvalid and come without warnings. Settings
// that it accepts but that do not work as they look are warnings with their source.
func CheckPluginConfig(data []byte) ([]sharing.Warning, error) {
	var d pluginConfig
	if err := strictyaml.Decode(data, &d, strictyaml.Options{}); err != nil {
		return nil, invalid(err)
	}
	var l problem.List
	l.If(d.Version != "v1", "version", `write "v1"`, "%q is not a version that the plugin reads", d.Version)
	if d.check(&l); l.Len() > 0 {
		return nil, l.Under(ErrInvalid)
	}
	return d.warnings(), nil
}

// marshal checks the document and writes it as the plugin reads it.
func (d *pluginConfig) marshal() ([]byte, error) {
	var l problem.List
	if d.check(&l); l.Len() > 0 {
		return nil, l.Under(ErrInvalid)
	}
	return yamlnode.Encode(nil, yamlnode.Map("version", "v1", "flags", yamlnode.Struct(d.Flags), "sharing",
		yamlnode.Map("timeSlicing", yamlnode.Struct(d.Sharing.TimeSlicing), "mps", yamlnode.Struct(d.Sharing.MPS))))
}

// check finds every reason for which the plugin would refuse the document.
func (d *pluginConfig) check(l *problem.List) {
	known := []string{"none", "single", "mixed"}
	if s := d.Flags.MIGStrategy; s != "" && !slices.Contains(known, s) {
		l.Addf("flags.migStrategy", problem.Meant(s, known, "none, single or mixed"), "%q is not known to the plugin", s)
	}
	d.Sharing.MPS.check(l, "sharing.mps", func(at string, name string) {
		switch {
		case name == gpuResource:
		case strings.HasPrefix(name, migPrefix):
			l.Addf(at, "share MIG devices by MPS through the DRA driver", "the plugin does not share MIG devices by MPS")
		default:
			l.Addf(at, "write "+gpuResource, "the plugin shares only %s by MPS, not %q", gpuResource, name)
		}
	})
	l.If(d.Sharing.MPS != nil && d.Flags.MIGStrategy == "mixed", "flags.migStrategy",
		`set it to "none"; share MIG devices by MPS through the DRA driver`,
		"the plugin refuses MPS together with the mixed MIG strategy")
	d.Sharing.TimeSlicing.check(l, "sharing.timeSlicing", func(at string, name string) {
		l.If(name != gpuResource && !migResource.MatchString(name), at,
			"write "+gpuResource+" or a MIG resource such as "+migPrefix+"1g.10gb", "the plugin offers no resource %q", name)
	})
}

var migResource = regexp.MustCompile(`^nvidia\.com/mig-[0-9]+(c\.[0-9]+)?g\.[0-9]+gb([.-][a-z0-9.]*[a-z0-9])?$`)

func (b *replication) check(l *problem.List, path string, checkName func(at, name string)) {
	if b == nil {
		return
	}
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

// warnings lists what the plugin accepts in the document and does otherwise than it looks.
func (d *pluginConfig) warnings() (out []sharing.Warning) {
	source := sharing.SourceID("k8s-device-plugin-config")
	add := func(is bool, code sharing.WarningCode, path, message, remedy string) {
		if is {
			out = append(out, sharing.Warning{Code: code, Path: path, Message: message, Remedy: remedy, Source: source})
		}
	}
	add(bool(d.Resources), sharing.WarnResourcesIgnored, "resources", "the plugin ignores custom resources", "remove it")
	const under, move = "ignored without a word when it stands under flags", "move it into the sharing block"
	add(bool(d.Flags.RenameByDefault), sharing.WarnFlagIgnored, "flags.renameByDefault", under, move)
	add(bool(d.Flags.FailRequests), sharing.WarnFlagIgnored, "flags.failRequestsGreaterThanOne", under, move)
	mps, turns := d.Sharing.MPS, d.Sharing.TimeSlicing
	for path, b := range map[string]*replication{"sharing.mps": mps, "sharing.timeSlicing": turns} {
		for i := 0; b != nil && i < len(b.Resources); i++ {
			at := fmt.Sprintf("%s.resources[%d]", path, i)
			add(bool(b.Resources[i].Rename), sharing.WarnRenameIgnored, at+".rename", "the plugin ignores it",
				"use renameByDefault")
			add(bool(b.Resources[i].Devices), sharing.WarnDevicesIgnored, at+".devices",
				"the plugin ignores it and replicates every device of this name",
				"give GPUs that are to be shared differently a node pool of their own")
		}
	}
	slices.SortStableFunc(out, func(a, b sharing.Warning) int { return strings.Compare(a.Path, b.Path) })
	source = "k8s-device-plugin"
	add(mps != nil && turns != nil, sharing.WarnTimeSlicingIgnored, "sharing.timeSlicing",
		"MPS wins when both blocks are present; this one has no effect", "keep one of them: a node shares by one mechanism")
	add(mps != nil && d.Flags.MIGStrategy == "single", sharing.WarnMIGStrategyConflict, "flags.migStrategy",
		"the plugin refuses MPS on the MIG devices of a node with this strategy",
		`set it to "none", or share MIG devices by MPS through the DRA driver`)
	if turns != nil && mps == nil {
		add(!turns.FailRequestsGreaterThanOne.Or(false), sharing.WarnLargeRequestsAllowed,
			"sharing.timeSlicing.failRequestsGreaterThanOne",
			"a pod that asks for several replicas gets no larger share of compute for them", "set it to true")
		for i, r := range turns.Resources {
			add(strings.HasPrefix(r.Name, migPrefix) && d.Flags.MIGStrategy != "" && d.Flags.MIGStrategy != "mixed",
				sharing.WarnMIGStrategyConflict, fmt.Sprintf("sharing.timeSlicing.resources[%d].name", i),
				fmt.Sprintf("the resource %s exists only under the mixed strategy", r.Name), "set flags.migStrategy to mixed")
		}
		add(true, sharing.WarnReplicasNotCapacity, "sharing.timeSlicing.resources",
			"replicas are turns on the same GPU, not capacity: no replica has memory or compute of its own", "")
	}
	source = "k8s-device-plugin-mps"
	for i := 0; mps != nil && i < len(mps.Resources); i++ {
		n := max(1, mps.Resources[i].Replicas)
		add(100%n != 0, sharing.WarnUnevenPercentage, fmt.Sprintf("sharing.mps.resources[%d].replicas", i),
			fmt.Sprintf("the plugin gives each of %d replicas %d%% of the threads and leaves %d%% to nobody", n, 100/n,
				100-n*(100/n)), "the daemon itself takes fractions: set the percentage with a client of your own")
	}
	return out
}
