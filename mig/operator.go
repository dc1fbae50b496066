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
	if !slices.ContainsFunc(docs, func(n *yaml.Node) bool { return read(n).Kind != "" && read(n).APIVersion != "" }) {
		c, err := ParsePartedConfig(data)
		if err != nil {
			return nil, err
		}
		return []NamedConfig{{Config: c}}, nil
	}
	var out []NamedConfig
	var list problems
	for len(docs) > 0 {
		m := read(docs[0])
		docs = docs[1:]
		if strings.HasSuffix(m.Kind, "List") {
			docs = append(slices.Clone(m.Items.Content), docs...)
			continue
		}
		text, ok := m.Data[configMapKey]
		if m.Kind != "ConfigMap" || !ok {
			continue
		}
		source := m.Metadata.Name
		if ns := m.Metadata.Namespace; ns != "" {
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

// manifest is what ParsePartedFile looks at of a Kubernetes object.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name, Namespace string }
	Data       map[string]yaml.Node
	Items      yaml.Node
}

// read reads a manifest as far as it is one: what has another form than a Kubernetes object has it is left out.
func read(n *yaml.Node) (m manifest) {
	_ = n.Decode(&m)
	return m
}
