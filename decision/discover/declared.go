// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// Labels that select a node's configurations: NVIDIA/k8s-device-plugin, README.md, "Updating Per-Node Configuration
// With a Node Label", and NVIDIA/mig-parted, deployments/gpu-operator.
const (
	labelPlugin = "nvidia.com/device-plugin.config"
	labelMIG    = "nvidia.com/mig.config"
)

// pluginConfig is the device plugin's configuration that a node's label selects, nil where it selects none of those
// that were read or several that differ.
func (b *build) pluginConfig(n *node) *pluginConfig {
	var out *pluginConfig
	for _, p := range b.c.plugins[n.label(labelPlugin)] {
		if out == nil {
			out = p
			continue
		}
		m1, r1 := out.shares()
		if m2, r2 := p.shares(); m1 != m2 || r1 != r2 {
			return nil
		}
	}
	return out
}

// declaredReplicas are the replicas of the configuration that a node's label selects, for a node without a label of
// their number. They are used only where the node's resources agree with them.
func (b *build) declaredReplicas(n *node, resource string) (sharing.Mechanism, int, fact) {
	p := b.pluginConfig(n)
	if p == nil {
		return sharing.MechanismExclusive, 1, fact{}
	}
	mechanism, replicas := p.shares()
	offered, boards := n.capacity(resource), count(n.label("nvidia.com/gpu.count"))
	if replicas > mostReplicas || offered%replicas != 0 || boards > 0 && boards*replicas != offered {
		return sharing.MechanismExclusive, 1, fact{}
	}
	return mechanism, replicas, declared("%s (%s), selected by label %s", p.object, p.source, labelPlugin)
}

// checkLayout looks for a layout that a node's label asks mig-parted for and its GPU cannot have.
func (b *build) checkLayout(n *node) {
	key, model := n.label(labelMIG), n.model()
	if model == nil {
		return
	}
	for _, p := range b.c.parted {
		for _, f := range parted.Check(p.Config, model) {
			if f.Label == key && f.Feasible == sharing.AnswerNo {
				b.find("mig-config-impossible", sharing.SeverityHigh, "node "+n.name, p.source,
					"label %s asks for %.60q of %s, which a %s cannot have: %s", labelMIG, key, p.object, model.Key, f.Reason)
				return
			}
		}
	}
}

const mostNames = 8 // bound of the names of a list that is written out

// pluginConfig is a configuration of the device plugin, as a ConfigMap has it.
type pluginConfig struct {
	object, source string
	refused        bool   // the plugin does not start with it
	Version        string `yaml:"version"`
	Sharing        struct {
		TimeSlicing *sharingBlock `yaml:"timeSlicing"`
		MPS         *sharingBlock `yaml:"mps"`
	} `yaml:"sharing"`
}

// partedConfig is a configuration of mig-parted, as a ConfigMap has it.
type partedConfig struct {
	object, source string
	*parted.Config
}

// takeConfigMap keeps configurations of the device plugin and of mig-parted, which checkEffect and checkLayout compare
// with the nodes.
func (c *Collector) takeConfigMap(file string, o *configMapObject) {
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		text := o.Data[key]
		object, source := "ConfigMap "+o.Metadata.Namespace+"/"+o.Metadata.Name, file+": data."+key
		switch {
		case len(text) > 1<<20:
		case strings.Contains(text, "mig-configs"):
			config, err := parted.Parse([]byte(text))
			if err != nil {
				c.find("config-unreadable", sharing.SeverityMedium, object, source,
					"it is no configuration that mig-parted reads: %s", strings.TrimPrefix(firstLine(err.Error()), "mig: "))
				continue
			}
			c.parted = append(c.parted, &partedConfig{object, source, config})
		case strings.Contains(text, "resourceCountName"):
			c.takeHAMiNames(text)
		case strings.Contains(text, "version:") || strings.Contains(text, `"version"`):
			p := &pluginConfig{object: object, source: source}
			if yaml.Unmarshal([]byte(text), p) != nil || p.Version != "v1" || !strings.Contains(text, "sharing") &&
				!strings.Contains(text, "flags") {
				continue
			}
			c.checkPlugin(p, text)
			c.plugins[key] = append(c.plugins[key], p)
		}
	}
}

// ignored returns warnings about settings of a configuration that the plugin ignores.
var ignored = []sharing.WarningCode{sharing.WarnFlagIgnored, sharing.WarnResourcesIgnored, sharing.WarnRenameIgnored,
	sharing.WarnDevicesIgnored, sharing.WarnMIGStrategyConflict,
	sharing.WarnTimeSlicingIgnored}

// checkPlugin reports a configuration that the plugin refuses, or of which it ignores a part silently.
func (c *Collector) checkPlugin(p *pluginConfig, text string) {
	warnings, err := manifest.CheckPluginConfig([]byte(text))
	for _, w := range warnings {
		if slices.Contains(ignored, w.Code) {
			c.find("config-ignored", sharing.SeverityMedium, p.object, p.source, "%s: %s (%s)", w.Path, w.Message, w.Remedy)
		}
	}
	var l problem.List
	l.AddErr("", err)
	for _, w := range l.Problems() {
		switch {
		case w.Message == manifest.ErrInvalid.Error():
		case w.Message == "unknown key":
			c.find("config-ignored", sharing.SeverityMedium, p.object, p.source,
				"%s: the plugin knows no such key and ignores it silently (%s)", w.Path, w.Remedy)
		default:
			p.refused = true
			c.find("config-refused", sharing.SeverityHigh, p.object, p.source,
				"%s: %s: the plugin does not start with it (%s)", w.Path, w.Message, w.Remedy)
		}
	}
}

// checkEffect compares the configuration that a node's label selects with the node's resources.
func (b *build) checkEffect(n *node) {
	key := n.label(labelPlugin)
	if key == "" || len(b.c.plugins) == 0 {
		return
	}
	object, source := "node "+n.name, "label "+labelPlugin
	if len(b.c.plugins[key]) == 0 {
		b.find("config-missing", sharing.SeverityMedium, object, source,
			"label %s selects %.60q, which no ConfigMap that was read has: the node has another configuration, or none",
			labelPlugin, key)
		return
	}
	p := b.pluginConfig(n)
	if p == nil || p.refused {
		return
	}
	block, mechanism := p.block()
	want := map[string]int{}
	if block != nil {
		for _, r := range block.Resources {
			want[r.Name] = r.Replicas
		}
	}
	differs := func(resource string, has int, m sharing.Mechanism) {
		wants := max(1, want[resource])
		if wants == has && (wants == 1 || m == mechanism) {
			return
		}
		by := func(k int, m sharing.Mechanism) string {
			if k < 2 {
				return "1, whole"
			}
			return fmt.Sprintf("%d, by %s", k, m)
		}
		b.find("config-not-in-effect", sharing.SeverityMedium, object, p.source,
			"label %s selects %q of %s, in which %s has replicas: %s; the node offers %s: the configuration is not in effect",
			labelPlugin, key, p.object, resource, by(wants, mechanism), by(has, m))
	}
	switch {
	case n.single != "" && len(n.inside) > 0:
		differs(resourceGPU, n.inside[0].Pods, plain(n.inside[0].Mechanism))
	case n.offered > 0:
		differs(resourceGPU, n.replicas, n.mechanism)
	}
	for _, profile := range sortedKeys(n.instances) {
		pods, m := 1, sharing.MechanismExclusive
		for _, in := range n.inside {
			if in.Profile == profile {
				pods, m = in.Pods, plain(in.Mechanism)
			}
		}
		if resource := migPrefix + strings.ReplaceAll(profile, "+", "."); n.single == "" && n.amount(resource) > 0 {
			differs(resource, pods, m)
		}
	}
}

// plain returns the mechanism by which the pods of one MIG instance share it.
func plain(m sharing.Mechanism) sharing.Mechanism {
	if m == sharing.MechanismMIGWithMPS {
		return sharing.MechanismMPS
	}
	return m
}

// block returns a configuration's sharing section and its mechanism.
func (p *pluginConfig) block() (*sharingBlock, sharing.Mechanism) {
	if p.Sharing.MPS != nil {
		return p.Sharing.MPS, sharing.MechanismMPS
	}
	return p.Sharing.TimeSlicing, sharing.MechanismTimeSlicing
}

// shares returns a configuration's mechanism for whole GPUs and their replicas.
func (p *pluginConfig) shares() (sharing.Mechanism, int) {
	if block, mechanism := p.block(); block != nil {
		for _, r := range block.Resources {
			if r.Name == resourceGPU && r.Replicas > 1 {
				return mechanism, r.Replicas
			}
		}
	}
	return sharing.MechanismExclusive, 1
}

type sharingBlock struct {
	Resources []replicated `yaml:"resources"`
}

type replicated struct {
	Name     string `yaml:"name"`
	Replicas int    `yaml:"replicas"`
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
