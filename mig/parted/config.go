// SPDX-License-Identifier: Apache-2.0

// Package parted reads, checks and writes configurations of NVIDIA's mig-parted (version v1), which the GPU Operator's
// MIG manager reads: which GPUs of a node get which MIG devices. [Parse] reads one strictly, [ParseFile] also finds it
// in Kubernetes manifests, [Check] reports whether its entries can be placed, and [EntryOf] makes an entry of a layout.
// Errors about an input match mig.ErrInvalid.
// It is stable: its API changes incompatibly only with a new major version.
package parted

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
)

// Config is a configuration file of NVIDIA's mig-parted, version v1,
// which the GPU Operator's MIG manager reads: for each label a list of entries.
type Config struct {
	// Configs maps a label ("all-balanced") to its entries. mig-parted applies the entries in order to every GPU
	// they select, so that the last one that selects a GPU wins.
	Configs map[string][]Entry
}

// Entry is the partition of the GPUs that it selects.
type Entry struct {
	// Filter selects GPUs by PCI identity; empty selects every GPU.
	Filter []mig.DeviceFilter
	// Devices selects among them by index.
	Devices DeviceSelector
	// MIGEnabled switches MIG mode.
	MIGEnabled bool
	// Devices of MIG: profile name to number. Names may be those of compute instances. It is empty where MIG is
	// disabled, and may be empty where it is enabled.
	MIGDevices map[string]int
}

// DeviceSelector selects GPUs of a node by index. The zero value selects none.
type DeviceSelector struct {
	All     bool
	Indices []int
}

// counts returns the entry's devices ordered by profile name.
func (e Entry) counts() []mig.Count {
	counts := make([]mig.Count, 0, len(e.MIGDevices))
	for _, name := range slices.Sorted(maps.Keys(e.MIGDevices)) {
		counts = append(counts, mig.Count{Profile: name, N: e.MIGDevices[name]})
	}
	return counts
}

// EntryOf returns the entry that gives the devices of a layout to the GPUs of a node with the given indices, or to all
// without indices. An empty layout switches MIG off. mig-parted places the instances itself, by trying orders: it
// preserves their numbers, not their starts.
func EntryOf(l mig.Layout, gpus ...int) Entry {
	e := Entry{Devices: DeviceSelector{All: len(gpus) == 0, Indices: gpus}, MIGEnabled: len(l.Instances) > 0}
	for _, in := range l.Instances {
		if e.MIGDevices == nil {
			e.MIGDevices = map[string]int{}
		}
		if in.Compute == nil {
			e.MIGDevices[in.Profile.String()]++
		}
		for _, slices := range in.Compute {
			name, _ := mig.ParseName(in.Profile.Name) // as the catalogue writes it
			name.ComputeSlices = slices
			e.MIGDevices[name.String()]++
		}
	}
	return e
}

// Labels returns the labels in order.
func (c Config) Labels() []string { return slices.Sorted(maps.Keys(c.Configs)) }

type rawConfig struct {
	Version string                `yaml:"version,required"`
	Configs map[string][]rawEntry `yaml:"mig-configs,required"`
}

type rawEntry struct {
	Filter  filters  `yaml:"device-filter"`
	Devices selector `yaml:"devices,required"`
	Enabled *bool    `yaml:"mig-enabled,required"`
	MIG     *devices `yaml:"mig-devices"`
}

const filterRemedy = `write 0x<device><vendor>, for example "0x233510DE" or "0x2BB310DE:0x204D10DE"`

type filters []mig.DeviceFilter

func init() {
	strictyaml.Register((*filters).decode)
	strictyaml.Register((*selector).decode)
	strictyaml.Register((*devices).decode)
}

// decode reads a filter or a list of filters.
func (f *filters) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	var texts strictyaml.Strings
	d.Value(path, n, &texts)
	for _, s := range texts {
		one, err := mig.ParseDeviceFilter(s)
		if err != nil {
			d.Addf(path, n, filterRemedy, "%q is not a device filter", problem.Clip(s))
		}
		*f = append(*f, one)
	}
}

type selector DeviceSelector

// decode reads "all" or a list of indices.
func (s *selector) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		if n.Tag != "!!str" || n.Value != "all" {
			d.Addf(path, n, "write all or a list of indices such as [0, 2]", "%q selects no devices", problem.Clip(n.Value))
		}
		s.All = true
		return
	}
	d.Value(path, n, &s.Indices)
	for i, index := range s.Indices {
		if index < 0 {
			d.Addf(fmt.Sprintf("%s[%d]", path, i), n, "use the index that nvidia-smi prints", "%d is no device index", index)
		}
	}
}

type devices map[string]int

// decode reads profile names and counts.
func (p *devices) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	var raw map[string]int
	d.Value(path, n, &raw)
	*p = make(devices, len(raw))
	zero := 0
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		at := problem.Join(path, name)
		parsed, err := mig.ParseName(name)
		if err != nil || strings.HasPrefix(name, "MIG ") {
			d.Addf(at, n, `write it like "1g.10gb", "1c.3g.40gb" or "1g.10gb+me"`, "%q is not a MIG profile name",
				problem.Clip(name))
			continue
		}
		switch count := raw[name]; {
		case count < 0 || count > mig.MaxCount:
			d.Addf(at, n, fmt.Sprintf("use 0 to %d", mig.MaxCount), "%d is not a count", count)
			continue
		case count == 0:
			zero++
		}
		canonical := parsed.String()
		if _, dup := (*p)[canonical]; dup {
			d.Addf(at, n, "add the counts up under "+canonical, "is the same profile as %s", canonical)
		}
		(*p)[canonical] = raw[name]
	}
	if zero > 0 && zero == len(raw) {
		d.Addf(path, n, "write {} for no devices", "every count is 0")
	}
}

// Parse reads a mig-parted configuration, YAML or JSON, strictly: unknown and duplicate keys, anchors,
// bad names, filters and counts are errors, all reported at once. It checks the form; Check checks whether
// the entries can be placed.
func Parse(data []byte) (*Config, error) {
	var raw rawConfig
	if err := strictyaml.Decode(data, &raw, strictyaml.Options{}); err != nil {
		return nil, invalid(err)
	}
	var list problem.List
	list.If(raw.Version != "v1", "version", "write v1", "is %q", problem.Clip(raw.Version))
	list.If(len(raw.Configs) == 0, "mig-configs", "add at least one label", "has no labels")
	c := &Config{Configs: map[string][]Entry{}}
	for _, label := range slices.Sorted(maps.Keys(raw.Configs)) {
		path := problem.Join("mig-configs", label)
		list.If(len(raw.Configs[label]) == 0, path, "add at least one entry", "has no entries")
		for i, r := range raw.Configs[label] {
			at := fmt.Sprintf("%s[%d].mig-devices", path, i)
			e := Entry{Filter: r.Filter, Devices: DeviceSelector(r.Devices)}
			if r.Enabled == nil {
				list.Addf(fmt.Sprintf("%s[%d].mig-enabled", path, i), "write true or false", "has no value")
				continue
			}
			e.MIGEnabled = *r.Enabled
			switch {
			case r.MIG != nil:
				e.MIGDevices = *r.MIG
			case e.MIGEnabled:
				list.Addf(at, "write {} for no devices", "is missing, and MIG is enabled")
			}
			list.If(!e.MIGEnabled && len(e.MIGDevices) > 0, at, "remove them, or set mig-enabled: true",
				"has devices, and MIG is disabled")
			c.Configs[label] = append(c.Configs[label], e)
		}
	}
	if err := list.Err(); err != nil {
		return nil, invalid(err)
	}
	return c, nil
}

// Marshal writes the configuration as mig-parted reads it: labels in order, device lists in flow style, names
// quoted, filters in upper case. It fails when the configuration is not valid.
func (c Config) Marshal() ([]byte, error) {
	configs := yamlnode.Map()
	for _, label := range c.Labels() {
		entries := yamlnode.List()
		for _, e := range c.Configs[label] {
			entries.Content = append(entries.Content, e.node())
		}
		configs.Content = append(configs.Content, yamlnode.Text(label), entries)
	}
	text, err := yamlnode.Encode(nil, yamlnode.Map("version", "v1", "mig-configs", configs))
	if err == nil {
		_, err = Parse(text)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

func (e Entry) node() *yaml.Node {
	var filter, devices, profiles *yaml.Node
	if len(e.Filter) > 0 {
		filter = flow(e.Filter, func(f mig.DeviceFilter) *yaml.Node { return yamlnode.Quoted(f.String()) })
	}
	if devices = yamlnode.Text("all"); !e.Devices.All {
		devices = flow(e.Devices.Indices, func(i int) *yaml.Node { return yamlnode.Value(i) })
	}
	if e.MIGEnabled || len(e.MIGDevices) > 0 {
		profiles = yamlnode.Empty()
	}
	for _, name := range sortedProfiles(e.MIGDevices) {
		profiles.Style = 0
		profiles.Content = append(profiles.Content, yamlnode.Quoted(canonicalName(name)), yamlnode.Value(e.MIGDevices[name]))
	}
	return yamlnode.Map("device-filter", filter, "devices", devices, "mig-enabled", e.MIGEnabled, "mig-devices", profiles)
}

// flow builds a sequence on one line.
func flow[T any](items []T, node func(T) *yaml.Node) *yaml.Node {
	n := yamlnode.List()
	n.Style = yaml.FlowStyle
	for _, item := range items {
		n.Content = append(n.Content, node(item))
	}
	return n
}

// canonicalName drops a compute part that says nothing, as mig-parted wants.
func canonicalName(name string) string {
	if n, err := mig.ParseName(name); err == nil {
		return n.String()
	}
	return name
}

// sortedProfiles orders names by slices, memory and text.
func sortedProfiles(devices map[string]int) []string {
	names := slices.Sorted(maps.Keys(devices))
	slices.SortStableFunc(names, func(a, b string) int {
		p, err1 := mig.ParseName(a)
		q, err2 := mig.ParseName(b)
		if err1 != nil || err2 != nil {
			return 0
		}
		return cmp.Or(cmp.Compare(p.Slices, q.Slices), cmp.Compare(p.GB, q.GB))
	})
	return names
}

func invalid(err error) error { return problem.Input("mig: ", mig.ErrInvalid, err) }
