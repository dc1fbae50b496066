// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// ordinary reports whether a resource is known to be no part of a GPU: Kubernetes' own have no domain. One that is
// neither ordinary nor understood counts as a part of one on a node that has GPUs.
func ordinary(key string) bool {
	return !strings.Contains(key, "/") || slices.ContainsFunc(names().Ordinary, func(o string) bool {
		return strings.HasPrefix(key, o)
	})
}

// quotaResources are the prefixes of resources with quotas that bound a change.
var quotaResources = []string{"nvidia.com/", "volcano.sh/vgpu", "cotenant.dev/", "requests.nvidia.com/"}

// gpuWord matches the names of resources that speak of a GPU whatever node offers them.
var gpuWord = regexp.MustCompile(`(?i)gpu|nvidia|cuda|\bmig[-.]`)

// Resources of NVIDIA's device plugin (whole GPUs, replicas of them where it renames those, and MIG instances), of
// Volcano's, and of this repository's scheduler.
const (
	resourceGPU     = "nvidia.com/gpu"
	resourceShared  = "nvidia.com/gpu.shared"
	migPrefix       = "nvidia.com/mig-"
	resourceVolcano = "volcano.sh/vgpu-number"
	resourceMilli   = "cotenant.dev/gpu-milli"
)

// role is the meaning of an amount of a resource, "" of one that is not understood.
type role string

const (
	roleUnknown role = ""
	roleCount   role = "count"   // GPUs, or shares of them
	roleMIG     role = "mig"     // MIG instances of a profile
	roleMemory  role = "memory"  // MiB of each counted GPU
	rolePercent role = "percent" // percent of its memory
	roleCores   role = "cores"   // percent of its compute
	roleMilli   role = "milli"   // thousandths of a GPU
	roleWhole   role = "whole"   // GPUs passed through to virtual machines
	roleVGPU    role = "vgpu"    // vGPUs of a type
	roleSlice   role = "slice"   // MPS clients with so much memory
	roleTotal   role = "total"   // the GPUs that a node has
	roleAmount  role = "amount"  // a part of the node's amount of a resource that is not understood
)

type use struct {
	role
	delivery  sharing.Delivery // DeliveryBare = the device plugin, or none that is known
	mechanism sharing.Mechanism
	profile   string        // of a MIG instance, or a vGPU's type
	board     string        // the GPU in the name, "" = none
	memory    sharing.Bytes // of one
}

var (
	// nos divides a GPU among MPS clients: nvidia.com/gpu-10gb.
	nosSlice = regexp.MustCompile(`^nvidia\.com/gpu-(\d{1,4})gb$`)
	// KubeVirt's plugin (d26f2374) names GPUs after the PCI database, in capitals: nvidia.com/TU104GL_TESLA_T4.
	passedThrough = regexp.MustCompile(`^nvidia\.com/([A-Z]{2}\d{3}[A-Z]{0,3})_([A-Z0-9_]+)$`)
	// InstaSlice and its successor, Dynamic Accelerator Slicer.
	dasSlice = regexp.MustCompile(`^(?:mig\.das\.com/(?:mig-)?|instaslice\.(?:redhat\.com|codeflare\.dev)/mig-)(\d.*)$`)
)

// useOf reads a resource by its name; the zero use means that the name is not understood.
func useOf(key string) use {
	if r, ok := names().Resources[key]; ok {
		return use{role: r.Role, delivery: r.Delivery}
	}
	mig := func(profile string) use {
		return use{role: roleMIG, profile: profileName(profile), mechanism: sharing.MechanismMIG}
	}
	if profile, ok := strings.CutPrefix(key, migPrefix); ok {
		profile, _ = strings.CutSuffix(profile, ".shared")
		return mig(profile)
	}
	if m := dasSlice.FindStringSubmatch(key); m != nil {
		return mig(m[1])
	}
	if m := nosSlice.FindStringSubmatch(key); m != nil {
		return use{role: roleSlice, mechanism: sharing.MechanismMPS, memory: sharing.Bytes(count(m[1])) * sharing.GiB}
	}
	name, nvidia := strings.CutPrefix(key, "nvidia.com/")
	if m := passedThrough.FindStringSubmatch(key); m != nil {
		return use{role: roleWhole, mechanism: sharing.MechanismExclusive, board: strings.ReplaceAll(m[2], "_", " ")}
	}
	if v, ok := sharing.ParseVGPUType(strings.ReplaceAll(name, "_", " ")); ok && nvidia {
		return use{role: roleVGPU, mechanism: sharing.MechanismVGPU, delivery: sharing.DeliveryVGPUManager, profile: v.Name,
			board: v.Board, memory: v.Memory}
	}
	return use{}
}

// wordOf interprets the name of a resource that accompanies a count renamed in HAMi's configuration.
func wordOf(key string) role {
	_, name, _ := strings.Cut(strings.ToLower(key), "/")
	switch memory := strings.Contains(name, "mem"); {
	case memory && strings.Contains(name, "percent"):
		return rolePercent
	case memory:
		return roleMemory
	case strings.Contains(name, "core"):
		return roleCores
	}
	return roleUnknown
}

// profileName is the profile in the name of a resource: "1g.10gb.me" is 1g.10gb+me.
func profileName(s string) string {
	if n, err := mig.ParseResourceName("mig-" + s); err == nil {
		return n.String()
	}
	return s
}

// plain returns the mechanism by which the pods of one MIG instance share it.
func plain(m sharing.Mechanism) sharing.Mechanism {
	if m == sharing.MechanismMIGWithMPS {
		return sharing.MechanismMPS
	}
	return m
}

// Numbers beyond these are mistakes.
const (
	mostPerNode  = 1024
	mostReplicas = 10_000
	mostPods     = 100_000
	mostMemory   = 16 * sharing.TiB
)

// count reads a number of devices; 0 where it is none.
func count(text string) int {
	if v := amountIn("", text); v <= 1<<20 {
		return int(v)
	}
	return 0
}

// amountOf reads a number of things, or an amount of memory as MiB.
func amountOf(text string) int {
	if v := count(text); v > 0 {
		return v
	}
	return int(quantity(text) >> 20)
}

// quantity reads an amount as Kubernetes writes it, 20Gi or 21474836480; 0 where it is none, or more than there can be.
func quantity(text string) int64 {
	if v := amountIn("", text); v <= int64(mostMemory) {
		return v
	}
	return 0
}

// amountIn reads an amount of a resource: thousandths of a CPU, bytes of memory or storage, a number of others; 0 where
// the text is no amount.
func amountIn(key, text string) int64 {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	v, err := strconv.ParseFloat(text[:end], 64)
	if v *= quantityScales[text[end:]]; key == "cpu" {
		v *= 1000
	}
	if err != nil || !(v >= 0 && v < 1<<60) {
		return 0
	}
	return int64(math.Round(v))
}

// quantityScales are the suffixes of Kubernetes' quantities.
var quantityScales = map[string]float64{"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"P": 1e15, "E": 1e18, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

// ECC takes up to 7% of a board's memory, and the GPU table has some boards with it and some without.
func near(got, known sharing.Bytes) bool {
	return float64(got) >= 0.9*float64(known) && float64(got) <= 1.08*float64(known)
}

// Labels that select a node's configurations: NVIDIA/k8s-device-plugin, README.md, "Updating Per-Node Configuration
// With a Node Label", and NVIDIA/mig-parted, deployments/gpu-operator.
const (
	labelPlugin   = "nvidia.com/device-plugin.config"
	labelMIG      = "nvidia.com/mig.config"
	labelMIGState = "nvidia.com/mig.config.state" // of the operator's MIG manager: pending, rebooting, success or failed
)

// takeConfigMap keeps configurations of the device plugin, and the names of resources in HAMi's configuration.
func (c *Collector) takeConfigMap(file string, o *configMapObject) {
	for _, key := range sortedKeys(o.Data) {
		text := o.Data[key]
		switch {
		case len(text) > 1<<20:
		case strings.Contains(text, "resourceCountName"):
			c.takeHAMiNames(text)
		case strings.Contains(text, "version:") || strings.Contains(text, `"version"`):
			object := "ConfigMap " + o.Metadata.Namespace + "/" + o.Metadata.Name
			c.takePlugin(key, text, &pluginConfig{object: object, source: file + ": data." + key, replicas: 1,
				mechanism: sharing.MechanismExclusive})
		}
	}
}

// takePlugin keeps a text that is a configuration of the device plugin.
func (c *Collector) takePlugin(key, text string, p *pluginConfig) {
	type block struct {
		Resources []struct {
			Name     string `yaml:"name"`
			Replicas int    `yaml:"replicas"`
		} `yaml:"resources"`
	}
	var config struct {
		Version string `yaml:"version"`
		Flags   *struct {
			Strategy string `yaml:"migStrategy"`
		} `yaml:"flags"`
		Sharing *struct {
			TimeSlicing *block `yaml:"timeSlicing"`
			MPS         *block `yaml:"mps"`
		} `yaml:"sharing"`
	}
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || doc.Decode(&config) != nil || config.Version != "v1" ||
		config.Sharing == nil && config.Flags == nil {
		return
	}
	c.plugins[key] = append(c.plugins[key], p)
	c.checkKeys(p, &doc, "", names().Plugin)
	if config.Sharing == nil {
		return
	}
	of, mechanism, at := config.Sharing.TimeSlicing, sharing.MechanismTimeSlicing, "sharing.timeSlicing"
	if mps := config.Sharing.MPS; mps != nil {
		if of != nil {
			c.find("config-ignored/both", p.object, p.source, at)
		}
		of, mechanism, at = mps, sharing.MechanismMPS, "sharing.mps"
		if config.Flags != nil && config.Flags.Strategy == "mixed" {
			c.refuse(p, "flags.migStrategy", "MPS does not go together with the mixed MIG strategy")
		}
	}
	for i, r := range cmp.Or(of, &block{}).Resources {
		entry := fmt.Sprintf("%s.resources[%d]", at, i)
		if r.Replicas < 2 {
			c.refuse(p, entry+".replicas", "must be 2 or more, not %d", r.Replicas)
		}
		if r.Name != resourceGPU && (mechanism == sharing.MechanismMPS || !strings.HasPrefix(r.Name, migPrefix)) {
			c.refuse(p, entry+".name", "%.60q is not shared by %v", r.Name, mechanism)
		}
		if r.Name == resourceGPU && r.Replicas > 1 {
			p.mechanism, p.replicas = mechanism, r.Replicas
		}
	}
}

// checkKeys reports the keys of a configuration that the plugin ignores silently: those that a tree of its keys lacks,
// or has with a remedy.
func (c *Collector) checkKeys(p *pluginConfig, n *yaml.Node, path string, known any) {
	if n.Kind != yaml.MappingNode {
		for i, item := range n.Content {
			at := path
			if n.Kind == yaml.SequenceNode {
				at = fmt.Sprintf("%s[%d]", path, i)
			}
			c.checkKeys(p, item, at, known)
		}
		return
	}
	keys, _ := known.(map[string]any)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		at := strings.TrimPrefix(path+"."+name, ".")
		below, acts := keys[name]
		remedy, ignored := below.(string)
		if acts && !ignored {
			c.checkKeys(p, n.Content[i+1], at, below)
			continue
		}
		c.find("config-ignored/key", p.object, p.source, at, cmp.Or(remedy, "it knows no such key"))
	}
}

func (c *Collector) refuse(p *pluginConfig, path, format string, args ...any) {
	p.refused = true
	c.find("config-refused", p.object, p.source, path, fmt.Sprintf(format, args...))
}

func (c *Collector) takeHAMiNames(text string) {
	var config struct {
		NVIDIA map[string]any `yaml:"nvidia"`
	}
	_ = yaml.Unmarshal([]byte(text), &config) // another text has no such keys
	for key, r := range map[string]role{"resourceCountName": roleCount, "resourceMemoryName": roleMemory,
		"resourceMemoryPercentageName": rolePercent, "resourceCoreName": roleCores} {
		if name, _ := config.NVIDIA[key].(string); name != "" && useOf(name).role == roleUnknown {
			c.hamiNames[name] = r
		}
	}
}

// sharingOf is the configuration with replicas that a node's label selects, for a node without a label of their number.
// It is used only where all configurations of that name and the node's resources agree with it.
func (b *build) sharingOf(n *node, resource string) *pluginConfig {
	all := b.c.plugins[n.label(labelPlugin)]
	offered, boards := n.offers[resource], count(n.label("nvidia.com/gpu.count"))
	for _, p := range all {
		if p.mechanism != all[0].mechanism || p.replicas != all[0].replicas || p.replicas > mostReplicas ||
			offered%p.replicas != 0 || boards > 0 && boards*p.replicas != offered {
			return nil
		}
	}
	if len(all) == 0 || all[0].replicas < 2 {
		return nil
	}
	return all[0]
}

// checkEffect compares the configuration that a node's label selects with the node's whole GPUs.
func (b *build) checkEffect(n *node) {
	key := n.label(labelPlugin)
	if key == "" || len(b.c.plugins) == 0 {
		return
	}
	all := b.c.plugins[key]
	if len(all) == 0 {
		n.find("config-missing", "label "+labelPlugin, labelPlugin, key)
		return
	}
	has, m := n.replicas, n.mechanism
	if n.single != "" && len(n.inside) > 0 {
		has, m = n.inside[0].Pods, plain(n.inside[0].Mechanism)
	}
	for _, p := range all {
		if p.refused || n.offered == 0 || p.replicas == has && (has == 1 || p.mechanism == m) {
			return
		}
	}
	by := func(k int, m sharing.Mechanism) string {
		if k < 2 {
			return "1, whole"
		}
		return fmt.Sprintf("%d, by %v", k, m)
	}
	n.find("config-not-in-effect", all[0].source, labelPlugin, key, all[0].object, resourceGPU,
		by(all[0].replicas, all[0].mechanism), by(has, m))
}
