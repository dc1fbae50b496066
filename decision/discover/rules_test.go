// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/review"
)

// twoNodes is a cluster of two nodes: a has one replica of ml/rank, b two of the Jobs ml/base, which stay. Without further
// rules ml/rank moves to b, and a is given back.
type twoNodes struct {
	nodes   map[string]map[string]any // metadata and spec of a and b
	kind    string                    // of ml/rank's owner
	owner   map[string]any            // its spec
	pod     map[string]any            // spec of ml/rank's pods
	labels  map[string]string
	objects []string // others, as JSON
	status  map[string]any
	object  map[string]any // status of the owner
}

func (w *twoNodes) read(t *testing.T) *review.Review {
	t.Helper()
	var items []any
	limits := map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}, "requests": map[string]any{"cpu": "2", "memory": "8Gi"}}
	for _, name := range []string{"a", "b"} {
		labels := map[string]any{"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "46068",
			"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.sharing-strategy": "none", "rack": "r-" + name}
		amounts := map[string]any{"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi"}
		node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": labels}, "spec": map[string]any{},
			"status": map[string]any{"capacity": amounts, "allocatable": amounts}}
		for key, v := range w.nodes[name] {
			if key == "labels" {
				for k, text := range v.(map[string]any) {
					labels[k] = text
				}
			} else if key == "deletionTimestamp" {
				node["metadata"].(map[string]any)[key] = v
			} else if key == "allocatable" {
				node["status"].(map[string]any)["allocatable"] = v
			} else {
				node["spec"].(map[string]any)[key] = v
			}
		}
		items = append(items, node)
	}
	add := func(kind, name, on string, labels map[string]string, spec, owner, status, object map[string]any) {
		all := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "x", "resources": limits}}, "nodeName": on}
		for k, v := range spec {
			all[k] = v
		}
		meta := map[string]any{"namespace": "ml", "name": name + "-0", "labels": labels, "ownerReferences": []any{map[string]any{"kind": kind, "name": name, "controller": true}}}
		s := map[string]any{"phase": "Running"}
		for k, v := range status {
			if k == "phase" {
				s[k] = v
			} else {
				meta[k] = v
			}
		}
		items = append(items, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": all, "status": s})
		body := map[string]any{"replicas": 1, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": all}}
		for k, v := range owner {
			body[k] = v
		}
		items = append(items, map[string]any{"apiVersion": map[bool]string{true: "batch/v1", false: "apps/v1"}[kind == "Job"], "kind": kind,
			"metadata": map[string]any{"namespace": "ml", "name": name}, "spec": body, "status": object})
	}
	if w.kind == "" {
		w.kind = "Deployment"
	}
	if w.labels == nil {
		w.labels = map[string]string{"app": "rank"}
	}
	add("Job", "base", "b", map[string]string{"app": "base"}, nil, nil, nil, nil)
	add("Job", "base2", "b", map[string]string{"app": "base"}, nil, nil, nil, nil)
	add(w.kind, "rank", "a", w.labels, w.pod, w.owner, w.status, w.object)
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	hints, err := discover.ParseHints([]byte("workloads: {ml/*: {kind: batch, memory: 20GiB, gpu_busy: 0.6, tenant: ml}}"))
	if err != nil {
		t.Fatal(err)
	}
	prices, err := discover.ParsePrices([]byte("L40S: 2 USD"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := read(t, discover.Options{Hints: hints, Prices: prices}, "objects", string(list)+strings.Join(w.objects, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	err = d.WriteFleet(&file)
	if _, unread := decision.ParseFleet([]byte(file.String())); err != nil || unread != nil {
		t.Fatalf("decide does not read it: %v, %v\n%s", err, unread, &file)
	}
	made, err := review.Make(t.Context(), d, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// sheet parses a spec from JSON.
func sheet(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

func budget(name, selector string, allowed int) string {
	return fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "ml", "name": %q}, "spec": {"selector": %s}, "status": {"disruptionsAllowed": %d}}`, name, selector, allowed)
}

// web is a pod on a without GPUs, which a ReplicaSet starts again, with more in its spec.
func web(more string) string {
	return strings.Replace(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ml", "name": "web", "labels": {"app": "web"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}]}, "spec": {"nodeName": "a", "containers": [{"name": "x"}], `+strings.Replace(more, "{", "", 1)+`, "status": {"phase": "Running"}}`, ", }", "}", 1)
}

// TestRulesOfPods: a pod is moved where its own rules, its node's and its budgets let it, and else stays with the
// reason.
func TestRulesOfPods(t *testing.T) {
	const mine = `{"matchLabels": {"app": "rank"}}`
	for _, c := range []struct {
		name, kind, pod, owner, a, b, status, object string
		objects                                      []string
		moves                                        bool
		why                                          string
	}{
		{name: "nothing speaks against it", moves: true},
		{name: "a taint", b: `{"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}`},
		{name: "a taint that is tolerated", pod: `{"tolerations": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}`, b: `{"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}`, moves: true},
		{name: "a taint of another value", pod: `{"tolerations": [{"key": "team", "value": "y"}]}`, b: `{"taints": [{"key": "team", "value": "x", "effect": "NoExecute"}]}`},
		{name: "a taint that is tolerated for a minute", pod: `{"tolerations": [{"key": "team", "operator": "Exists", "tolerationSeconds": 60}]}`, b: `{"taints": [{"key": "team", "effect": "NoExecute"}]}`},
		{name: "a taint that only prefers", b: `{"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}`, moves: true},
		{name: "a node that is being deleted", b: `{"deletionTimestamp": "2026-11-01T00:00:00Z"}`},
		{name: "a node that is cordoned", b: `{"unschedulable": true}`},
		{name: "a selector", pod: `{"nodeSelector": {"rack": "r-a"}}`},
		{name: "a selector for both", pod: `{"nodeSelector": {"room": "1"}}`, a: `{"labels": {"room": "1"}}`, b: `{"labels": {"room": "1"}}`, moves: true},
		{name: "an affinity", pod: `{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r-b"]}]}]}}}}`},
		{name: "an affinity by number", pod: `{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "age", "operator": "Lt", "values": ["5"]}]}]}}}}`, a: `{"labels": {"age": "3"}}`, b: `{"labels": {"age": "4"}}`, moves: true},
		{name: "an affinity to a field", pod: `{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}}`, why: "matchFields"},
		{name: "too little CPU", b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "5", "memory": "64Gi"}}`},
		{name: "too little memory", b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "20Gi"}}`},
		{name: "CPU that another pod has", objects: []string{`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "kube-system", "name": "agent", "ownerReferences": [{"kind": "DaemonSet", "name": "agent", "controller": true}]}, "spec": {"nodeName": "b", "containers": [{"name": "x", "resources": {"requests": {"cpu": "10500m"}}}]}, "status": {"phase": "Running"}}`}},
		{name: "CPU of which another pod has all", objects: []string{`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "kube-system", "name": "agent", "ownerReferences": [{"kind": "DaemonSet", "name": "agent", "controller": true}]}, "spec": {"nodeName": "b", "containers": [{"name": "x", "resources": {"requests": {"cpu": "16"}}}]}, "status": {"phase": "Running"}}`}},
		{name: "an init container with a sidecar", pod: `{"initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}, {"name": "i", "resources": {"requests": {"cpu": "11"}}}]}`},
		{name: "an init container before a sidecar", pod: `{"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "11"}}}, {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}]}`, moves: true},
		{name: "its runtime's overhead", pod: `{"overhead": {"cpu": "11"}}`},
		{name: "a request of the whole pod", pod: `{"resources": {"requests": {"cpu": "13"}}}`},
		{name: "storage that another node has", pod: `{"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"}}}]}`, a: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "ephemeral-storage": "9Gi"}}`, b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "ephemeral-storage": "9Gi"}}`, moves: true},
		{name: "too little storage", pod: `{"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"}}}]}`, a: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "ephemeral-storage": "9Gi"}}`, b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "ephemeral-storage": "1023Mi"}}`},
		{name: "a resource of any vendor", pod: `{"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1", "example.com/port": "2"}}}]}`, a: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "example.com/port": "8"}}`, b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "example.com/port": "8"}}`, moves: true},
		{name: "a resource that only its node has", pod: `{"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1", "rdma/hca": "1"}}}]}`, a: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "rdma/hca": "1k"}}`, b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "pods": "110"}}`},
		{name: "resized in place", pod: `{"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}`, owner: `{"template": {"spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "9"}}}]}}}`, why: "requests less cpu than its template"},
		{name: "a resource that no node has", pod: `{"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}}}]}`, a: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "pods": "110"}}`, b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "pods": "110"}}`, why: `requests "hugepages-2Mi", which is not`},
		{name: "a node with as many pods as it runs", b: `{"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi", "pods": "3"}}`},
		{name: "a quota of CPU", objects: []string{`{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "ml", "name": "q"}, "status": {"hard": {"requests.cpu": "7"}, "used": {"requests.cpu": "6"}}}`}, why: "(requests.cpu)"},
		{name: "a quota with room", objects: []string{`{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "ml", "name": "q"}, "status": {"hard": {"requests.cpu": "8", "pods": "4", "limits.memory": "9Gi"}, "used": {"requests.cpu": "6", "pods": "3", "limits.memory": "9Gi"}}}`}, moves: true},
		{name: "a preference for a field", pod: `{"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}}]}}}`, why: "matchFields"},
		{name: "away from its like", pod: `{"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}}`, why: "podAntiAffinity"},
		{name: "kept off by another", objects: []string{`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ml", "name": "shy"}, "spec": {"nodeName": "b", "containers": [{"name": "x"}], "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["rank", "x"]}]}}]}}}, "status": {"phase": "Running"}}`}, why: "ml/shy keeps pods like it off"},
		{name: "spread", pod: `{"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]}`, why: "topologySpreadConstraints"},
		{name: "spread if it can be", pod: `{"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]}`, moves: true},
		{name: "a volume", pod: `{"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]}`, why: `its volume "data"`},
		{name: "a port of the node", pod: `{"containers": [{"name": "main", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}`, why: "ports of its node"},
		{name: "another scheduler", pod: `{"schedulerName": "mine"}`, why: `the scheduler "mine"`},
		{name: "paused", owner: `{"paused": true}`, why: "paused"},
		{name: "its rollout is under way", object: `{"replicas": 2, "updatedReplicas": 1}`, why: "under way"},
		{name: "recreated", owner: `{"strategy": {"type": "Recreate"}}`, why: "Recreate"},
		{name: "a StatefulSet", kind: "StatefulSet", objects: []string{budget("one", mine, 1)}, moves: true},
		{name: "replaced by hand", kind: "StatefulSet", owner: `{"updateStrategy": {"type": "OnDelete"}}`, objects: []string{budget("one", mine, 1)}, why: "OnDelete"},
		{name: "a partition", kind: "StatefulSet", owner: `{"updateStrategy": {"rollingUpdate": {"partition": 1}}}`, objects: []string{budget("one", mine, 1)}, why: "partition"},
		{name: "volumes of its own", kind: "StatefulSet", owner: `{"volumeClaimTemplates": [{}]}`, objects: []string{budget("one", mine, 1)}, why: "its volumes"},
		{name: "the least of budgets", kind: "StatefulSet", objects: []string{budget("one", mine, 1), budget("all", `{}`, 0)}, why: "no PodDisruptionBudget was given that lets one be missing"},
		{name: "a budget by expression", kind: "StatefulSet", objects: []string{budget("one", mine, 1), budget("in", `{"matchExpressions": [{"key": "app", "operator": "In", "values": ["rank"]}]}`, 0)}, why: "no PodDisruptionBudget was given that lets one be missing"},
		{name: "a budget for those without a label", kind: "StatefulSet", objects: []string{budget("one", mine, 1), budget("not", `{"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}`, 0)}, why: "no PodDisruptionBudget was given that lets one be missing"},
		{name: "a budget for others", kind: "StatefulSet", objects: []string{budget("one", mine, 1), budget("not", `{"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["rank"]}]}`, 0)}, moves: true},
		{name: "a budget that selects nothing", kind: "StatefulSet", objects: []string{budget("one", mine, 1), budget("null", "null", 0)}, moves: true},
		{name: "a budget whose status is old", kind: "StatefulSet", objects: []string{strings.Replace(budget("one", mine, 1), `"name"`, `"generation": 4, "name"`, 1)}, why: "no PodDisruptionBudget was given that lets one be missing"},
		{name: "it runs where nobody sees", pod: `{"nodeName": "gone"}`, why: "it runs on gone too"},
		{name: "it ends", status: `{"deletionTimestamp": "2026-11-01T00:00:00Z"}`, moves: true}, // the next one starts on b
		{name: "its node has a pod that nothing starts again", objects: []string{`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ops", "name": "shell"}, "spec": {"nodeName": "a", "containers": [{"name": "x"}]}, "status": {"phase": "Running"}}`}},
		{name: "its node has a pod with a budget", objects: []string{budget("web", `{"matchLabels": {"app": "web"}}`, 0), web("{}")}},
		{name: "its node has a pod with two budgets", objects: []string{budget("web", `{"matchLabels": {"app": "web"}}`, 1), budget("all", `{"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}`, 1), web("{}")}},
		{name: "its node has a pod that fits nowhere else", objects: []string{web(`{"nodeSelector": {"rack": "r-a"}}`)}},
		{name: "its node has a pod with a folder of it", objects: []string{web(`{"volumes": [{"name": "d", "hostPath": {"path": "/d"}}]}`)}},
		{name: "its node has a pod that may go", objects: []string{web("{}")}, moves: true},
	} {
		w := twoNodes{kind: c.kind, nodes: map[string]map[string]any{}, objects: c.objects}
		for text, to := range map[string]*map[string]any{c.pod: &w.pod, c.owner: &w.owner, c.status: &w.status, c.object: &w.object} {
			if text != "" {
				*to = sheet(t, text)
			}
		}
		for name, text := range map[string]string{"a": c.a, "b": c.b} {
			if text != "" {
				w.nodes[name] = sheet(t, text)
			}
		}
		p := w.read(t).Plan
		if c.status != "" && p.Steps[len(p.Steps)-1].Action == "free" {
			t.Errorf("%s: its node is given back", c.name)
		}
		if p.Changes() != c.moves {
			t.Errorf("%s: changes %t: %s, %+v", c.name, p.Changes(), p.Why, p.Stays)
		}
		if text := fmt.Sprint(p.Stays); c.why != "" && !strings.Contains(text, c.why) {
			t.Errorf("%s: %q is missing in %s", c.name, c.why, text)
		}
	}
}

// TestPatchKeepsRules: the patch of a workload holds its own node affinity in every term, names nodes by their name,
// and the page puts the object as it was back.
func TestPatchKeepsRules(t *testing.T) {
	w := twoNodes{kind: "StatefulSet", objects: []string{budget("one", `{"matchLabels": {"app": "rank"}}`, 1),
		web("{}")},
		nodes: map[string]map[string]any{"b": sheet(t, `{"labels": {"kubernetes.io/hostname": "other"}}`)},
		pod: sheet(t, `{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]},
			"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r-a"]}]}}]}}}`)}
	files := map[string]string{}
	folder, err := manifest.Migration(w.read(t).Plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folder.Files {
		files[f.Path] = string(f.Data)
	}
	for path, wants := range map[string][]string{
		"pods/ml.rank.yaml": {"matchExpressions:\n                  - key: rank", "weight: 7", "- key: metadata.name\n                    operator: In\n                    values:\n                      - b"},
		"plan.md": {"sed '/^  resourceVersion:/d' > before-ml.rank.yaml", "before-ml.rank.yaml | kubectl replace -f -", "grep '^pod/rank-[0-9]*$'", "kubectl drain a --ignore-daemonsets",
			"1 pod there without one move when it is drained", "among them ml/web"},
	} {
		for _, want := range wants {
			if want = strings.ReplaceAll(want, "key: rank", "key: rack"); !strings.Contains(files[path], want) {
				t.Errorf("%s lacks %q:\n%s", path, want, files[path])
			}
		}
	}
	if n := strings.Count(files["pods/ml.rank.yaml"], "operator: Exists"); n != 2 || strings.Contains(files["pods/ml.rank.yaml"], "hostname") {
		t.Errorf("its own rule is in %d terms of 2:\n%s", n, files["pods/ml.rank.yaml"])
	}
	if strings.Contains(files["plan.md"], "rollout undo") {
		t.Errorf("a roll-back by history:\n%s", files["plan.md"])
	}
}
