// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// checkPicker holds the configuration of an endpoint picker against its table, and its references against its plugins.
func checkPicker(t *testing.T, file, data string) {
	t.Helper()
	docs, err := strictyaml.Parse([]byte(data), strictyaml.Options{})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	schema := schemas()["EndpointPickerConfig"]
	checkSchema(t, file, "EndpointPickerConfig", &schema, docs[0])
	var plugins []string
	for _, p := range field(docs[0], "plugins").Content {
		plugins = append(plugins, text(field(p, "type")))
	}
	known := []string{"single-profile-handler", "prefix-cache-scorer", "active-request-scorer", "max-score-picker"}
	if !slices.Equal(plugins, known) {
		t.Errorf("%s: plugins %v", file, plugins)
	}
	for _, ref := range field(field(docs[0], "schedulingProfiles").Content[0], "plugins").Content {
		name := text(field(ref, "pluginRef"))
		if scores := strings.HasSuffix(name, "-scorer"); !slices.Contains(plugins, name) || (field(ref, "weight") != nil) != scores {
			t.Errorf("%s: %s and its weight", file, name)
		}
	}
}

const services = `
version: v1
trust: all
pools: [{name: serve, gpu: H100 80GB HBM3, count: 12, gpus_per_node: 4}]
workloads:
  - {name: team-a/Chat_8B, kind: online-inference, replicas: 3, model: {parameters: 8e9, weights: fp16}, gpu_busy: 0.3}
  - {name: team-b/rerank, kind: online-inference, replicas: 2, memory: 8GiB, gpu_busy: 0.1}
  - {name: team-b/one, kind: online-inference, model: {parameters: 8e9, weights: fp16}, gpu_busy: 0.3}
  - {name: team-b/code, kind: online-inference, replicas: 2, memory: 20GiB, gpu_busy: 0.2, framework: {name: sglang}}
  - {name: offline, kind: offline-inference, replicas: 3, model: {parameters: 8e9, weights: fp16}, gpu_busy: 0.3}
`

// TestRouters: online services of language models with several replicas get a router with a pool that selects the labels
// that their Deployments in the same folder give their pods.
func TestRouters(t *testing.T) {
	fleet, err := decision.ParseFleet([]byte(services))
	if err != nil {
		t.Fatal(err)
	}
	result, err := decision.Decide(t.Context(), fleet, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := Build(fleet, result)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	selected, labelled := map[string]bool{}, map[string]bool{}
	for _, f := range folder.Files {
		router := strings.HasPrefix(f.Path, "inference-extension/")
		if router || strings.HasPrefix(f.Path, "llm-d/") {
			checkFile(t, f)
			b.WriteString("==> " + f.Path + " (" + f.Note + ")\n")
			b.Write(f.Data)
		}
		if !router && !strings.Contains(f.Path, "pods/") {
			continue
		}
		docs, err := strictyaml.Parse(f.Data, strictyaml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			key := text(field(d, "metadata", "namespace")) + "/"
			switch text(field(d, "kind")) {
			case "InferencePool":
				selected[key+text(field(d, "spec", "selector", "matchLabels", serviceLabel))] = true
			case "Deployment":
				if name := text(field(d, "spec", "template", "metadata", "labels", serviceLabel)); name != "" {
					labelled[key+name] = true
				}
			}
		}
	}
	golden.Check(t, "testdata/services.txt", b.Bytes())
	want := []string{"team-a/chat-8b", "team-b/code"}
	for _, name := range want {
		if !selected[name] || !labelled[name] {
			t.Errorf("%s has no router: %v selects %v", name, selected, labelled)
		}
	}
	if len(selected) != len(want) || len(labelled) != len(want) {
		t.Errorf("%v selects %v, want %v", selected, labelled, want)
	}
}

// Names that are too long for a release are cut, each to one of its own.
func TestRoutersLongNames(t *testing.T) {
	w := decision.Workload{Kind: decision.KindOnlineInference, Model: &fleet.LanguageModel{}}
	var b builder
	for _, last := range []string{"a", "b"} {
		b.members = append(b.members, &member{Decision: &decision.Decision{Replicas: 2}, workload: &w, all: 2, name: strings.Repeat("x", 60) + last})
	}
	paths := map[string]bool{}
	b.routers()
	for _, f := range b.Files {
		paths[f.Path] = true
		if name, _, _ := strings.Cut(strings.TrimPrefix(f.Path, "llm-d/"), "."); strings.HasPrefix(f.Path, "llm-d/") && len(name) > longestRelease {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
	if b.err != nil || len(paths) != 4 {
		t.Errorf("%d files: %v", len(paths), b.err)
	}
}
