// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/sharing"
)

// aNode writes a node: labels, annotations and capacity as "key=value" divided by
// blanks; values of annotations may hold commas and colons.
func aNode(name, labels, annotations, capacity string) string {
	pairs := func(text string) string {
		var out []string
		for _, f := range strings.Fields(text) {
			k, v, _ := strings.Cut(f, "=")
			out = append(out, fmt.Sprintf("%q:%q", k, v))
		}
		return "{" + strings.Join(out, ",") + "}"
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"uid":"uid-%s-%d","labels":%s,"annotations":%s},"status":{"capacity":%s,"allocatable":%s}}`,
		name, name, len(labels), pairs(labels), pairs(annotations), pairs(capacity), pairs(capacity))
}

func aPod(name, node, limits string) string {
	k, v, _ := strings.Cut(limits, "=")
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"t","uid":"uid-%s"},"spec":{"nodeName":%q,"containers":[{"image":"i","resources":{"limits":{"nvidia.com/gpu":"1",%q:%q}}}]},"status":{"phase":"Running"}}`, name, name, node, k, v)
}

const (
	l4      = "nvidia.com/gpu.product=NVIDIA-L4 nvidia.com/gpu.memory=23034 "
	a100    = "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB "
	hamiOne = "hami.io/node-nvidia-register=GPU-1,10,23034,100,NVIDIA-L4,0,true:"
)

// TestFindings: each contradiction is reported with its object and source, and the rest of the cluster is discovered.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name, items, code, object, message string
		gpus                               int
	}{
		{"count", aNode("n", l4+"nvidia.com/gpu.count=4", "", "nvidia.com/gpu=2"), "label-lies", "node n", "label nvidia.com/gpu.count says 4", 2},
		{"memory", aNode("n", "nvidia.com/gpu.product=NVIDIA-L4 nvidia.com/gpu.memory=81920", "", "nvidia.com/gpu=2"), "label-lies", "node n", "no L4 has that", 2},
		{"multiple", aNode("n", l4+"nvidia.com/gpu.replicas=2 nvidia.com/gpu.sharing-strategy=time-slicing", "", "nvidia.com/gpu=9"), "label-lies", "node n", "no multiple of the 2 replicas", 5},
		{"replicas", aNode("n", l4+"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=none nvidia.com/gpu.count=2", "", "nvidia.com/gpu=2"), "", "", "", 2},
		{"MPS and MIG", aNode("n", a100+"nvidia.com/gpu.count=1 nvidia.com/gpu.replicas=2 nvidia.com/gpu.sharing-strategy=mps nvidia.com/mig.strategy=mixed", "", "nvidia.com/mig-3g.40gb=2"), "mps-and-mig", "node n", "refuses MPS", 1},
		{"MIG that cannot be", aNode("n", l4+"nvidia.com/gpu.count=1", "", "nvidia.com/mig-1g.10gb=2"), "", "", "", 1},
		{"two managers", aNode("n", l4, hamiOne+" volcano.sh/node-vgpu-register="+strings.TrimPrefix(hamiOne, "hami.io/node-nvidia-register="), "nvidia.com/gpu=10"), "two-managers", "node n", "HAMi and Volcano", 1},
		{"memory beyond the board", aNode("n", l4, strings.Replace(hamiOne, "23034", "46068", 1), "nvidia.com/gpu=10"), "memory-oversubscribed", "node n", "memory is handed out that is not there", 1},
		{"memory given twice", aNode("n", l4, hamiOne, "nvidia.com/gpu=10") + "," + aPod("a", "n", "nvidia.com/gpumem=15000") + "," + aPod("b", "n", "nvidia.com/gpumem=15000"), "memory-oversubscribed", "node n", "pods are given", 1},
		{"unhealthy", strings.Replace(aNode("n", l4, "", "nvidia.com/gpu=4"), `"allocatable":{"nvidia.com/gpu":"4"}`, `"allocatable":{"nvidia.com/gpu":"3"}`, 1), "unhealthy-gpus", "node n", "1 of 4", 4},
		{"not offered", aNode("n", l4+"nvidia.com/gpu.count=2 nvidia.com/gpu.present=true", "", "cpu=4"), "gpus-not-offered", "node n", "offers none", 2},
		{"another vendor", aNode("n", "nvidia.com/gpu.product=MI300X", "", "nvidia.com/gpu=2"), "gpu-unknown", "node n", "AMD", 0},
		{"the same name", aNode("n", l4, "", "nvidia.com/gpu=2") + "," + aNode("n", l4+"x=y", "", "nvidia.com/gpu=2"), "two-clusters", "Node n", "different UIDs", 2},
		{"two clusters", aNode("n", l4+"alpha.eksctl.io/cluster-name=a", "", "nvidia.com/gpu=2") + "," + aNode("m", l4+"alpha.eksctl.io/cluster-name=b", "", "nvidia.com/gpu=2"), "two-clusters", "cluster", "2 clusters", 4},
		{"a node that is not there", aNode("n", l4, "", "nvidia.com/gpu=2") + "," + aPod("a", "gone", "x=1"), "node-missing", "pod t/a", "node gone", 2},
		{"more than there is", aNode("n", l4, "", "nvidia.com/gpu=1") + "," + aPod("a", "n", "x=1") + "," + aPod("b", "n", "x=1"), "overcommitted", "node n", "pods hold 2", 1},
		{"a layout that failed", aNode("n", a100+"nvidia.com/mig.config=all-1g.10gb nvidia.com/mig.config.state=failed", "", "nvidia.com/gpu=1"), "mig-config-failed", "node n", "all-1g.10gb", 1},
		{"drivers", aNode("n", l4+"nvidia.com/cuda.driver-version.full=550.54.15", "", "nvidia.com/gpu=1") + "," + aNode("m", l4+"nvidia.com/cuda.driver-version.full=535.54.03", "", "nvidia.com/gpu=1"), "drivers-differ", "pool l4", "the oldest is used", 2},
		{"a configuration", aNode("n", l4, "", "nvidia.com/gpu=1") + `,{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"gpu-operator"},"data":{"any":"version: v1\nflags: {migStrategy: mixed}\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"}}`,
			"config-refused", "ConfigMap gpu-operator/c", "MPS does not go together", 1},
		{"GKE", aNode("n", "cloud.google.com/gke-accelerator=nvidia-tesla-a100 cloud.google.com/gke-gpu-sharing-strategy=mps cloud.google.com/gke-max-shared-clients-per-gpu=4 cloud.google.com/gke-nodepool=gpus", "", "nvidia.com/gpu=8"), "", "", "", 2},
		{"GKE's partitions", aNode("n", "cloud.google.com/gke-accelerator=nvidia-tesla-a100 cloud.google.com/gke-gpu-partition-size=1g.5gb", "", "nvidia.com/gpu=14"), "", "", "", 2},
		{"Volcano", aNode("n", l4, "volcano.sh/node-vgpu-register=GPU-1,10,4914,NVIDIA-L4,true,hami-core:GPU-2,10,4914,NVIDIA-L4,true,hami-core:", "volcano.sh/vgpu-number=20"), "", "", "", 2},
		{"shared instances", aNode("n", a100+"nvidia.com/gpu.count=1 nvidia.com/mig.strategy=mixed nvidia.com/mig-1g.10gb.replicas=2", "", "nvidia.com/mig-1g.10gb=14"), "", "", "", 1},
		{"single, counted as boards", aNode("n", "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb nvidia.com/gpu.count=8 nvidia.com/mig.strategy=single", "", "nvidia.com/gpu=28"), "", "", "", 8},
		{"thousandths", aNode("n", l4+"cotenant.dev/mechanism=mps", "", "cotenant.dev/gpu-milli=4000"), "", "", "", 4},
	} {
		d, err := read(t, discover.Options{}, c.name, `{"kind":"List","items":[`+c.items+`]}`)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := gpus(d); got != c.gpus {
			t.Errorf("%s: %d GPUs, want %d", c.name, got, c.gpus)
		}
		if c.code == "" {
			continue
		}
		ok := false
		for _, f := range d.Findings {
			ok = ok || f.Code == c.code && f.Object == c.object && strings.Contains(f.Message, c.message) && f.Source != "" && f.Severity > sharing.Severity(0)
		}
		if !ok {
			t.Errorf("%s: no %s of %s that says %q among %+v", c.name, c.code, c.object, c.message, d.Findings)
		}
	}
}

// TestHalfAClusters: missing inputs are reported, and nothing is made up of them.
func TestHalfAClusters(t *testing.T) {
	for name, c := range map[string]struct {
		items   string
		rows    []string
		unknown string
	}{
		"nodes without pods": {aNode("n", l4, "", "nvidia.com/gpu=2"), []string{"l4 L4 2", "exclusive 2 0"}, "no pod that asks for GPUs is among the input"},
		"pods without nodes": {aPod("p", "n", "x=1"), []string{"t/p 1 -"}, "no node with GPUs is among the input"},
		"objects of unknown kinds": {`{"apiVersion":"example.com/v9","kind":"Gizmo","metadata":{"name":"g"},"spec":{"gpus":8}},{"apiVersion":"other.io/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"4"}}}]}}}},` +
			aNode("n", l4, "", "nvidia.com/gpu=2"), []string{"l4 L4 2", "exclusive 2 0"}, "no pod that asks for GPUs"},
	} {
		d := joined(t, discover.Options{}, name, list(c.items))
		if diff := cmp.Diff(c.rows, rows(d)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		ok := false
		for _, u := range d.Unknown {
			ok = ok || len(u.Why) >= len(c.unknown) && u.Why[:len(c.unknown)] == c.unknown
		}
		if !ok {
			t.Errorf("%s: %+v", name, d.Unknown)
		}
		if found(d, "gpus-not-held") != nil {
			t.Errorf("%s: nobody knows who holds them: %+v", name, d.Findings)
		}
	}
}
