package manifest

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

const (
	kueueVersion = "kueue.x-k8s.io/v1beta2"
	kueueLabel   = "kueue.x-k8s.io/queue-name"
)

// kueueCounts reports whether Kueue counts the requests of a delivery's pods: named
// resources. It counts no annotations of KAI, which has queues of its own, and
// no claims unless it is configured to.
func kueueCounts(d sharing.Delivery) bool {
	switch d {
	case sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin, sharing.DeliveryHAMi, sharing.DeliveryVolcano:
		return true
	}
	return false
}

// offers counts the resources of a group's nodes under its primary delivery, by resource
// name; nil where Kueue cannot count it.
func (b *builder) offers(g *group) (map[string]int, error) {
	d := b.primary(g)
	if !kueueCounts(d) {
		return nil, nil
	}
	out := map[string]int{}
	mib := g.GPUs * int(g.memory()/sharing.MiB)
	switch {
	case d == sharing.DeliveryHAMi:
		out["nvidia.com/gpu"], out["nvidia.com/gpumem"], out["nvidia.com/gpucores"] = g.GPUs*g.clients(), mib, 100*g.GPUs
	case d == sharing.DeliveryVolcano:
		out["volcano.sh/vgpu-number"], out["volcano.sh/vgpu-memory"], out["volcano.sh/vgpu-cores"] = g.GPUs*g.clients(), mib,
			100*g.GPUs
	case usesMIG(g.Mechanism):
		for _, l := range g.Layouts {
			for _, in := range l.Instances {
				name, err := mig.ResourceName(in.Profile)
				if err != nil {
					return nil, err
				}
				out[name] += l.GPUs
			}
		}
	case shared(g.Mechanism):
		out[driverconf.GPU] = g.GPUs * g.clients()
	default:
		out[driverconf.GPU] = g.GPUs
	}
	return out, nil
}

// kueueFile writes a ResourceFlavor for each group, one ClusterQueue with their
// quotas, and a LocalQueue for each namespace. One resource group holds all
// flavours, because a resource may stand in one group only and every flavour of
// a group must list the same resources in the same order.
func (b *builder) kueueFile() error {
	if b.opts.KueueQueue == "" {
		return nil
	}
	var docs, flavours []*yaml.Node
	covered, namespaces := map[string]bool{}, map[string]bool{}
	offered := map[*group]map[string]int{}
	for _, g := range b.groups {
		offers, err := b.offers(g)
		if err != nil {
			return invalid(err)
		}
		if len(offers) == 0 {
			b.warn(sharing.Warning{Code: WarnNotQueued, Path: g.key, Source: "kueue-cluster-queue",
				Message: fmt.Sprintf("Kueue counts nothing of what %v hands out here", b.primary(g)),
				Remedy:  "queue there by the scheduler's own queues, or deliver by the device plugin"})
			continue
		}
		offered[g] = offers
		for name := range offers {
			covered[name] = true
		}
		for _, m := range g.members {
			namespaces[m.pod.Namespace] = true
		}
	}
	if len(offered) == 0 {
		return nil
	}
	resources := slices.Sorted(maps.Keys(covered))
	for _, g := range b.groups {
		if offered[g] == nil {
			continue
		}
		docs = append(docs, yamlnode.Map("apiVersion", kueueVersion, "kind", "ResourceFlavor", "metadata",
			metadata(g.key, ""),
			"spec", yamlnode.Map("nodeLabels", map[string]string{groupLabel: g.key})))
		var quotas []*yaml.Node
		for _, name := range resources {
			quotas = append(quotas, yamlnode.Map("name", name, "nominalQuota", offered[g][name]))
		}
		flavours = append(flavours, yamlnode.Map("name", g.key, "resources", quotas))
	}
	docs = append(docs, yamlnode.Map("apiVersion", kueueVersion, "kind", "ClusterQueue", "metadata",
		metadata(b.opts.KueueQueue, ""),
		"spec", yamlnode.Map("namespaceSelector", &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle},
			"resourceGroups", yamlnode.List(yamlnode.Map("coveredResources", resources, "flavors", flavours)))))
	for _, ns := range slices.Sorted(maps.Keys(namespaces)) {
		docs = append(docs, yamlnode.Map("apiVersion", kueueVersion, "kind", "LocalQueue", "metadata",
			metadata(b.opts.KueueQueue, ns),
			"spec", yamlnode.Map("clusterQueue", b.opts.KueueQueue)))
	}
	header := []string{"Flavours and quotas for Kueue 0.15 and later; before, write v1beta1.",
		"The quotas are what the groups' nodes offer: shares, instances, or HAMi's memory in MiB and cores in percent.",
		"Kueue admits nothing that asks for a resource that stands here nowhere: add cpu and memory where your containers " +
			"ask for them.",
		"HAMi's memory and cores are for each card: of a pod with several cards Kueue counts them once."}
	return b.encode("kueue/queues.yaml", "flavours and quotas for Kueue", header, docs...)
}

// queued is the label with which Kueue holds a workload until there is quota.
func (b *builder) queued(g *group, d sharing.Delivery) map[string]string {
	if b.opts.KueueQueue == "" || d != b.primary(g) || !kueueCounts(d) {
		return nil
	}
	return map[string]string{kueueLabel: b.opts.KueueQueue}
}
