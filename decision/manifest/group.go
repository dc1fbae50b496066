package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// group is the GPUs of a pool that share by one mechanism, as the decision has
// them. A pool may have several; a node belongs to one.
type group struct {
	decision.GroupResult
	pool    *decision.Pool
	gpu     *sharing.GPU
	model   *mig.Model // nil where the GPU has no MIG, or none is known
	key     string     // names the group's documents, and is its nodes' label
	at      string     // where it stands in the result
	members []*member
	view    *Group // what extensions see; nil without any
	planned bool   // a cluster that runs has it beside configurations of its own
}

// member is a workload on the group that the decision puts it on.
type member struct {
	*decision.Decision
	workload *decision.Workload
	group    *group
	name     string        // the workload's, folded
	at       string        // where it stands in the result
	space    string        // namespace; "" leaves it out
	memory   sharing.Bytes // the part of each GPU that a pod may use, in whole mebibytes; 0 sets no limit
	percent  float64       // of a GPU's compute that a pod may use; 0 sets no limit
	fraction float64       // the share of the GPU's memory that the framework was given and keeps; 0 computes one
}

// file is the name under which the workload's documents are written.
func (m *member) file() string {
	if m.space == "" {
		return m.name
	}
	return m.space + "." + m.name
}

func (m *member) framework() *decision.Framework {
	return cmp.Or(m.workload.Framework, &decision.Framework{})
}

// processes counts the CUDA processes of a pod; MPS limits each of them.
func (m *member) processes() int { return max(m.framework().Processes, 1) }

// gpus counts the GPUs or instances of each pod.
func (m *member) gpus() int { return max(m.GPUs, 1) }

// total is the memory that the processes see as the whole, or 0.
func (m *member) total() sharing.Bytes {
	if !usesMIG(m.Mechanism) {
		return m.group.memory()
	}
	return m.group.profileMemory(m.Profile)
}

// memory is the memory of one GPU, or 0.
func (g *group) memory() sharing.Bytes {
	b, _ := g.gpu.Memory.Get()
	return b
}

// profileMemory is the memory of an instance, or 0.
func (g *group) profileMemory(profile string) sharing.Bytes {
	if g.model == nil {
		return 0
	}
	p, err := g.model.Profile(profile)
	if err != nil {
		return 0
	}
	b, _ := p.Memory.Get()
	return b
}

// clients is the number of tenants that each GPU, or each instance under MPS on MIG, has room for: the most of any,
// and at least the 2 that the device plugin asks for.
func (g *group) clients() int {
	n := 0
	for _, l := range g.Layouts {
		tenants := 0
		for _, t := range l.Tenants {
			tenants += t.Replicas
		}
		n = max(n, tenants)
		for _, in := range l.Instances {
			n = max(n, in.Replicas)
		}
	}
	if n == 1 && g.Mechanism != sharing.MechanismMIGWithMPS {
		n = 2
	}
	return n
}

// nodes is the number of nodes that the group takes, or 0 where unknown.
func (g *group) nodes() int {
	n, known := g.pool.GPUsPerNode.Get()
	if !known {
		return 0
	}
	return (g.GPUs + n - 1) / n
}

func usesMPS(m sharing.Mechanism) bool {
	return m == sharing.MechanismMPS || m == sharing.MechanismMIGLikeEmulation || m == sharing.MechanismMIGWithMPS
}

func usesMIG(m sharing.Mechanism) bool {
	return m == sharing.MechanismMIG || m == sharing.MechanismMIGWithMPS
}

func usesHAMi(m sharing.Mechanism) bool {
	return m == sharing.MechanismHAMi || m == sharing.MechanismHAMiWithMPS
}

// shared reports whether the mechanism hands out replicas of a device, of which a pod takes exactly one.
func shared(m sharing.Mechanism) bool { return m == sharing.MechanismTimeSlicing || usesMPS(m) }

func isVGPU(m sharing.Mechanism) bool {
	return m == sharing.MechanismVGPU || m == sharing.MechanismMIGBackedVGPU
}

// newMember ties a decision to its group and says what limits it implies.
func newMember(d *decision.Decision, w *decision.Workload, g *group, name string) *member {
	m := &member{Decision: d, workload: w, group: g, name: name}
	m.space, _ = spaced(d.Workload)
	if d.Mechanism != sharing.MechanismExclusive {
		need := w.MemoryNeed()
		m.memory = (need.Under(d.Mechanism) + sharing.MiB - 1) / sharing.MiB * sharing.MiB
	}
	tenants := 1
	for _, c := range d.Candidates {
		if c.Chosen {
			tenants = max(1, c.Tenants)
		}
	}
	switch d.Mechanism {
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		m.percent = float64(100 / tenants)
	case sharing.MechanismMIGLikeEmulation:
		m.percent = 100 / float64(tenants)
	}
	// Only on a GPU or slice of its own does the fraction stand; a share needs another.
	if f, stated := m.framework().MemoryFraction.Get(); stated && (d.Mechanism == sharing.MechanismExclusive ||
		d.Mechanism == sharing.MechanismMIG) {
		m.fraction = f
		if slice := g.profileMemory(d.Profile); slice > 0 {
			m.fraction = max(f, min(1, math.Ceil(100*float64(m.memory)/float64(slice))/100))
		}
	}
	return m
}

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
	Name    string // of the label's file, and the label of mig-parted
	Nodes   int    // 0 where unknown
	entries []parted.Entry
}

// nodeKinds divides a MIG group's GPUs, in the order of its layouts, into nodes, and puts nodes that are alike
// under one mig-parted label. The nodes of another group are all alike.
func (g *group) nodeKinds() []nodeKind {
	if !usesMIG(g.Mechanism) {
		return []nodeKind{{Name: g.key, Nodes: g.nodes()}}
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
			kinds = append(kinds, nodeKind{Name: g.key, entries: entries})
			i = len(kinds) - 1
		}
		if !g.pool.GPUsPerNode.IsZero() {
			kinds[i].Nodes++
		}
	}
	for i := range kinds {
		if len(kinds) > 1 {
			kinds[i].Name = fmt.Sprintf("%s-%d", g.key, i+1)
		}
	}
	return kinds
}

// nodeEntries is the mig-parted entries of one node with size GPUs. GPUs
// beyond the group's are switched out of MIG mode.
func nodeEntries(gpus []map[string]int, size int) []parted.Entry {
	var out []parted.Entry
	for i := range size {
		instances := map[string]int(nil)
		if i < len(gpus) {
			instances = gpus[i]
		}
		j := slices.IndexFunc(out, func(e parted.Entry) bool { return maps.Equal(e.MIGDevices, instances) })
		if j < 0 {
			out = append(out, parted.Entry{MIGEnabled: instances != nil, MIGDevices: instances})
			j = len(out) - 1
		}
		out[j].Devices.Indices = append(out[j].Devices.Indices, i)
	}
	if len(out) == 1 {
		out[0].Devices = parted.DeviceSelector{All: true}
	}
	return out
}

// allDisabled is mig-parted's usual label for a node without MIG: the MIG manager's default here, and the way back.
const allDisabled = "all-disabled"

// partedFiles writes mig-parted's configuration, alone and for the MIG manager.
func (b *builder) partedFiles() {
	c := &parted.Config{Configs: map[string][]parted.Entry{}}
	if b.plan == nil {
		c.Configs[allDisabled] = []parted.Entry{{Devices: parted.DeviceSelector{All: true}}}
	}
	for _, g := range b.groups {
		if !usesMIG(g.Mechanism) {
			continue
		}
		kinds := g.nodeKinds()
		for _, k := range kinds {
			c.Configs[k.Name] = k.entries
		}
		if g.pool.GPUsPerNode.IsZero() && len(kinds) > 1 {
			b.warn(WarnNodeSizeUnknown, g.key, "nvidia-gpu-operator", "say how many GPUs a node has", "GPUs are laid out "+
				"differently and it is not known how many a node has; each label here is for nodes whose GPUs are all alike")
		}
	}
	data, err := c.Marshal()
	b.fail(invalid(err))
	b.add("mig-parted/config.yaml", "mig-parted configuration, version v1", data)
	if b.plan != nil {
		return // its entries join those that are there
	}
	b.encode("mig-parted/configmap.yaml", "the same, for the GPU Operator's MIG manager", nil,
		yamlnode.ConfigMap(migConfigMap, b.opts.OperatorNamespace, map[string]string{"config.yaml": string(data)}))
}
