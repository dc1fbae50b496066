package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// Group shows an Extension the nodes of a pool that are configured alike.
type Group struct {
	Pool       *decision.Pool
	Nodes      []*layout.Node
	Mechanisms []sharing.Mechanism // of their GPUs, in order
	GPUs       int                 // of all nodes
	Key        string              // names the group's documents; its nodes' label GroupLabel
	Delivery   sharing.Delivery    // the first that delivers it; DeliveryBare where none does
	Offers     map[string]int      // of its nodes under Delivery, by resource name; nil where it hands out none
	Namespaces []string            // those of its workloads, in order; "" stands for none
	// Members are its workloads, in the order of the decisions. One whose replicas are in several groups stands in the
	// first of them.
	Members []Member
}

// Member shows an Extension a workload of a Group.
type Member struct {
	Workload        *decision.Workload
	Namespace, Name string // of its object; no namespace is ""
	Replicas        int
}

// Extension adds another program's documents to those of Build. Package addons has Kueue's queues and the settings of
// NVIDIA's vGPU manager, package routers what puts a router before a service's replicas.
type Extension interface {
	// Documents returns files and warnings about a decision's groups. Its error
	// should name every problem; it ends Build and matches ErrInvalid.
	Documents(groups []Group) ([]File, []sharing.Warning, error)
	// Labels returns the labels of the objects that a group's Delivery writes.
	Labels(g *Group) map[string]string
	// PodLabels returns the labels of a workload's pods.
	PodLabels(m *Member) map[string]string
}

// extend asks the extensions for their documents.
func (b *builder) extend() error {
	if len(b.opts.Extensions) == 0 {
		return nil
	}
	var views []Group
	for _, g := range b.groups {
		g.view = &Group{Pool: g.pool, Nodes: g.nodes, Mechanisms: g.modes, GPUs: g.gpus(), Key: g.key,
			Delivery: g.primary(), Offers: b.offers(g)}
		for _, m := range g.members {
			g.view.Namespaces = append(g.view.Namespaces, m.space)
			if m.groups[0] == g {
				g.view.Members = append(g.view.Members, m.view())
			}
		}
		slices.Sort(g.view.Namespaces)
		g.view.Namespaces = slices.Compact(g.view.Namespaces)
		views = append(views, *g.view)
	}
	for _, e := range b.opts.Extensions {
		files, warnings, err := e.Documents(views)
		if err != nil {
			return invalid(err)
		}
		b.Files, b.Warnings = append(b.Files, files...), append(b.Warnings, warnings...)
		for _, f := range files {
			b.notes = append(b.notes, fmt.Sprintf("%s: %s.", f.Path, f.Note))
		}
	}
	return nil
}

// view is what extensions see of a workload.
func (m *member) view() Member {
	return Member{Workload: m.workload, Namespace: m.space, Name: m.name, Replicas: m.replicas()}
}

// podLabels are those that extensions give a workload's pods.
func (b *builder) podLabels(m *member) map[string]string {
	out, view := map[string]string{}, m.view()
	for _, e := range b.opts.Extensions {
		maps.Copy(out, e.PodLabels(&view))
	}
	return out
}

// extraLabels are those that extensions give the objects of a delivery.
func (b *builder) extraLabels(m *member, d sharing.Delivery) map[string]string {
	out := map[string]string{}
	for _, g := range m.groups {
		if g.view != nil && d == g.view.Delivery {
			for _, e := range b.opts.Extensions {
				maps.Copy(out, e.Labels(g.view))
			}
		}
	}
	return out
}

// offers counts the resources of a group's nodes under its primary delivery, by
// name; nil where that hands out annotations (KAI) or claims (DRA).
func (b *builder) offers(g *group) map[string]int {
	gpus, out := g.gpus(), map[string]int{}
	mib, shares := gpus*int(g.gpu.Memory/sharing.MiB), gpus*g.slots()
	switch d := g.primary(); {
	case d == sharing.DeliveryHAMi:
		return map[string]int{"nvidia.com/gpu": shares, "nvidia.com/gpumem": mib, "nvidia.com/gpucores": 100 * gpus}
	case d == sharing.DeliveryVolcano:
		return map[string]int{"volcano.sh/vgpu-number": shares, "volcano.sh/vgpu-memory": mib,
			"volcano.sh/vgpu-cores": 100 * gpus}
	case !plugin(d):
		return nil
	}
	for _, n := range g.nodes {
		for name, amount := range b.offered(g, n) {
			out[name] += amount
		}
	}
	return out
}

// offered counts what the device plugin offers on a node.
func (b *builder) offered(g *group, n *layout.Node) map[string]int {
	out, times := map[string]int{}, 1
	if shared(g.full()) {
		times = g.slots()
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		if !usesMIG(d.Mode) {
			out[gpuResource] += times
		}
		for _, in := range d.Instances {
			out[b.resource(in.Profile.Name)]++
		}
	}
	return out
}
