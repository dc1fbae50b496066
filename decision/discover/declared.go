// SPDX-License-Identifier: Apache-2.0

package discover

import (
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
			c.takePlugin(key, text, &pluginConfig{object, file + ": data." + key, sharing.MechanismExclusive, 1})
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
		Version string         `yaml:"version"`
		Flags   map[string]any `yaml:"flags"`
		Sharing *struct {
			TimeSlicing block  `yaml:"timeSlicing"`
			MPS         *block `yaml:"mps"`
		} `yaml:"sharing"`
	}
	if yaml.Unmarshal([]byte(text), &config) != nil || config.Version != "v1" ||
		config.Sharing == nil && config.Flags == nil {
		return
	}
	c.plugins[key] = append(c.plugins[key], p)
	if config.Sharing == nil {
		return
	}
	of, mechanism := config.Sharing.TimeSlicing, sharing.MechanismTimeSlicing
	if config.Sharing.MPS != nil {
		of, mechanism = *config.Sharing.MPS, sharing.MechanismMPS
	}
	for _, r := range of.Resources {
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
