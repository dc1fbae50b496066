// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
)

// hostile are names that mean something to YAML, a shell, Markdown, a browser, a terminal or a file system.
var hostile = []string{"null", "on", "1e3", "0x10", "a..b", "..", "../../out", "-rf", "%s%n", "a: b #c", "{x: [y", "a\nowned: 1", "$(touch owned)", "`touch owned`",
	"a;touch owned", "a|touch owned", "a'\"&&touch owned", "<script>alert(1)</script>", "[x](javascript:alert(1))", "\x1b[2J\x07", "a\u202eb", "a\u200bb", "\ufeffa", "\u2028", strings.Repeat("a", 300)}

// hostileCluster has a name in the place of @field@, and plain ones in the others. ml/rank may leave a node.
const hostileCluster = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "@node@", "labels": {"nvidia.com/gpu.product": "@product@", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.sharing-strategy": "none",
  "nvidia.com/gpu.deploy.device-plugin": "true", "cloud.google.com/gke-nodepool": "@pool@", "node.kubernetes.io/instance-type": "@type@", "rack": "@label@", "nvidia.com/device-plugin.config": "@config@"}}, "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi"}, "capacity": {"nvidia.com/gpu": "4", "@resource@": "1"}}},
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.sharing-strategy": "none",
  "nvidia.com/gpu.deploy.device-plugin": "true", "rack": "@label@"}}, "spec": {"taints": [{"key": "@taint@", "value": "@label@", "effect": "NoSchedule"}]}, "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi"}, "capacity": {"nvidia.com/gpu": "4"}}},
{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "@namespace@", "name": "@owner@"}, "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "@container@", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}}},
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "@namespace@", "name": "@budget@"}, "spec": {"selector": {}}, "status": {"disruptionsAllowed": 1}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "@namespace@", "name": "@pod@", "labels": {"app": "@label@"}, "ownerReferences": [{"kind": "StatefulSet", "name": "@owner@", "controller": true}]},
  "spec": {"nodeName": "@node@", "nodeSelector": {"rack": "@label@"}, "tolerations": [{"key": "@taint@", "operator": "Exists"}], "containers": [{"name": "@container@", "image": "@image@", "args": ["--served-model-name", "@model@"], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, "status": {"phase": "Running"}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ml", "name": "base", "ownerReferences": [{"kind": "Job", "name": "@other@", "controller": true}]}, "spec": {"nodeName": "b", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}, "status": {"phase": "Running"}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "@namespace@", "name": "@other@", "ownerReferences": [{"kind": "ReplicaSet", "name": "@other@", "controller": true}]}, "spec": {"nodeName": "@node@", "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c"}]}, "status": {"phase": "Running"}}]}
`

const hostileSeries = `{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "vllm:generation_tokens_total", "model_name": "@model@", "namespace": "@namespace@", "pod": "@pod@"}, "values": [[1795000000, "3"], [1795000060, "9"]]},
{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1", "gpu": "0", "Hostname": "@node@", "exported_pod": "@pod@", "exported_namespace": "@namespace@", "modelName": "@product@"}, "values": [[1795000000, "3"], [1795000060, "9"]]}]}}
`

// TestHostileNames puts each name into the place of a node's, of its description, and of all others, and looks at all
// output: nothing of it steers a terminal, runs in a shell, opens an element or a key, or leaves the folder, and decide
// and diff read the files of discover.
func TestHostileNames(t *testing.T) {
	race.Long(t)
	plain := map[string]string{"product": "NVIDIA-L40S", "namespace": "ml", "other": "other"}
	field := regexp.MustCompile(`@(\w+)@`)
	bin := filepath.Join(t.TempDir(), "bin") // commands that do nothing
	must.Do(t, os.Mkdir(bin, 0o755))
	for _, name := range []string{"kubectl", "helm", "sed", "grep", "xargs", "cotenant"} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	touch, err := exec.LookPath("touch")
	must.Do(t, err)
	must.Do(t, os.Symlink(touch, filepath.Join(bin, "touch")))
	moved := 0
	for _, name := range hostile {
		for _, fields := range []string{"node", "product pool type resource taint config", "namespace owner container budget pod label image model other"} {
			fill := func(text string) string {
				return field.ReplaceAllStringFunc(text, func(at string) string {
					if at = strings.Trim(at, "@"); slices.Contains(strings.Fields(fields), at) {
						return strings.Trim(string(must.Get(json.Marshal(name))(t)), `"`)
					} else if plain[at] != "" {
						return plain[at]
					}
					return at
				})
			}
			dir := t.TempDir()
			must.Do(t, os.Mkdir(filepath.Join(dir, "out"), 0o755))
			files := map[string]string{"cluster.json": fill(hostileCluster), "series.json": fill(hostileSeries), "hints.yaml": "workloads: {'*/*': {kind: batch, memory: 20GiB, gpu_busy: 0.6, tenant: ml}}\n", "prices": "L40S: 2 USD\n"}
			t.Chdir(dir)
			for path, text := range files {
				must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			}
			in := []string{"-hints", "hints.yaml", "-prices", "prices", "cluster.json", "series.json"}
			for _, args := range [][]string{append([]string{"plan", "-v", "-out", "out/plan", "-report", "out/plan.html"}, in...), append([]string{"plan", "-json"}, in...), append([]string{"discover", "-out", "out/fleet.yaml"}, in...),
				append([]string{"discover"}, in...), {"decide", "-out", "out/decided", "-report", "out/decide.html", "out/fleet.yaml"}, {"diff", "-fleet", "out/fleet.yaml"}} {
				code, stdout, stderr := program(t, "", args...)
				shown(t, args[0], stdout+stderr)
				if code == exitBadInput && !strings.Contains(stderr, "is no name of a Node") {
					t.Errorf("%q as %s: %s: %s", name, fields, args[0], stderr)
				}
			}
			moved += checkFiles(t, name, dir, bin, len(files))
		}
	}
	if moved < len(hostile) {
		t.Errorf("%d of %d clusters have steps", moved, 3*len(hostile))
	}
	p := guard.Proposal{Action: guard.ActionKeep, Target: strings.Join(hostile, " "), Pods: hostile, Evidence: hostile}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	_, err = (&guard.Actor{Log: must.Get(guard.OpenLog(path))(t)}).Act(t.Context(), &p)
	must.Do(t, err)
	out := bytes.NewBuffer(must.Get(os.ReadFile(path))(t))
	page.Run(t.Context(), "guard", out, out, func(w io.Writer) error {
		return errors.Join((&guardConfig{}).show(stdio{out: w}, []guard.Proposal{p}), (&guardConfig{json: true}).show(stdio{out: w}, []guard.Proposal{p}))
	})
	shown(t, "guard", out.String())
}

// shown fails where a text holds characters that a terminal obeys or hides.
func shown(t *testing.T, where, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
	}); i >= 0 {
		t.Errorf("%s: %q", where, text[max(0, i-60):min(len(text), i+60)])
	}
}

// checkFiles looks at the files that were written, of which one of a plan with steps counts.
func checkFiles(t *testing.T, name, dir, bin string, given int) (steps int) {
	t.Helper()
	if there, err := os.ReadDir(dir); err != nil || len(there) > given+1 {
		t.Errorf("%q: %v beside the output, %v", name, there, err)
	}
	code := regexp.MustCompile("`([^`\n]*)`")
	must.Do(t, filepath.WalkDir(filepath.Join(dir, "out"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text := string(must.Get(os.ReadFile(path))(t))
		shown(t, path, text)
		if ext := filepath.Ext(path); ext != ".yaml" && strings.Contains(text, "<script>alert") || ext == ".md" && strings.Contains(text, "](javascript:") {
			t.Errorf("%q: %s opens an element", name, path)
		}
		switch filepath.Ext(path) {
		case ".yaml":
			dec, doc := yaml.NewDecoder(strings.NewReader(text)), yaml.Node{}
			for err = dec.Decode(&doc); err == nil; err = dec.Decode(&doc) {
				checkNode(t, name, path, &doc)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%q: %s: %v", name, path, err)
			}
		case ".md":
			if strings.Contains(text, "\n## 1. ") {
				steps = 1
			}
			for _, span := range code.FindAllStringSubmatch(text, -1) {
				cmd := exec.Command("/bin/sh", "-c", span[1])
				cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + bin}
				_ = cmd.Run() // whatever comes of it
				if _, err := os.Stat(filepath.Join(cmd.Dir, "owned")); err == nil {
					t.Errorf("%q: %s: %s", name, path, span[1])
				}
			}
		}
		return nil
	}))
	return steps
}

// checkNode fails where a name became a key or another value than text.
func checkNode(t *testing.T, name, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && (n.Value == "owned" || n.Value == name && n.Tag != "!!str") {
		t.Errorf("%q: %s:%d: %s %q", name, path, n.Line, n.Tag, n.Value)
	}
	for _, c := range n.Content {
		checkNode(t, name, path, c)
	}
}
