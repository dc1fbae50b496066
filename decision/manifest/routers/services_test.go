package routers

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

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

func servicesFolder(t *testing.T, s Services) *manifest.Folder {
	t.Helper()
	fleet, err := decision.ParseFleet([]byte(services))
	if err != nil {
		t.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := manifest.Build(fleet, result, manifest.Options{Extensions: []manifest.Extension{s}})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestServices: online services of language models with several replicas get a router, whose pool selects the labels
// that their Deployments in the same folder give their pods.
func TestServices(t *testing.T) {
	folder := servicesFolder(t, Services{})
	var b bytes.Buffer
	selected, labelled := map[string]bool{}, map[string]bool{}
	for _, f := range folder.Files {
		router := strings.HasPrefix(f.Path, "inference-extension/")
		if router || strings.HasPrefix(f.Path, "llm-d/") {
			checkRouterFile(t, f)
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
				selected[key+text(field(d, "spec", "selector", "matchLabels", ServiceLabel))] = true
			case "Deployment":
				if name := text(field(d, "spec", "template", "metadata", "labels", ServiceLabel)); name != "" {
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

// Another policy holds for all services, and what a router lacks of it is said in the folder.
func TestServicesPolicy(t *testing.T) {
	folder := servicesFolder(t, Services{Policy: PolicyRoundRobin})
	n := 0
	for _, w := range folder.Warnings {
		if w.Code == WarnPolicy {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d warnings: %v", n, folder.Warnings)
	}
}

// Names that are too long for a release are cut, each to one of its own.
func TestServicesLongNames(t *testing.T) {
	w := decision.Workload{Kind: decision.KindOnlineInference, Model: &decision.LanguageModel{}}
	var group manifest.Group
	for _, last := range []string{"a", "b"} {
		group.Members = append(group.Members, manifest.Member{Workload: &w, Name: strings.Repeat("x", 60) + last, Replicas: 2})
	}
	files, _, err := Services{}.Documents([]manifest.Group{group})
	if err != nil || len(files) != 4 {
		t.Errorf("%d files: %v", len(files), err)
	}
}
