// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/discover/internal/hami"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// handsOut lists the node's GPUs as it hands them out, those in MIG mode last; ok reports that all MIG instances have a
// place.
func (n *node) handsOut(kind *layout.GPU) (devices []layout.Device, ok bool) {
	devices = make([]layout.Device, n.gpus)
	rules, full := layout.RulesOf(n.delivery), n.gpus-min(n.inMIG, n.gpus)
	instances, ok := n.instancesOf(kind.MIG, n.gpus-full)
	for i := range devices {
		d := &devices[i]
		if d.GPU = kind; len(n.uuids) == n.gpus {
			d.UUID = n.uuids[i]
		}
		if i < full {
			rules.Configure(d, n.mechanism, int32(n.sharers()))
			continue
		}
		rules.Configure(d, sharing.MechanismMIG, 0)
		d.Instances = instances[i-full]
	}
	return devices, ok
}

// instancesOf spreads a node's MIG instances over its GPUs in MIG mode: the recorded ones in place, then the others,
// largest first, each on the GPU with the fewest instances that has room. ok reports that all have a place.
func (n *node) instancesOf(model *mig.Model, gpus int) (out [][]layout.Instance, ok bool) {
	out = make([][]layout.Instance, gpus)
	left := maps.Clone(n.instances)
	made := make([]mig.Layout, gpus)
	for i := range made {
		if made[i].Model = model; model == nil || i >= len(n.layouts) {
			continue
		}
		if l, err := model.ParseLayout(n.layouts[i]); err == nil {
			made[i] = l
			for _, in := range l.Instances {
				left[in.Profile.Name]--
			}
		}
	}
	ok = model != nil || len(left) == 0
	names := sortedKeys(left)
	slices.SortStableFunc(names, func(x, y string) int { return map[bool]int{true: -1}[larger(x, y)] })
	for _, name := range names {
		for range max(0, left[name]) {
			ok = model != nil && spread(model, made, name) && ok
		}
	}
	for i := range made {
		for _, in := range made[i].Instances {
			out[i] = append(out[i], layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
		}
	}
	return out, ok
}

// spread adds an instance to the layout with fewest that takes it.
func spread(model *mig.Model, made []mig.Layout, profile string) bool {
	best, at := mig.Layout{}, -1
	for i := range made {
		next, err := model.Place([]mig.Count{{Profile: profile, N: 1}}, made[i])
		if err == nil && (at < 0 || len(made[i].Instances) < len(made[at].Instances)) {
			best, at = next, i
		}
	}
	if at >= 0 {
		made[at] = best
	}
	return at >= 0
}

// KubeNode has the fields of a Kubernetes Node for [ReadNode]. Amounts of resources are in Kubernetes' notation.
type KubeNode struct {
	Name                  string
	Labels, Annotations   map[string]string
	Capacity, Allocatable map[string]string
}

// NodeGPUs describes the GPUs of a node by its labels, annotations and resources.
type NodeGPUs struct {
	layout.Node // its name, delivery and devices; closed if a component outside Kubernetes holds them
	// Resource is the resource by which pods request GPUs without MIG mode, or instances under the MIG strategy single;
	// empty if there is none.
	Resource string
	// Mechanism shares each GPU without MIG mode among Replicas pods; 1 means a whole GPU.
	Mechanism sharing.Mechanism
	Replicas  int
	Single    string     // the MIG profile behind nvidia.com/gpu under the MIG strategy single
	GPU       layout.GPU // the kind of its devices, with the memory stated by labels
	Findings  []Finding  // contradictions and doubts, in the order of discovery
}

// ReadNode reads the GPUs of one node by the rules of [Collector.Discover], for schedulers that need to know whether,
// and among how many pods, a node's GPUs are shared. Devices that the kubelet took out of service are unhealthy, and
// MIG instances are those that it offers.
func ReadNode(k *KubeNode) *NodeGPUs {
	b := &build{c: &Collector{}, others: map[string]bool{}, hamiCounts: map[string]bool{}}
	o := &nodeObject{}
	o.Metadata.Name, o.Metadata.Labels, o.Metadata.Annotations = k.Name, k.Labels, k.Annotations
	o.Status.Capacity, o.Status.Allocatable = k.Capacity, k.Allocatable
	n := b.readNode(o)
	out := &NodeGPUs{Node: layout.Node{Name: k.Name}, Findings: b.findings}
	if n == nil {
		return out
	}
	out.Resource, out.Mechanism, out.Replicas, out.Single = n.resource, n.mechanism, n.replicas, n.single
	out.Delivery, out.Closed = n.delivery, n.closed
	if out.GPU = (layout.GPU{Name: n.product}); n.gpu != nil {
		out.GPU = *layout.GPUOf(n.gpu.Name)
		if n.gpu.Source == "" { // described by labels
			out.GPU.Name = n.product
		}
	}
	if mib := count(n.label("nvidia.com/gpu.memory")); mib > 0 && n.single == "" {
		out.GPU.Memory = sharing.Bytes(mib) * sharing.MiB
	}
	for profile, there := range n.instances {
		resource, _ := mig.ResourceName(profile)
		if profile == n.single {
			resource = n.resource
		}
		n.instances[profile] = min(there, count(k.Allocatable[resource]))
	}
	var placed bool
	if out.Devices, placed = n.handsOut(&out.GPU); !placed {
		out.Closed = cmp.Or(out.Closed, "one of which it is not known where its MIG instances are")
	}
	gone := 0 // GPUs that are not healthy: any may be
	if n.single == "" && len(n.registered) == 0 {
		unit := map[string]int{n.resource: n.replicas, resourceMilli: 1000}[n.resource]
		gone = n.whole() - count(k.Allocatable[n.resource])/unit
	}
	for i := range out.Devices {
		d := &out.Devices[i]
		switch card := n.card(d.UUID); {
		case card != nil:
			n.register(d, card)
			out.GPU.Memory = d.GPU.Memory
		case i < n.whole() && i >= n.whole()-gone:
			d.Health = "unhealthy"
		}
	}
	return out
}

func (n *node) register(d *layout.Device, card *hami.GPU) {
	kind := *d.GPU
	kind.Memory = sharing.Bytes(card.Memory) * sharing.MiB
	mode := map[string]sharing.Mechanism{"mps": sharing.MechanismHAMiWithMPS, "mig": sharing.MechanismMIG}[card.Mode]
	d.GPU, d.Instances = &kind, nil
	layout.RulesOf(n.delivery).Configure(d, cmp.Or(mode, sharing.MechanismHAMi), int32(card.Count))
	if card.Healthy != nil && !*card.Healthy {
		d.Health = "unhealthy"
	}
}
