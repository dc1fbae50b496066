package manifest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// TestKueue holds the queues against Kueue's rules: a resource stands in one
// group, every flavour lists the group's resources in their order, a workload is
// admitted only if every resource that it asks for is covered, and its
// LocalQueue stands in its namespace. The quotas hold all that was decided.
func TestKueue(t *testing.T) {
	for _, deliveries := range [][]sharing.Delivery{nil, everyDelivery, {sharing.DeliveryHAMi}, {sharing.DeliveryVolcano}, {sharing.DeliveryKAI}} {
		s := mixed(t)
		s.opts.Deliveries, s.opts.KueueQueue = deliveries, "gpus"
		folder, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		if deliveries != nil && deliveries[0] == sharing.DeliveryKAI {
			for _, f := range folder.Files {
				if strings.HasPrefix(f.Path, "kueue/") || strings.Contains(string(f.Data), kueueLabel) {
					t.Errorf("%s: KAI has queues of its own", f.Path)
				}
			}
			if !slices.ContainsFunc(folder.Warnings, func(w sharing.Warning) bool { return w.Code == WarnNotQueued }) {
				t.Error("no warning that Kueue counts nothing")
			}
			continue
		}
		docs, err := strictyaml.Parse([]byte(find(t, folder, "kueue/queues.yaml")), strictyaml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		flavours, local := map[string]string{}, map[string]bool{}
		quota := map[string]map[string]int{}
		var covered []string
		for _, d := range docs {
			name := text(field(d, "metadata", "name"))
			if text(field(d, "apiVersion")) != kueueVersion {
				t.Errorf("%s: %s", name, text(field(d, "apiVersion")))
			}
			switch kind := text(field(d, "kind")); kind {
			case "ResourceFlavor":
				flavours[name] = text(field(d, "spec", "nodeLabels", groupLabel))
			case "LocalQueue":
				local[text(field(d, "metadata", "namespace"))] = text(field(d, "spec", "clusterQueue")) == "gpus"
			case "ClusterQueue":
				groups := field(d, "spec", "resourceGroups").Content
				if len(groups) != 1 || name != "gpus" {
					t.Errorf("%d resource groups in %s", len(groups), name)
				}
				for _, c := range field(groups[0], "coveredResources").Content {
					if slices.Contains(covered, c.Value) {
						t.Errorf("%s stands twice", c.Value)
					}
					covered = append(covered, c.Value)
				}
				for _, f := range field(groups[0], "flavors").Content {
					quota[text(field(f, "name"))] = map[string]int{}
					for i, r := range field(f, "resources").Content {
						n, err := strconv.Atoi(text(field(r, "nominalQuota")))
						if err != nil || n < 0 || i >= len(covered) || text(field(r, "name")) != covered[i] {
							t.Errorf("%s: resource %d is %s: %s", text(field(f, "name")), i, text(field(r, "name")), text(field(r, "nominalQuota")))
						}
						quota[text(field(f, "name"))][text(field(r, "name"))] = n
					}
				}
			default:
				t.Errorf("no kind %q", kind)
			}
		}
		queued := 0
		for _, f := range folder.Files {
			if !strings.HasPrefix(f.Path, "pods/") {
				if strings.Contains(string(f.Data), kueueLabel) {
					t.Errorf("%s: only the primary delivery is queued", f.Path)
				}
				continue
			}
			pods, err := strictyaml.Parse(f.Data, strictyaml.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range pods {
				if q := field(d, "metadata", "labels", kueueLabel); q == nil {
					continue
				} else if q.Value != "gpus" || !local[text(field(d, "metadata", "namespace"))] {
					t.Errorf("%s: no queue %s in its namespace", f.Path, q.Value)
				}
				queued++
				pod := field(d, "spec", "template", "spec")
				group := text(field(pod, "nodeSelector", groupLabel))
				replicas, _ := strconv.Atoi(text(field(d, "spec", "replicas")))
				if flavours[group] != group {
					t.Errorf("%s: no flavour for %s", f.Path, group)
				}
				for name, amount := range values(limitsOf(field(pod, "containers").Content[0])) {
					n, _ := strconv.Atoi(amount)
					if !slices.Contains(covered, name) {
						t.Errorf("%s: Kueue admits nothing that asks for %s", f.Path, name)
					}
					if quota[group][name] -= n * replicas; quota[group][name] < 0 {
						t.Errorf("%s: the quota of %s in %s is short by %d", f.Path, name, group, -quota[group][name])
					}
				}
			}
		}
		if queued < 1 {
			t.Errorf("%v: %d workloads are queued", deliveries, queued)
		}
	}
	s := mixed(t)
	s.opts.KueueQueue = "Not a name"
	if _, err := s.build(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "kueue_queue") {
		t.Errorf("%v", err)
	}
}

func limitsOf(container *yaml.Node) *yaml.Node { return field(container, "resources", "limits") }
