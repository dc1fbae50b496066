package addons

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

const (
	kueueVersion = "kueue.x-k8s.io/v1beta2"
	kueueLabel   = "kueue.x-k8s.io/queue-name"
)

// WarnNotQueued says that Kueue counts nothing of what a delivery hands out.
const WarnNotQueued sharing.WarningCode = "not-queued"

// Kueue writes a ClusterQueue of the name Queue and a LocalQueue of it in each namespace, with the groups as
// flavours and what their nodes offer as quotas, and gives the workloads its label. Kueue counts named resources:
// no annotations of KAI, which has queues of its own, and no claims.
type Kueue struct {
	Queue string // up to 63 lower-case letters, digits and dashes
}

var queueName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Labels returns the label by which Kueue holds a group's workloads until there is quota; nil where it counts nothing.
func (k Kueue) Labels(g *manifest.Group) map[string]string {
	if len(g.Offers) == 0 {
		return nil
	}
	return map[string]string{kueueLabel: k.Queue}
}

// PodLabels returns none.
func (Kueue) PodLabels(*manifest.Member) map[string]string { return nil }

// Documents writes one resource group with all flavours, because a resource may stand in one group only and every
// flavour of a group must list the same resources in the same order.
func (k Kueue) Documents(groups []manifest.Group) ([]manifest.File, []sharing.Warning, error) {
	if !queueName.MatchString(k.Queue) {
		return nil, nil, &problem.Problem{Path: "kueue.queue", Message: fmt.Sprintf("%q is not a Kubernetes name", k.Queue),
			Remedy: "use up to 63 lower-case letters, digits and dashes, with a letter or digit at both ends"}
	}
	var warnings []sharing.Warning
	var docs, flavours []*yaml.Node
	covered, namespaces := map[string]bool{}, map[string]bool{}
	for i := range groups {
		g := &groups[i]
		if len(g.Offers) == 0 {
			warnings = append(warnings, sharing.Warning{Code: WarnNotQueued, Path: g.Key, Source: "kueue-cluster-queue",
				Message: fmt.Sprintf("Kueue counts nothing of what %v hands out here", g.Delivery),
				Remedy:  "queue there by the scheduler's own queues, or deliver by the device plugin"})
		}
		for name := range g.Offers {
			covered[name] = true
		}
	}
	resources := slices.Sorted(maps.Keys(covered))
	for i := range groups {
		g := &groups[i]
		if len(g.Offers) == 0 {
			continue
		}
		for _, ns := range g.Namespaces {
			namespaces[ns] = true
		}
		docs = append(docs, object("ResourceFlavor", g.Key, "",
			yamlnode.Map("nodeLabels", map[string]string{manifest.GroupLabel: g.Key})))
		var quotas []*yaml.Node
		for _, name := range resources {
			quotas = append(quotas, yamlnode.Map("name", name, "nominalQuota", g.Offers[name]))
		}
		flavours = append(flavours, yamlnode.Map("name", g.Key, "resources", quotas))
	}
	if len(docs) == 0 {
		return nil, warnings, nil
	}
	docs = append(docs, object("ClusterQueue", k.Queue, "", yamlnode.Map("namespaceSelector", yamlnode.Empty(),
		"resourceGroups", yamlnode.List(yamlnode.Map("coveredResources", resources, "flavors", flavours)))))
	for _, ns := range slices.Sorted(maps.Keys(namespaces)) {
		docs = append(docs, object("LocalQueue", k.Queue, ns, yamlnode.Map("clusterQueue", k.Queue)))
	}
	data, err := yamlnode.Encode([]string{"Flavours and quotas for Kueue 0.15 and later; before, write v1beta1.",
		"The quotas are what the groups' nodes offer: shares, instances, or HAMi's memory in MiB and cores in percent.",
		"Kueue admits nothing that asks for a resource that stands here nowhere: add cpu and memory where your containers " +
			"ask for them.",
		"HAMi's memory and cores are for each card: of a pod with several cards Kueue counts them once."}, docs...)
	file := manifest.File{Path: "kueue/queues.yaml", Note: "flavours and quotas for Kueue", Data: data}
	return []manifest.File{file}, warnings, err
}

func object(kind, name, namespace string, spec *yaml.Node) *yaml.Node {
	return yamlnode.Map("apiVersion", kueueVersion, "kind", kind, "metadata", yamlnode.Map("name", name,
		"namespace", yamlnode.Some(namespace)), "spec", spec)
}
