package manifest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// instances counts a layout's MIG instances by profile.
func instances(l decision.LayoutResult) map[string]int {
	if len(l.Instances) == 0 {
		return nil
	}
	out := map[string]int{}
	for _, in := range l.Instances {
		out[in.Profile]++
	}
	return out
}

func (g *group) checkMIG(l *problem.List) {
	if g.model == nil {
		_, err := mig.Lookup(g.gpu.Name)
		l.AddErr(g.at, err)
		return
	}
	gpus := 0
	for j, layout := range g.Layouts {
		at := fmt.Sprintf("%s.layouts[%d].instances", g.at, j)
		gpus += layout.GPUs
		var counts []mig.Count
		of := instances(layout)
		for _, name := range sortedKeys(of) {
			counts = append(counts, mig.Count{Profile: name, N: of[name]})
		}
		if len(counts) == 0 {
			l.Addf(at, "name at least one instance", "is empty")
		} else if _, err := g.model.Place(counts, mig.Layout{Model: g.model}); err != nil && g.model.PlacementsKnown() {
			l.AddErr(at, err)
		}
	}
	l.If(gpus != g.GPUs, g.at+".layouts", "describe every GPU once", "describe %d GPUs of %d", gpus, g.GPUs)
}

// nodeKind is nodes of a group that are configured alike.
type nodeKind struct {
	name    string // of the label's file, and the label of mig-parted
	nodes   int    // 0 where unknown
	entries []mig.PartedEntry
}

// nodeKinds divides a MIG group's GPUs, in the order of its layouts, into nodes, and puts nodes that are alike
// under one mig-parted label. The nodes of another group are all alike.
func (g *group) nodeKinds() []nodeKind {
	if !usesMIG(g.Mechanism) {
		return []nodeKind{{name: g.key, nodes: g.nodes()}}
	}
	var perGPU []map[string]int
	for _, l := range g.Layouts {
		of := instances(l)
		for range l.GPUs {
			perGPU = append(perGPU, of)
		}
	}
	perNode := g.pool.GPUsPerNode.Or(1)
	var kinds []nodeKind
	for start := 0; start < len(perGPU); start += perNode {
		entries := nodeEntries(perGPU[start:min(start+perNode, len(perGPU))], perNode)
		i := slices.IndexFunc(kinds, func(k nodeKind) bool { return reflect.DeepEqual(k.entries, entries) })
		if i < 0 {
			kinds = append(kinds, nodeKind{name: g.key, entries: entries})
			i = len(kinds) - 1
		}
		if !g.pool.GPUsPerNode.IsZero() {
			kinds[i].nodes++
		}
	}
	for i := range kinds {
		if len(kinds) > 1 {
			kinds[i].name = fmt.Sprintf("%s-%d", g.key, i+1)
		}
	}
	return kinds
}

// nodeEntries is the mig-parted entries of one node with size GPUs. GPUs
// beyond the group's are switched out of MIG mode.
func nodeEntries(gpus []map[string]int, size int) []mig.PartedEntry {
	var out []mig.PartedEntry
	for i := range size {
		instances := map[string]int(nil)
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

// allDisabled is mig-parted's usual label for a node without MIG: the MIG manager's default here, and the way back.
const allDisabled = "all-disabled"

// partedFiles writes mig-parted's configuration, alone and for the MIG manager.
func (b *builder) partedFiles() error {
	c := &mig.PartedConfig{Configs: map[string][]mig.PartedEntry{}}
	if b.plan == nil {
		c.Configs[allDisabled] = []mig.PartedEntry{{Devices: mig.DeviceSelector{All: true}}}
	}
	for _, g := range b.groups {
		if !usesMIG(g.Mechanism) {
			continue
		}
		kinds := g.nodeKinds()
		for _, k := range kinds {
			c.Configs[k.name] = k.entries
		}
		if g.pool.GPUsPerNode.IsZero() && len(kinds) > 1 {
			b.warn(sharing.Warning{Code: WarnNodeSizeUnknown, Path: g.key, Source: "nvidia-gpu-operator",
				Message: "GPUs are laid out differently and it is not known how many a node has; each label here is for nodes " +
					"whose GPUs are all alike",
				Remedy: "say how many GPUs a node has"})
		}
	}
	data, err := c.Marshal()
	if err != nil {
		return invalid(err)
	}
	b.add("mig-parted/config.yaml", "mig-parted configuration, version v1", data)
	if b.plan != nil {
		return nil // its entries join those that are there
	}
	return b.encode("mig-parted/configmap.yaml", "the same, for the GPU Operator's MIG manager", nil,
		yamlnode.ConfigMap(migConfigMap, b.opts.OperatorNamespace, map[string]string{"config.yaml": string(data)}))
}
