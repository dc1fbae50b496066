// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

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
	if of == nil {
		return
	}
	for i, r := range of.Resources {
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

// declaredReplicas are the replicas of the configuration that a node's label selects, for a node without a label of
// their number. They are used only where all configurations of that name and the node's resources agree with them.
func (b *build) declaredReplicas(n *node, resource string) (sharing.Mechanism, int, Provenance) {
	all := b.c.plugins[n.label(labelPlugin)]
	offered, boards := n.offers[resource], count(n.label("nvidia.com/gpu.count"))
	for _, p := range all {
		if p.mechanism != all[0].mechanism || p.replicas != all[0].replicas || p.replicas > mostReplicas ||
			offered%p.replicas != 0 || boards > 0 && boards*p.replicas != offered {
			all = nil
		}
	}
	if len(all) == 0 {
		return sharing.MechanismExclusive, 1, Provenance{}
	}
	return all[0].mechanism, all[0].replicas,
		declared("%s (%s), selected by label %s", all[0].object, all[0].source, labelPlugin)
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
