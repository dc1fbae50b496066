// SPDX-License-Identifier: Apache-2.0

package parted

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

const configMapKey = "config.yaml" // the key of the configuration in the MIG manager's ConfigMap

// NamedConfig is a configuration and its source in a file.
type NamedConfig struct {
	Source string // "namespace/name" or "name" of the ConfigMap; empty for a plain configuration file
	Config *Config
}

// ParseFile reads a mig-parted configuration or Kubernetes manifests. In manifests every ConfigMap with the key
// config.yaml is read, and everything else is skipped. The error names every problem; a file of manifests without such
// a ConfigMap is an error.
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
