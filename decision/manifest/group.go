// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// group is the nodes of a pool that are configured alike: one label, one device-plugin configuration and one of
// mig-parted hold for all of them.
type group struct {
	pool     *decision.Pool
	gpu      *layout.GPU
	nodes    []*layout.Node
	modes    []sharing.Mechanism // of their GPUs, in order
	entries  []parted.Entry      // of each node; nil where no GPU has instances
	key      string              // names the group's documents, and is its nodes' label
	at       string              // the path of its first node in the result
	members  []*member
	delivery sharing.Delivery // hands out the GPUs of its nodes; DeliveryBare: nothing does
	planned  bool             // a cluster that runs has configurations of its own besides
}

// member is a workload on the groups that the layout puts its replicas on.
type member struct {
	*decision.Decision
	workload *decision.Workload
	pool     *decision.Pool
	gpu      *layout.GPU
	groups   []*group      // none where a plan leaves its nodes as they are
	name     string        // the workload's, folded
	part     int           // of the workload's places
	service  string        // label of the pods of all its parts, by which a router finds them
	all      int           // replicas in all places
	at       string        // its path in the result
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

func (m *member) framework() *fleet.Framework {
	return cmp.Or(m.workload.Framework, &fleet.Framework{})
}

// processes counts the CUDA processes of a pod; MPS limits each of them.
func (m *member) processes() int { return max(m.framework().Processes, 1) }

// gpus counts the GPUs or instances of each pod.
func (m *member) gpus() int { return max(m.GPUs, 1) }

// slice is the memory of the instance that each pod has, or 0.
func (m *member) slice() sharing.Bytes {
	if m.gpu.MIG == nil {
		return 0
	}
	p, err := m.gpu.MIG.Profile(m.Profile)
	if err != nil {
		return 0
	}
	b, _ := p.Memory.Get()
	return b
}

// delivery is that of the workload's nodes, which are of one pool and share in one way.
func (m *member) delivery() sharing.Delivery {
	if len(m.groups) == 0 {
		return sharing.DeliveryBare
	}
	return m.groups[0].delivery
}

// byPlugin reports whether the device plugin hands out the group's GPUs.
func (g *group) byPlugin() bool {
	return g.delivery == sharing.DeliveryGPUOperator || g.delivery == sharing.DeliveryDevicePlugin
}

// any reports whether a GPU of the group shares by a mechanism for which is answers true.
func (g *group) any(is func(sharing.Mechanism) bool) bool { return slices.ContainsFunc(g.modes, is) }

// gpus counts the GPUs of the group's nodes.
func (g *group) gpus() (n int) {
	for _, node := range g.nodes {
		n += len(node.Devices)
	}
	return n
}

// count is the number of the group's nodes, or 0 where it is not known how many GPUs a node has.
func (g *group) count() int {
	if g.pool.GPUsPerNode.IsZero() {
		return 0
	}
	return len(g.nodes)
}

// has reports whether a node is of the group.
func (g *group) has(node string) bool {
	return slices.ContainsFunc(g.nodes, func(n *layout.Node) bool { return n.Name == node })
}

// full is the mode by which the group's nodes share their full GPUs.
func (g *group) full() sharing.Mechanism {
	for _, m := range g.modes {
		if !usesMIG(m) {
			return m
		}
	}
	return sharing.MechanismExclusive
}

// slots is the number of tenants of each of the group's shared full GPUs, as planned for its delivery, and at least 2,
// the fewest that the device plugin takes.
func (g *group) slots() int {
	n := 2
	for _, node := range g.nodes {
		for i := range node.Devices {
			if d := &node.Devices[i]; !usesMIG(d.Mode) {
				n = max(n, int(d.Slots), node.Tenants(i))
			}
		}
	}
	return n
}

// slot is a GPU, or a MIG instance, with its tenants.
type slot struct {
	mode    sharing.Mechanism
	profile string
	tenants []tenants
}

// tenants counts the pods of a workload on one slot.
type tenants struct {
	*member
	pods int
}

// slots visits the GPUs and MIG instances of a node that have tenants.
func (b *builder) slots(n *layout.Node, visit func(*slot)) {
	for i := range n.Devices {
		var of []slot
		at := map[int8]int{} // by start
		for a := range n.On(i) {
			m := b.memberOf[run{a.Workload.Name, n.Pool, n.Devices[i].Mode}]
			if m == nil {
				continue
			}
			k, there := at[a.Start]
			if !there {
				k, at[a.Start] = len(of), len(of)
				of = append(of, slot{mode: n.Devices[i].Mode})
				if a.Profile != nil {
					of[k].profile = a.Profile.Name
				}
			}
			if t := slices.IndexFunc(of[k].tenants, func(t tenants) bool { return t.member == m }); t >= 0 {
				of[k].tenants[t].pods++
			} else {
				of[k].tenants = append(of[k].tenants, tenants{m, 1})
			}
		}
		for k := range of {
			visit(&of[k])
		}
	}
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

// newMember joins a decision with its workload and the limits that follow from it.
func newMember(d *decision.Decision, w *decision.Workload, pool *decision.Pool, gpu *layout.GPU, name string) *member {
	m := &member{Decision: d, workload: w, pool: pool, gpu: gpu, name: name}
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
	// A stated fraction holds only on a GPU or slice of its own; a share needs another.
	if f, stated := m.framework().MemoryFraction.Get(); stated && (d.Mechanism == sharing.MechanismExclusive ||
		d.Mechanism == sharing.MechanismMIG) {
		m.fraction = f
		if slice := m.slice(); slice > 0 {
			m.fraction = max(f, min(1, math.Ceil(100*float64(m.memory)/float64(slice))/100))
		}
	}
	return m
}

// nodeModes are the modes of a node's configured GPUs, each once and in order.
func nodeModes(n *layout.Node) (out []sharing.Mechanism) {
	for i := range n.Devices {
		if m := n.Devices[i].Mode; m != sharing.MechanismNone {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// alike returns the key of a node's group: everything that its configuration is written from.
func alike(n *layout.Node) string {
	rules, slots := layout.RulesOf(n.Delivery), int32(0)
	if rules.WholeNodes {
		for _, d := range n.Devices {
			if shared(d.Mode) && !usesMIG(d.Mode) {
				slots = max(slots, int32(d.Slots))
			}
		}
	}
	return fmt.Sprintf("%q %v %v %d %v", n.Pool, n.Delivery, nodeModes(n), slots, nodeEntries(n))
}

// nodeEntries is the mig-parted entries of a node, nil where no GPU has instances. GPUs without are switched out of MIG
// mode.
func nodeEntries(n *layout.Node) []parted.Entry {
	var out []parted.Entry
	some := false
	for i := range n.Devices {
		var instances map[string]int
		for _, in := range n.Devices[i].Instances {
			if !usesMIG(n.Devices[i].Mode) {
				break // a hypervisor makes them
			}
			if instances == nil {
				instances = map[string]int{}
			}
			instances[in.Profile.Name]++
			some = true
		}
		j := slices.IndexFunc(out, func(e parted.Entry) bool { return maps.Equal(e.MIGDevices, instances) })
		if j < 0 {
			out = append(out, parted.Entry{MIGEnabled: instances != nil, MIGDevices: instances})
			j = len(out) - 1
		}
		out[j].Devices.Indices = append(out[j].Devices.Indices, i)
	}
	if !some {
		return nil
	}
	if len(out) == 1 {
		out[0].Devices = parted.DeviceSelector{All: true}
	}
	return out
}

// allDisabled is mig-parted's usual label for a node without MIG: the MIG manager's default here, and the way back.
const allDisabled = "all-disabled"

// named lists mechanisms for a reader.
func named(all []sharing.Mechanism) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ", ")
}

// run names the part of a workload that is in one pool under one mechanism.
type run struct {
	workload, pool string
	mode           sharing.Mechanism
}

func runOf(d *decision.Decision) run { return run{d.Workload, d.Pool, d.Mechanism} }
