// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

// Labels that select a node's configurations: NVIDIA/k8s-device-plugin, README.md, "Updating Per-Node Configuration
// With a Node Label", and NVIDIA/mig-parted, deployments/gpu-operator.
const (
	labelPlugin = "nvidia.com/device-plugin.config"
	labelMIG    = "nvidia.com/mig.config"
)

// pluginConfig is the sharing of whole GPUs by a configuration of the device plugin, as a ConfigMap has it.
type pluginConfig struct {
	object, source string
	mechanism      sharing.Mechanism
	replicas       int
	refused        bool // the plugin does not start with it
}

// declaredReplicas are the replicas of the configuration that a node's label selects, for a node without a label of
// their number. They are used only where all configurations of that name and the node's resources agree with them.
func (b *build) declaredReplicas(n *node, resource string) (sharing.Mechanism, int, fact) {
	all := b.c.plugins[n.label(labelPlugin)]
	offered, boards := n.capacity(resource), count(n.label("nvidia.com/gpu.count"))
	for _, p := range all {
		if p.mechanism != all[0].mechanism || p.replicas != all[0].replicas || p.replicas > mostReplicas ||
			offered%p.replicas != 0 || boards > 0 && boards*p.replicas != offered {
			all = nil
		}
	}
	if len(all) == 0 {
		return sharing.MechanismExclusive, 1, fact{}
	}
	return all[0].mechanism, all[0].replicas,
		declared("%s (%s), selected by label %s", all[0].object, all[0].source, labelPlugin)
}

const mostNames = 8 // bound of the names of a list that is written out

// takeConfigMap keeps configurations of the device plugin, and the names of resources in HAMi's configuration.
func (c *Collector) takeConfigMap(file string, o *configMapObject) {
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
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
	c.checkKeys(p, &doc, "", "")
	if config.Sharing == nil {
		return
	}
	of, mechanism, at := config.Sharing.TimeSlicing, sharing.MechanismTimeSlicing, "sharing.timeSlicing"
	if mps := config.Sharing.MPS; mps != nil {
		if of != nil {
			c.find("config-ignored", sharing.SeverityMedium, p.object, p.source, "%s: MPS wins where both are present", at)
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

// takeHAMiNames reads the names of resources from HAMi's configuration.
func (c *Collector) takeHAMiNames(text string) {
	var config struct {
		NVIDIA struct {
			Count   string `yaml:"resourceCountName"`
			Memory  string `yaml:"resourceMemoryName"`
			Percent string `yaml:"resourceMemoryPercentageName"`
			Cores   string `yaml:"resourceCoreName"`
		} `yaml:"nvidia"`
	}
	if yaml.Unmarshal([]byte(text), &config) != nil {
		return
	}
	n := config.NVIDIA
	for i, name := range []string{n.Count, n.Memory, n.Percent, n.Cores} {
		if name != "" && useOf(name).role == roleUnknown {
			c.hamiNames[name] = [...]role{roleCount, roleMemory, rolePercent, roleCores}[i]
		}
	}
}
