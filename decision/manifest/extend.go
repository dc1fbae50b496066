package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// Group shows an Extension the GPUs of a pool that share by one mechanism.
type Group struct {
	decision.GroupResult
	Pool       *decision.Pool
	Key        string           // names the group's documents; its nodes' label GroupLabel
	Delivery   sharing.Delivery // the first that delivers it; DeliveryBare where none does
	Offers     map[string]int   // of its nodes under Delivery, by resource name; nil where it hands out none
	Namespaces []string         // those of its workloads, in order; "" stands for none
	Members    []Member         // its workloads, in the order of the decisions
}

// Member shows an Extension a workload of a Group.
type Member struct {
	Workload        *decision.Workload
	Namespace, Name string // of its Deployment; no namespace is ""
	Replicas        int
}

// Extension adds another program's documents to those of Build. Package addons has Kueue's queues and the settings of
// NVIDIA's vGPU manager, package routers what puts a router before a service's replicas.
type Extension interface {
	// Documents returns files and warnings about a decision's groups. Its error
	// should name every problem; it ends Build and matches ErrInvalid.
	Documents(groups []Group) ([]File, []sharing.Warning, error)
	// Labels returns the labels of the Deployments that a group's Delivery writes.
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
		g.view = &Group{GroupResult: g.GroupResult, Pool: g.pool, Key: g.key, Delivery: b.primary(g), Offers: b.offers(g)}
		for _, m := range g.members {
			g.view.Namespaces = append(g.view.Namespaces, m.space)
			g.view.Members = append(g.view.Members, m.view())
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
	return Member{Workload: m.workload, Namespace: m.space, Name: m.name, Replicas: m.Replicas}
}

// podLabels are those that extensions give a workload's pods.
func (b *builder) podLabels(m *member) map[string]string {
	out, view := map[string]string{}, m.view()
	for _, e := range b.opts.Extensions {
		maps.Copy(out, e.PodLabels(&view))
	}
	return out
}

// extraLabels are those that extensions give the Deployments of a delivery.
func (b *builder) extraLabels(g *group, d sharing.Delivery) map[string]string {
	out := map[string]string{}
	if g.view != nil && d == g.view.Delivery {
		for _, e := range b.opts.Extensions {
			maps.Copy(out, e.Labels(g.view))
		}
	}
	return out
}

// offers counts the resources of a group's nodes under its primary delivery, by
// name; nil where that hands out annotations (KAI) or claims (DRA).
func (b *builder) offers(g *group) map[string]int {
	d := b.primary(g)
	mib := g.GPUs * int(g.memory()/sharing.MiB)
	switch {
	case d == sharing.DeliveryHAMi:
		return map[string]int{"nvidia.com/gpu": g.GPUs * g.clients(), "nvidia.com/gpumem": mib,
			"nvidia.com/gpucores": 100 * g.GPUs}
	case d == sharing.DeliveryVolcano:
		return map[string]int{"volcano.sh/vgpu-number": g.GPUs * g.clients(), "volcano.sh/vgpu-memory": mib,
			"volcano.sh/vgpu-cores": 100 * g.GPUs}
	case d != sharing.DeliveryGPUOperator && d != sharing.DeliveryDevicePlugin:
		return nil
	case usesMIG(g.Mechanism):
		out := map[string]int{}
		for _, l := range g.Layouts {
			for _, in := range l.Instances {
				out[b.resource(in.Profile)] += l.GPUs
			}
		}
		return out
	case shared(g.Mechanism):
		return map[string]int{gpuResource: g.GPUs * g.clients()}
	}
	return map[string]int{gpuResource: g.GPUs}
}
