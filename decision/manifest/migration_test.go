// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/sharing"
)

// migration is the folder of a plan from whole GPUs to shared ones, or to MIG instances where isolation asks for them.
func migration(t *testing.T, isolation, today string) map[string]string {
	t.Helper()
	return migrationIn(t, "team/", isolation, today)
}

// migrationIn has the workloads in a namespace, which their names begin with.
func migrationIn(t *testing.T, space, isolation, today string) map[string]string {
	t.Helper()
	var workloads strings.Builder
	held := map[string]string{}
	for i, node := range []string{"g1", "g1", "g2", "g2", "g3"} {
		object := "Deployment"
		if i == 4 {
			object = "StatefulSet"
		}
		fmt.Fprintf(&workloads, "  - {name: %sw%d, kind: batch, tenant: team, memory: 8GiB, gpu_busy: 0.06, %stoday: {mechanism: exclusive, may_weaken: true, object: %s, container: main}}\n", space, i, isolation, object)
		held[node] += fmt.Sprintf("{workload: %sw%d}, ", space, i)
	}
	var nodes strings.Builder
	for _, name := range []string{"g1", "g2", "g3", "g4"} {
		fmt.Fprintf(&nodes, "    - {name: %s, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}], assignments: [%s]}\n", name, held[name])
	}
	f, err := decision.ParseFleet([]byte("version: v1\npools:\n  - {name: a, gpu: A100-SXM4-80GB, count: 20, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}\nworkloads:\n" +
		workloads.String() + "today:\n" + today + "  budgets:\n    - {name: b, workload: " + space + "w4, allowed: 1}\n  node_objects:\n    - {name: t1, labels: {nvidia.com/device-plugin.config: ts4}}\n  nodes:\n" +
		"    - {name: t1, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: time-slicing, slots: 4}]}\n" + nodes.String()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := migrate.Make(t.Context(), f, decision.Options{})
	if err != nil || !p.Changes() {
		t.Fatal(err, p.Why, p.Stays)
	}
	folder, err := manifest.Migration(p)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range folder.Files {
		files[file.Path] = string(file.Data)
	}
	return files
}

// TestMigrationConfigMap: nodes that choose from a ConfigMap keep it, whether it was read or not.
func TestMigrationConfigMap(t *testing.T) {
	for _, c := range []struct{ today, file, page string }{
		{"  plugin_configs: ops/mine\n", "name: mine\n  namespace: ops\n", "`kubectl patch configmap mine -n ops "},
		{"", "name: NAME\n  namespace: gpu-operator\n", "write the name that `kubectl get clusterpolicies.nvidia.com"},
	} {
		files := migration(t, "", c.today)
		if got := files["device-plugin/configmap.yaml"]; !strings.Contains(got, c.file) {
			t.Errorf("%q is missing in\n%s", c.file, got)
		}
		if page := files["plan.md"]; !strings.Contains(page, c.page) || strings.Contains(page, "helm upgrade") {
			t.Errorf("%q is missing, or helm is asked, in\n%s", c.page, page)
		}
	}
}

// TestMigrationWithoutNamespace: kubectl is asked in its own namespace, not in one without a name.
func TestMigrationWithoutNamespace(t *testing.T) {
	for space, want := range map[string][]string{
		"team/": {"`kubectl patch deployment/w0 -n team --patch-file", "kubectl patch deployment w0 -n team --patch-file", "`kubectl get pods -n team -o wide`"},
		"":      {"`kubectl patch deployment/w0 --patch-file", "kubectl patch deployment w0 --patch-file", "`kubectl get pods -o wide`"},
	} {
		files := migrationIn(t, space, "", "")
		all := files["plan.md"] + files["pods/w0.yaml"] + files["pods/team.w0.yaml"]
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%q: %q is missing in\n%s", space, w, all)
			}
		}
	}
}

// TestMigrationToMIG: a patch takes the request for whole GPUs away, the way back gives the MIG manager a
// configuration, and old pods come back to no node that shares its GPUs.
func TestMigrationToMIG(t *testing.T) {
	files := migration(t, "isolation: {memory: hardware}, ", "")
	for path, wants := range map[string][]string{
		"pods/team.w0.yaml": {"nvidia.com/gpu: null", "nvidia.com/mig-2g.20gb: \"1\""},
		"plan.md":           {"nvidia.com/mig.config=all-disabled", "`kubectl cordon t1 "},
	} {
		for _, want := range wants {
			if !strings.Contains(files[path], want) {
				t.Errorf("%s lacks %q:\n%s", path, want, files[path])
			}
		}
	}
}

// TestPatchNamesItsNodes: a patch keeps pods off the nodes that they leave, and does not list all that a large plan frees.
func TestPatchNamesItsNodes(t *testing.T) {
	file := migration(t, "", "")["pods/team.w0.yaml"]
	if n := strings.Count(file, "operator: NotIn"); n != 1 || !strings.Contains(file, "operator: NotIn\n                    values:\n                      - g1\n") {
		t.Errorf("%d nodes are left out, and one is left:\n%s", n, file)
	}
}

// TestMigrationOfAnArrival: a new Job is created with its part, not patched or rolled back.
func TestMigrationOfAnArrival(t *testing.T) {
	f, err := decision.ParseFleet([]byte(`version: v1
pools: [{name: a, gpu: A100-SXM4-80GB, count: 4, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}]
workloads: [{name: t/nightly, kind: batch, tenant: t, memory: 8GiB, gpu_busy: 0.06}]
today:
  nodes: [{name: t1, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: time-slicing, slots: 4}]}]
  node_objects: [{name: t1, labels: {nvidia.com/device-plugin.config: ts4}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	today, _ := f.Layout()
	after, err := today.Assign("t1", layout.Assignment{Key: "new", Workload: f.Tenants()["t/nightly"]})
	if err != nil {
		t.Fatal(err)
	}
	p := &migrate.Plan{Fleet: f, Today: today, After: after, Steps: []migrate.Step{{Action: "move", Workload: "t/nightly", Replicas: 1, Pool: "a", Device: "time-slicing", To: []migrate.Place{{Node: "t1", Replicas: 1}}}},
		Result: &decision.Result{Decisions: []decision.Decision{{Workload: "t/nightly", Pool: "a", Mechanism: sharing.MechanismTimeSlicing, GPUs: 1}}}}
	folder, err := manifest.Migration(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folder.Files {
		for _, want := range map[string][]string{
			"pods/t.nightly.yaml": {"apiVersion: batch/v1\nkind: Job\n", "nvidia.com/gpu: \"1\""},
			"plan.md":             {"Merge pods/t.nightly.yaml into its Job, which comes with it", "`kubectl delete job/nightly -n t`"},
		}[file.Path] {
			if !strings.Contains(string(file.Data), want) {
				t.Errorf("%s lacks %q:\n%s", file.Path, want, file.Data)
			}
		}
		if strings.Contains(string(file.Data), "rollout undo") {
			t.Errorf("%s rolls a Job back:\n%s", file.Path, file.Data)
		}
	}
}

// TestMigrationUnderHAMi: a patch keeps the pod's requests and names its nodes, and keeps it off all nodes that the plan
// frees, since HAMi's scheduler chooses by itself.
func TestMigrationUnderHAMi(t *testing.T) {
	f, err := decision.ParseFleet([]byte(`version: v1
pools: [{name: h, gpu: L40S, count: 3, gpus_per_node: 1, price_per_gpu_hour: 1 USD, delivery: hami}]
workloads:
  - {name: t/a, kind: batch, tenant: t, memory: 8GiB, today: {mechanism: hami, object: Deployment, container: main}, request: {mechanism: hami}}
  - {name: t/b, kind: batch, tenant: t, memory: 8GiB, today: {mechanism: hami, object: Deployment, container: main}, request: {mechanism: hami}}
  - {name: t/c, kind: batch, tenant: t, memory: 8GiB, today: {mechanism: hami, object: Deployment, container: main}, request: {mechanism: hami}}
today:
  nodes:
    - {name: n1, pool: h, devices: [{gpu: L40S, mode: hami, slots: 10}], assignments: [{workload: t/a}]}
    - {name: n2, pool: h, devices: [{gpu: L40S, mode: hami, slots: 10}], assignments: [{workload: t/b}]}
    - {name: n3, pool: h, devices: [{gpu: L40S, mode: hami, slots: 10}], assignments: [{workload: t/c}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := migrate.Make(t.Context(), f, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := manifest.Migration(p)
	if err != nil || p.Cost.GPUsFreed != 2 {
		t.Fatal(err, p.Why)
	}
	patches := 0
	for _, f := range folder.Files {
		if !strings.HasPrefix(f.Path, "pods/") {
			continue
		}
		patches++
		if text := string(f.Data); strings.Count(text, "operator: NotIn") != 2 || strings.Contains(text, "resources:") || !strings.Contains(text, "key: gpu\n") {
			t.Errorf("%s: %s", f.Path, text)
		}
	}
	if patches != 2 {
		t.Errorf("%d patches", patches)
	}
}
