// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ragDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: rag, namespace: llm}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - {name: main, image: vllm/vllm-openai, resources: {limits: {nvidia.com/gpu: 1}}}
`

// TestDiff: exit 1 means that something that runs would change, or that a new workload has no place.
func TestDiff(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const fleets = "../../decision/migrate/testdata/"
	rag, many := write("rag.yaml", ragDeployment), write("many.yaml", strings.Replace(ragDeployment, "replicas: 2", "replicas: 50", 1))
	both := write("both.yaml", ragDeployment+"---\n"+strings.NewReplacer("rag", "huge", "replicas: 2", "replicas: 50").Replace(ragDeployment))
	slices := write("slices.yaml", strings.Replace(ragDeployment, "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", 1))
	hints := write("hints.yaml", "workloads: {llm/rag: {memory: 5GiB, gpu_busy: 0.05, slo: {e2e_p99: 8s}, solo: {e2e_p99: 100ms}}}")
	for _, c := range []struct {
		name, args, want string
		code             int
	}{
		{"nothing changes", "-fleet nothing.yaml", "Nothing to change: ", exitDone},
		{"a node is emptied", "-fleet known.yaml", "a100-2 llm/chat: leaves: 3 x exclusive", exitNo},
		{"a Deployment of which nothing is known", "-fleet nothing.yaml -with " + rag, "a100-2 llm/rag: comes: 2 x exclusive; whether it meets its objectives is not known", exitDone},
		{"one that fits free instances", "-fleet nothing.yaml -hints " + hints + " -with " + rag, "a100-1 llm/rag: comes: 2 x mig 1g.10gb; meets its objectives", exitDone},
		{"one that asks for free instances", "-fleet nothing.yaml -with " + slices, "a100-1 llm/rag: comes: 2 x mig 1g.10gb; whether it meets its objectives is not known", exitDone},
		{"one for which there is no room", "-fleet nothing.yaml -with " + many, "Nothing to change: llm/rag has no place", exitNo},
		{"one of two has a place", "-fleet nothing.yaml -hints " + hints + " -with " + both, "a100-1 llm/rag: comes: 2 x mig 1g.10gb; meets its objectives", exitNo},
		{"as JSON", "-json -fleet known.yaml", `"monthly_saved": "18980.00"`, exitNo},
		{"no fleet", "", "name a fleet with -fleet", exitBadInput},
		{"a fleet without today", "-fleet ../../../examples/quickstart/testdata/four-teams.yaml", "the fleet has no today", exitBadInput},
		{"nothing asks for a GPU", "-fleet nothing.yaml -with " + write("cm.yaml", "{kind: ConfigMap, apiVersion: v1}"), "nothing in it asks for a GPU", exitBadInput},
		{"no YAML", "-fleet nothing.yaml -with " + write("bad.yaml", "a: [b"), "bad.yaml: yaml:", exitBadInput},
		{"it runs already", "-fleet nothing.yaml -with " + write("chat.yaml", strings.Replace(ragDeployment, "rag", "chat", 1)), `duplicate workload name "llm/chat"`, exitBadInput},
	} {
		args := strings.Fields(strings.Replace(c.args, "-fleet ", "-fleet "+fleets, 1))
		code, stdout, stderr := program(t, "", append([]string{"diff"}, args...)...)
		if code != c.code || strings.Contains(stdout, "saves 0.00") || !strings.Contains(strings.Join(strings.Fields(stdout+stderr), " "), c.want) {
			t.Errorf("%s: exit %d, want %d and %q\n%s%s", c.name, code, c.code, c.want, stdout, stderr)
		}
		first := map[int]string{exitDone: "YES: llm/rag has a place, and nothing that runs changes", exitNo: "NO: llm/"}[code]
		if strings.Contains(c.args, "-with") && !strings.HasPrefix(stdout, first) {
			t.Errorf("%s: does not begin with %q:\n%s", c.name, first, stdout)
		}
	}
}

const freshNode = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fresh", "labels":
  {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}},
 "status": {"allocatable": {"nvidia.com/gpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}}
`

// TestDiffOfAFreshCluster: the fleet that discover wrote of a cluster before its first workload is read by diff, decide
// and plan.
func TestDiffOfAFreshCluster(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rag := write("rag.yaml", strings.Replace(ragDeployment, "replicas: 2", "replicas: 1", 1))
	hints := write("hints.yaml", "workloads: {llm/rag: {kind: batch, memory: 10GiB, gpu_busy: 0.3}}")
	for name, text := range map[string]string{
		"a node alone": freshNode,
		"all has ended": freshNode + `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done", "namespace": "llm"},
 "spec": {"nodeName": "fresh", "containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
 "status": {"phase": "Succeeded"}}
`} {
		fleet := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml")
		for _, c := range []struct {
			args, want string
			code       int
		}{
			{"discover -out " + fleet + " " + write("cluster.json", text), "l40s", exitDone},
			{"diff -fleet " + fleet + " -with " + rag + " -hints " + hints, "llm/rag: comes: 1 x", exitDone},
			{"diff -fleet " + fleet, "Nothing to change: ", exitDone},
			{"decide " + fleet, "Nothing to change: ", exitDone},
			{"plan " + filepath.Join(dir, "cluster.json"), map[string]string{"a node alone": "no pod is among the input", "all has ended": "Idle today: 2 GPUs"}[name], map[string]int{"a node alone": exitBadInput}[name]},
		} {
			code, stdout, stderr := program(t, "", strings.Fields(c.args)...)
			if all := strings.Join(strings.Fields(stdout+stderr), " "); code != c.code || !strings.Contains(all, c.want) {
				t.Errorf("%s: %s: exit %d, want %d and %q\n%s%s", name, c.args, code, c.code, c.want, stdout, stderr)
			}
		}
	}
}
