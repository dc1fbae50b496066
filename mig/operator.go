package mig

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
)

// Strategy is the NVIDIA device plugin's way of offering MIG devices to Kubernetes.
// The zero value is StrategyNone.
type Strategy uint8

// The strategies.
const (
	StrategyNone   Strategy = iota // MIG devices are not offered
	StrategySingle                 // one uniform profile, offered as nvidia.com/gpu
	StrategyMixed                  // each profile as a resource of its own
)

var strategyNames = enum.Of[Strategy](ErrInvalid, "strategy", "none", "single", "mixed")

// Node labels of the GPU Operator's MIG manager.
const (
	LabelConfig      = resourceDomain + "mig.config"       // set it to a label of the configuration
	LabelConfigState = resourceDomain + "mig.config.state" // pending, rebooting, success, failed
	LabelStrategy    = resourceDomain + "mig.strategy"
	// ConfigMapKey is the key of the configuration in the MIG manager's
	// ConfigMap.
	ConfigMapKey = "config.yaml"
)

// NodeLabels returns the labels that make the GPU Operator bring a node to a
// label of the configuration. The strategy single needs one profile on all
// GPUs: a label with several is refused.
func (c *PartedConfig) NodeLabels(label string, s Strategy) (map[string]string, error) {
	entries, ok := c.Configs[label]
	if !ok {
		return nil, invalid(&problem.Problem{Path: "mig-configs",
			Message: fmt.Sprintf("has no label %q", problem.Clip(label)), Remedy: "labels: " + strings.Join(c.Labels(), ", ")})
	}
	if s == StrategySingle {
		names := map[string]bool{}
		for _, e := range entries {
			for name, n := range e.MIGDevices {
				if n > 0 {
					names[name] = true
				}
			}
		}
		if len(names) > 1 && !slices.ContainsFunc(entries, func(e PartedEntry) bool { return len(e.Filter) > 0 }) {
			return nil, invalid(&problem.Problem{Path: "mig-configs." + label,
				Message: "has several profiles, and the strategy single needs one", Remedy: "use the strategy mixed"})
		}
	}
	if _, err := s.MarshalText(); err != nil {
		return nil, err
	}
	return map[string]string{LabelConfig: label, LabelStrategy: s.String()}, nil
}

// ConfigMap writes the configuration as the ConfigMap that the GPU Operator's
// migManager.config.name names. namespace may be empty.
func (c PartedConfig) ConfigMap(name, namespace string) ([]byte, error) {
	text, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	var list problems
	if !validDNS(name, 253, true) {
		list.Addf("name", "use lower-case letters, digits, - and .", "%q can't name a ConfigMap", problem.Clip(name))
	}
	if namespace != "" && !validDNS(namespace, 63, false) {
		list.Addf("namespace", "use lower-case letters, digits and -", "%q can't name a namespace", problem.Clip(namespace))
	}
	if err := list.err(); err != nil {
		return nil, err
	}
	var ns *yaml.Node
	if namespace != "" {
		ns = yamlnode.Quoted(namespace)
	}
	return yamlnode.Encode(nil, yamlnode.ConfigMap(yamlnode.Quoted(name), ns,
		map[string]string{ConfigMapKey: string(text)}))
}

func validDNS(s string, limit int, dots bool) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' ||
			strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return dots || !strings.Contains(s, ".")
}

// NamedConfig is a configuration and where it stands in a file.
type NamedConfig struct {
	// Source is "namespace/name" or "name" of the ConfigMap; empty for a plain
	// configuration file.
	Source string
	Config *PartedConfig
}

// ParsePartedFile reads a mig-parted configuration or Kubernetes manifests. In
// manifests every ConfigMap with the key config.yaml is read, and everything
// else is skipped. The error names every problem; a file of manifests without
// such a ConfigMap is one.
func ParsePartedFile(data []byte) ([]NamedConfig, error) {
	docs, err := strictyaml.Parse(data, strictyaml.Options{})
	if err != nil {
		return nil, invalid(err)
	}
	manifests := slices.ContainsFunc(docs, func(n *yaml.Node) bool {
		return scalar(n, "kind") != "" &&
			scalar(n, "apiVersion") != ""
	})
	if !manifests {
		c, err := ParsePartedConfig(data)
		if err != nil {
			return nil, err
		}
		return []NamedConfig{{Config: c}}, nil
	}
	var out []NamedConfig
	var list problems
	for len(docs) > 0 {
		n := docs[0]
		docs = docs[1:]
		if items := child(n, "items"); items != nil && items.Kind == yaml.SequenceNode &&
			strings.HasSuffix(scalar(n, "kind"), "List") {
			docs = append(slices.Clone(items.Content), docs...)
			continue
		}
		text := child(child(n, "data"), ConfigMapKey)
		if scalar(n, "kind") != "ConfigMap" || text == nil {
			continue
		}
		meta := child(n, "metadata")
		source := scalar(meta, "name")
		if ns := scalar(meta, "namespace"); ns != "" {
			source = ns + "/" + source
		}
		c, err := ParsePartedConfig([]byte(text.Value))
		if err != nil {
			list.add(fmt.Sprintf("ConfigMap %s: %s", source, ConfigMapKey), err)
			continue
		}
		out = append(out, NamedConfig{Source: source, Config: c})
	}
	if len(out) == 0 && list.Len() == 0 {
		list.Addf("", "name a mig-parted file, or manifests with such a ConfigMap", "no ConfigMap has the key %s",
			ConfigMapKey)
	}
	if err := list.err(); err != nil {
		return nil, err
	}
	return out, nil
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil && c.Kind == yaml.ScalarNode {
		return c.Value
	}
	return ""
}
