// SPDX-License-Identifier: Apache-2.0

package parted

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
)

const configMapKey = "config.yaml" // the key of the configuration in the MIG manager's ConfigMap

// ConfigMap writes the configuration as the ConfigMap that the GPU Operator's
// migManager.config.name names. namespace may be empty.
func (c Config) ConfigMap(name, namespace string) ([]byte, error) {
	text, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	var list problem.List
	list.If(len(name) > 253 || !objectForm.MatchString(name), "name", "use lower-case letters, digits, - and .",
		"%q can't name a ConfigMap", problem.Clip(name))
	list.If(namespace != "" && (len(namespace) > 63 || !namespaceForm.MatchString(namespace)), "namespace",
		"use lower-case letters, digits and -", "%q can't name a namespace", problem.Clip(namespace))
	if err := list.Err(); err != nil {
		return nil, invalid(err)
	}
	var ns *yaml.Node
	if namespace != "" {
		ns = yamlnode.Quoted(namespace)
	}
	return yamlnode.Encode(nil, yamlnode.ConfigMap(yamlnode.Quoted(name), ns,
		map[string]string{configMapKey: string(text)}))
}

const dnsLabel = `[a-z0-9](?:[a-z0-9-]*[a-z0-9])?`

var (
	namespaceForm = regexp.MustCompile(`^` + dnsLabel + `$`)
	objectForm    = regexp.MustCompile(`^` + dnsLabel + `(?:\.` + dnsLabel + `)*$`)
)

// NamedConfig is a configuration and its position in a file.
type NamedConfig struct {
	Source string // "namespace/name" or "name" of the ConfigMap; empty for a plain configuration file
	Config *Config
}

// ParseFile reads a mig-parted configuration or Kubernetes manifests. In manifests every ConfigMap with the
// key config.yaml is read, and everything else is skipped. The error names every problem; a file of manifests
// without such a ConfigMap is one.
func ParseFile(data []byte) ([]NamedConfig, error) {
	docs, err := strictyaml.Parse(data, strictyaml.Options{})
	if err != nil {
		return nil, invalid(err)
	}
	if !slices.ContainsFunc(docs, func(n *yaml.Node) bool {
		m := fields(*n)
		return m["kind"].Value != "" && m["apiVersion"].Value != ""
	}) {
		c, err := Parse(data)
		if err != nil {
			return nil, err
		}
		return []NamedConfig{{Config: c}}, nil
	}
	var out []NamedConfig
	var list problem.List
	for len(docs) > 0 {
		m := fields(*docs[0])
		docs = docs[1:]
		if items := m["items"]; items.Kind == yaml.SequenceNode && strings.HasSuffix(m["kind"].Value, "List") {
			docs = append(slices.Clone(items.Content), docs...)
			continue
		}
		text, ok := fields(m["data"])[configMapKey]
		if m["kind"].Value != "ConfigMap" || !ok {
			continue
		}
		meta := fields(m["metadata"])
		source := meta["name"].Value
		if ns := meta["namespace"].Value; ns != "" {
			source = ns + "/" + source
		}
		c, err := Parse([]byte(text.Value))
		if err != nil {
			list.AddErr(fmt.Sprintf("ConfigMap %s: %s", source, configMapKey), errors.Unwrap(err))
			continue
		}
		out = append(out, NamedConfig{Source: source, Config: c})
	}
	list.If(len(out) == 0 && list.Len() == 0, "", "name a mig-parted file, or manifests with such a ConfigMap",
		"no ConfigMap has the key %s",
		configMapKey)
	if err := list.Err(); err != nil {
		return nil, invalid(err)
	}
	return out, nil
}

// fields returns the values of a mapping by their keys; it has none of anything else. The library's decoder would
// compare all keys with one another.
func fields(n yaml.Node) map[string]yaml.Node {
	out := map[string]yaml.Node{}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		out[n.Content[i].Value] = *n.Content[i+1]
	}
	return out
}

// Generate returns a mig-parted configuration for nodes with these GPUs: all-disabled, all-enabled, all-balanced where
// there is such a mix, and for each profile all-<profile> with as many as fit. With more than one model every entry has
// the device filters of its model, all of them. Models with unknown profiles are refused.
func Generate(models ...*mig.Model) (*Config, error) {
	c := &Config{Configs: map[string][]Entry{
		"all-disabled": {{Devices: DeviceSelector{All: true}}},
		"all-enabled":  {{Devices: DeviceSelector{All: true}, MIGEnabled: true, MIGDevices: map[string]int{}}},
	}}
	var list problem.List
	list.If(len(models) == 0, "models", "name at least one GPU", "is empty")
	for i, m := range models {
		if m == nil || len(m.Profiles) == 0 {
			list.Addf(fmt.Sprintf("models[%d]", i), "ask the device", "the catalogue has no profiles of %s", m)
			continue
		}
		if slices.Contains(models[:i], m) {
			list.Addf(fmt.Sprintf("models[%d]", i), "name it once", "%s stands there twice", m.Key)
			continue
		}
		var filter []mig.DeviceFilter
		if len(models) > 1 {
			filter = m.DeviceFilters()
		}
		add := func(label string, devices map[string]int) {
			c.Configs[label] = append(c.Configs[label], Entry{Filter: filter, Devices: DeviceSelector{All: true},
				MIGEnabled: true, MIGDevices: devices})
		}
		if counts, err := m.Balanced(); err == nil {
			devices := map[string]int{}
			for _, n := range counts {
				devices[n.Profile] = n.N
			}
			add("all-balanced", devices)
		}
		for _, p := range m.Profiles {
			if p.MaxInstances > 0 {
				add("all-"+labelPart(p.Name), map[string]int{p.Name: p.MaxInstances})
			}
		}
	}
	if err := list.Err(); err != nil {
		return nil, invalid(err)
	}
	return c, nil
}

// labelPart is a profile's name as mig-parted's own labels write it.
func labelPart(name string) string { return strings.ReplaceAll(name, "+", ".") }

func invalid(err error) error { return problem.Input("mig: ", mig.ErrInvalid, err) }
