package mig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
)

// LabelConfigState is the node label in which the GPU Operator's MIG manager says
// how far it is: pending, rebooting, success or failed.
const LabelConfigState = resourceDomain + "mig.config.state"

const configMapKey = "config.yaml" // the key of the configuration in the MIG manager's ConfigMap

// ConfigMap writes the configuration as the ConfigMap that the GPU Operator's
// migManager.config.name names. namespace may be empty.
func (c PartedConfig) ConfigMap(name, namespace string) ([]byte, error) {
	text, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	var list problems
	list.If(len(name) > 253 || !objectForm.MatchString(name), "name", "use lower-case letters, digits, - and .",
		"%q can't name a ConfigMap", problem.Clip(name))
	list.If(namespace != "" && (len(namespace) > 63 || !namespaceForm.MatchString(namespace)), "namespace",
		"use lower-case letters, digits and -", "%q can't name a namespace", problem.Clip(namespace))
	if err := list.err(); err != nil {
		return nil, err
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

// NamedConfig is a configuration and where it stands in a file.
type NamedConfig struct {
	Source string // "namespace/name" or "name" of the ConfigMap; empty for a plain configuration file
	Config *PartedConfig
}

// ParsePartedFile reads a mig-parted configuration or Kubernetes manifests. In manifests every ConfigMap with the
// key config.yaml is read, and everything else is skipped. The error names every problem; a file of manifests
// without such a ConfigMap is one.
func ParsePartedFile(data []byte) ([]NamedConfig, error) {
	docs, err := strictyaml.Parse(data, strictyaml.Options{})
	if err != nil {
		return nil, invalid(err)
	}
	manifests := slices.ContainsFunc(docs, func(n *yaml.Node) bool {
		return scalar(n, "kind") != "" && scalar(n, "apiVersion") != ""
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
		text := child(child(n, "data"), configMapKey)
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
			list.add(fmt.Sprintf("ConfigMap %s: %s", source, configMapKey), err)
			continue
		}
		out = append(out, NamedConfig{Source: source, Config: c})
	}
	list.If(len(out) == 0 && list.Len() == 0, "", "name a mig-parted file, or manifests with such a ConfigMap",
		"no ConfigMap has the key %s",
		configMapKey)
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
