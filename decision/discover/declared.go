package discover

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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
	*parted.Config
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
			config, err := parted.Parse([]byte(text))
			if err != nil {
				c.find("config-unreadable", sharing.SeverityMedium, object, source,
					"it is no configuration that mig-parted reads: %s", strings.TrimPrefix(firstLine(err.Error()), "mig: "))
				continue
			}
			c.parted = append(c.parted, &partedConfig{object, source, config})
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
	for _, block := range []*sharingBlock{s.TimeSlicing, s.MPS} {
		if block == nil {
			continue
		}
		mig := block == s.MPS && p.Flags.MIGStrategy == "mixed"
		for _, r := range block.Resources {
			mig = mig || block == s.MPS && strings.HasPrefix(r.Name, migPrefix)
			if r.Replicas < 2 {
				c.find("replicas-without-sharing", sharing.SeverityMedium, p.object, p.source,
					"%s has %d replica(s): nothing is shared", r.Name, r.Replicas)
			}
		}
		if mig {
			c.find("mps-and-mig", sharing.SeverityHigh, p.object, p.source,
				"MPS and MIG together: the device plugin refuses MPS on MIG devices")
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
	Resources []struct {
		Name     string `yaml:"name"`
		Replicas int    `yaml:"replicas"`
	} `yaml:"resources"`
}
