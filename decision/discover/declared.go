package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/mig"
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

// declaredReplicas are the replicas of the configuration that a node's label selects, for a node whose labels do
// not say how many it has. They are used only where the node's resources show them.
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

// checkSharing compares how a node's GPUs are shared with what the configuration that its label selects says.
func (b *build) checkSharing(n *node) {
	key := n.label(labelPlugin)
	if key == "" || len(b.c.plugins) == 0 {
		return
	}
	object, label := "node "+n.name, "label "+labelPlugin
	if len(b.c.plugins[key]) == 0 {
		b.find("config-missing", sharing.SeverityMedium, object, label,
			"%s selects %.60q, and no ConfigMap that was read has a configuration of that name (there are %s)",
			label, key, strings.Join(slices.Sorted(maps.Keys(b.c.plugins)), ", "))
		return
	}
	p := b.pluginConfig(n)
	if p == nil {
		b.find("config-ambiguous", sharing.SeverityLow, object, label,
			"%s selects %.60q, which several ConfigMaps have and say different things under; none is used", label, key)
		return
	}
	mechanism, replicas := p.shares()
	if n.whole == 0 && n.single == "" {
		return // MIG instances alone: their replicas stand under other names
	}
	if mechanism != n.mechanism || replicas != n.replicas {
		b.find("config-not-in-force", sharing.SeverityMedium, object, p.source,
			"%s selects %.60q of %s: %s; the node offers %s: the plugin has not taken it over",
			label, key, p.object, sharedText(mechanism, replicas), sharedText(n.mechanism, n.replicas))
	}
}

func sharedText(m sharing.Mechanism, replicas int) string {
	if m == sharing.MechanismExclusive {
		return "each GPU whole"
	}
	return fmt.Sprintf("each GPU by %v to %d", m, replicas)
}

// checkLayout compares a node's MIG instances with the layout that its label asks mig-parted for.
func (b *build) checkLayout(n *node) {
	key, state := n.label(labelMIG), n.label("nvidia.com/mig.config.state")
	if key == "" || len(b.c.parted) == 0 || state == "failed" {
		return
	}
	object, label := "node "+n.name, "label "+labelMIG
	var of []*partedConfig
	names := map[string]bool{}
	for _, p := range b.c.parted {
		for name := range p.Configs {
			names[name] = true
		}
		if p.Configs[key] != nil {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		b.find("config-missing", sharing.SeverityMedium, object, label,
			"%s asks for %.60q, which none of the mig-parted configurations that were read has (they have %s)",
			label, key, plaintext.Some(slices.Sorted(maps.Keys(names)), mostNames, len(names)))
		return
	}
	model := n.model()
	if model == nil {
		return
	}
	var p *partedConfig
	want, has := "", layoutText(modelNames(model, n.instances))
	for _, each := range of {
		layouts, err := wanted(each.PartedConfig, key, model, n.gpus)
		if err != nil && n.gpusFrom.Basis == BasisDeclared {
			b.find("mig-config-impossible", sharing.SeverityHigh, object, each.source,
				"%s asks for %.60q of %s, which its %s cannot have: %s", label, key, each.object, plaintext.Count(n.gpus, "GPU"),
				firstLine(err.Error()))
		}
		if slices.ContainsFunc(layouts, func(m map[string]int) bool { return layoutText(m) == has }) {
			return // one of them is in force
		}
		if len(layouts) > 0 && p == nil {
			p, want = each, layoutText(layouts[0])
		}
	}
	if p == nil {
		return
	}
	for _, f := range mig.CheckParted(p.PartedConfig, model) {
		if f.Label == key && f.Feasible == sharing.AnswerNo {
			b.find("mig-config-impossible", sharing.SeverityHigh, object, p.source,
				"%s asks for %.60q of %s, which a %s cannot have: %s", label, key, p.object, model.Key, f.Reason)
			return
		}
	}
	why, none := "it was not applied", "no MIG instances"
	switch {
	case state == "pending" || state == "rebooting":
		why = "the MIG manager is at it (label nvidia.com/mig.config.state=" + state + ")"
	case has == "" && n.label("nvidia.com/mig.strategy") == "none":
		why = "label nvidia.com/mig.strategy=none keeps MIG instances from being offered"
	case state == "success":
		why = "the MIG manager calls it done: something has changed the instances since, or the configuration"
	}
	b.find("config-not-in-force", sharing.SeverityMedium, object, p.source,
		"%s asks for %.60q of %s: %s; the node offers %s: %s",
		label, key, p.object, cmp.Or(want, none), cmp.Or(has, none), why)
}

const mostNames = 8 // bound of the names of a list that is written out

// wanted are the instances that a label of mig-parted makes of a node's GPUs, one answer for each PCI identity that
// the model may have and an entry selects. The error is about GPUs that the node does not have.
func wanted(c *mig.PartedConfig, label string, model *mig.Model, gpus int) (out []map[string]int, err error) {
	for _, id := range identities(model) {
		var node []mig.NodeGPU
		for i := range gpus {
			node = append(node, mig.NodeGPU{Index: i, Identity: id, MIGCapable: true})
		}
		assigned, err := c.Resolve(label, node)
		if err != nil {
			return nil, err
		}
		total, selected := map[string]int{}, false
		for _, a := range assigned {
			if a.Entry < 0 {
				continue
			}
			selected = true
			for profile, n := range c.Configs[label][a.Entry].MIGDevices {
				total[profile] += n
			}
		}
		if selected {
			out = append(out, modelNames(model, total))
		}
	}
	return out, nil
}

// modelNames are instances by the names that the catalogue has for their profiles.
func modelNames(model *mig.Model, instances map[string]int) map[string]int {
	out := map[string]int{}
	for name, n := range instances {
		if p, err := model.Profile(name); err == nil {
			name = p.Name
		}
		out[name] += n
	}
	return out
}

// identities are the PCI identities of a model, with each subsystem.
func identities(model *mig.Model) []mig.DeviceFilter {
	var out []mig.DeviceFilter
	for _, p := range model.PCI {
		for _, sub := range append([]string{""}, p.Subsystems...) {
			text := p.Device + "10DE"
			if sub != "" {
				text += ":" + sub + "10DE"
			}
			if f, err := mig.ParseDeviceFilter(text); err == nil {
				out = append(out, f)
			}
		}
	}
	return out
}

func layoutText(instances map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(instances)) {
		if instances[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d x %s", instances[k], k))
		}
	}
	return strings.Join(parts, ", ")
}

// pluginConfig is a configuration of the device plugin, as a ConfigMap has it.
type pluginConfig struct {
	object, source string
	Version        string `yaml:"version"`
	Flags          struct {
		MIGStrategy string `yaml:"migStrategy"`
	} `yaml:"flags"`
	Sharing struct {
		TimeSlicing *sharingBlock `yaml:"timeSlicing"`
		MPS         *sharingBlock `yaml:"mps"`
	} `yaml:"sharing"`
}

// partedConfig is a configuration of mig-parted, as a ConfigMap has it.
type partedConfig struct {
	object, source string
	*mig.PartedConfig
}

// takeConfigMap looks for configurations of the device plugin and of mig-parted:
// what they say of a node is compared with what it has, see [build.checkSharing].
func (c *Collector) takeConfigMap(file string, o *configMapObject) {
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		text := o.Data[key]
		object, source := "ConfigMap "+o.Metadata.Namespace+"/"+o.Metadata.Name, file+": data."+key
		switch {
		case len(text) > 1<<20:
		case strings.Contains(text, "mig-configs"):
			parted, err := mig.ParsePartedConfig([]byte(text))
			if err != nil {
				c.find("config-unreadable", sharing.SeverityMedium, object, source,
					"it is no configuration that mig-parted reads: %s", strings.TrimPrefix(firstLine(err.Error()), "mig: "))
				continue
			}
			c.parted = append(c.parted, &partedConfig{object, source, parted})
		case strings.Contains(text, "version:") || strings.Contains(text, `"version"`):
			p := &pluginConfig{object: object, source: source}
			if yaml.Unmarshal([]byte(text), p) != nil || p.Version != "v1" || !strings.Contains(text, "sharing") &&
				!strings.Contains(text, "flags") {
				continue
			}
			c.checkPlugin(p)
			c.plugins[key] = append(c.plugins[key], p)
		}
	}
}

// checkPlugin looks for what a configuration says against itself.
func (c *Collector) checkPlugin(p *pluginConfig) {
	s := p.Sharing
	if s.TimeSlicing != nil && s.MPS != nil {
		c.find("time-slicing-and-mps", sharing.SeverityHigh, p.object, p.source,
			"sharing has timeSlicing and mps: the device plugin takes mps alone")
	}
	if s.MPS != nil && (p.Flags.MIGStrategy == "mixed" || s.MPS.has(migPrefix)) {
		c.find("mps-and-mig", sharing.SeverityHigh, p.object, p.source,
			"MPS and MIG together: the device plugin refuses MPS on MIG devices")
	}
	for _, block := range []*sharingBlock{s.TimeSlicing, s.MPS} {
		if block == nil {
			continue
		}
		for _, r := range block.Resources {
			if r.Replicas < 2 {
				c.find("replicas-without-sharing", sharing.SeverityMedium, p.object, p.source,
					"%s has %d replica(s): nothing is shared", r.Name, r.Replicas)
			}
		}
	}
}

// shares returns a configuration's mechanism for whole GPUs and their replicas.
func (p *pluginConfig) shares() (sharing.Mechanism, int) {
	mechanism, block := sharing.MechanismTimeSlicing, p.Sharing.TimeSlicing
	if p.Sharing.MPS != nil {
		mechanism, block = sharing.MechanismMPS, p.Sharing.MPS
	}
	if block != nil {
		for _, r := range block.Resources {
			if r.Name == resourceGPU && r.Replicas > 1 {
				return mechanism, r.Replicas
			}
		}
	}
	return sharing.MechanismExclusive, 1
}

type sharingBlock struct {
	Resources []sharedResource `yaml:"resources"`
}

type sharedResource struct {
	Name     string `yaml:"name"`
	Replicas int    `yaml:"replicas"`
}

func (b *sharingBlock) has(prefix string) bool {
	return slices.ContainsFunc(b.Resources, func(r sharedResource) bool { return strings.HasPrefix(r.Name, prefix) })
}
