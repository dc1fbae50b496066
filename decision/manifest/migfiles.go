package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// model is the MIG catalogue's entry of the group's GPU, or nil.
func (g *Group) model() *mig.Model {
	if g.GPU == "" {
		return nil
	}
	m, err := mig.Lookup(g.GPU)
	if err != nil {
		return nil
	}
	return m
}

// profileMemory is the memory of an instance, or 0.
func (g *Group) profileMemory(profile string) sharing.Bytes {
	m := g.model()
	if m == nil {
		return 0
	}
	p, err := m.Profile(profile)
	if err != nil {
		return 0
	}
	if b, ok := p.Memory.Get(); ok {
		return b
	}
	return 0
}

func counts(instances map[string]int) []mig.Count {
	out := make([]mig.Count, 0, len(instances))
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		out = append(out, mig.Count{Profile: name, N: instances[name]})
	}
	return out
}

func (g *Group) checkMIG(l *problem.List, at string) {
	m := g.model()
	if m == nil && g.GPU != "" {
		_, err := mig.Lookup(g.GPU)
		l.AddErr(at+".gpu", err)
	}
	for j, layout := range g.Layouts {
		here := fmt.Sprintf("%s.layouts[%d].instances", at, j)
		if len(layout.Instances) == 0 {
			l.Addf(here, "name at least one instance", "is empty")
			continue
		}
		for _, c := range counts(layout.Instances) {
			if _, err := mig.ParseName(c.Profile); err != nil {
				l.AddErr(here+"."+c.Profile, err)
			}
			if c.N < 1 {
				l.Addf(here+"."+c.Profile, "", "must be 1 or more, not %d", c.N)
			}
		}
		if m != nil && m.PlacementsKnown() {
			if _, err := m.Place(counts(layout.Instances), mig.Layout{Model: m}); err != nil {
				l.AddErr(here, err)
			}
		}
	}
}

// nodeKind is nodes of a group that are configured alike.
type nodeKind struct {
	label   string // of mig-parted; "" without MIG
	nodes   int    // 0 where unknown
	entries []mig.PartedEntry
}

// nodeKinds divides a MIG group's GPUs, in the order of its layouts, into
// nodes, and puts nodes that are alike under one mig-parted label.
func (g *Group) nodeKinds() ([]nodeKind, []sharing.Warning) {
	var perGPU []map[string]int
	distinct := 1
	for i, l := range g.Layouts {
		if i > 0 && !maps.Equal(l.Instances, g.Layouts[i-1].Instances) {
			distinct++
		}
		for range l.gpus() {
			perGPU = append(perGPU, l.Instances)
		}
	}
	perNode := g.GPUsPerNode
	var ws []sharing.Warning
	if perNode == 0 {
		perNode = 1
		if distinct > 1 {
			ws = append(ws, sharing.Warning{Code: WarnNodeSizeUnknown, Path: g.Key(), Source: "nvidia-gpu-operator",
				Message: "GPUs are laid out differently and it is not known how many a node has; each label here is for nodes whose GPUs are all alike",
				Remedy:  "say how many GPUs a node has"})
		}
	}
	var kinds []nodeKind
	for start := 0; start < len(perGPU); start += perNode {
		entries := nodeEntries(perGPU[start:min(start+perNode, len(perGPU))], perNode)
		i := slices.IndexFunc(kinds, func(k nodeKind) bool { return sameEntries(k.entries, entries) })
		if i < 0 {
			kinds = append(kinds, nodeKind{entries: entries})
			i = len(kinds) - 1
		}
		if g.GPUsPerNode > 0 {
			kinds[i].nodes++
		}
	}
	for i := range kinds {
		kinds[i].label = g.Key()
		if len(kinds) > 1 {
			kinds[i].label = fmt.Sprintf("%s-%d", g.Key(), i+1)
		}
	}
	return kinds, ws
}

// nodeEntries is the mig-parted entries of one node with size GPUs. GPUs
// beyond the group's are switched out of MIG mode.
func nodeEntries(gpus []map[string]int, size int) []mig.PartedEntry {
	var out []mig.PartedEntry
	for i := range size {
		var instances map[string]int
		if i < len(gpus) {
			instances = gpus[i]
		}
		j := slices.IndexFunc(out, func(e mig.PartedEntry) bool { return maps.Equal(e.MIGDevices, instances) })
		if j < 0 {
			out = append(out, mig.PartedEntry{MIGEnabled: instances != nil, MIGDevices: instances})
			j = len(out) - 1
		}
		out[j].Devices.Indices = append(out[j].Devices.Indices, i)
	}
	if len(out) == 1 {
		out[0].Devices = mig.DeviceSelector{All: true}
	}
	return out
}

func sameEntries(a, b []mig.PartedEntry) bool {
	return slices.EqualFunc(a, b, func(x, y mig.PartedEntry) bool {
		return x.MIGEnabled == y.MIGEnabled && x.Devices.All == y.Devices.All &&
			slices.Equal(x.Devices.Indices, y.Devices.Indices) && maps.Equal(x.MIGDevices, y.MIGDevices)
	})
}

// allDisabled is mig-parted's usual label for a node without MIG: the MIG
// manager's default here, and the way back.
const allDisabled = "all-disabled"

// partedConfig is the mig-parted configuration of the fleet, or nil.
func (f *Fleet) partedConfig() (*mig.PartedConfig, []sharing.Warning) {
	var c *mig.PartedConfig
	var ws []sharing.Warning
	for i := range f.Groups {
		g := &f.Groups[i]
		if !usesMIG(g.Mechanism) {
			continue
		}
		if c == nil {
			c = &mig.PartedConfig{Configs: map[string][]mig.PartedEntry{
				allDisabled: {{Devices: mig.DeviceSelector{All: true}}},
			}}
		}
		kinds, more := g.nodeKinds()
		ws = append(ws, more...)
		for _, k := range kinds {
			c.Configs[k.label] = k.entries
		}
	}
	return c, ws
}
