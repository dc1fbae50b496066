// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// schemas are the documents that are written, by kind.
var schemas = sync.OnceValue(func() (all map[string]yaml.Node) {
	data, err := os.ReadFile("testdata/schema.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &all)
	}
	if err != nil {
		panic(err)
	}
	return all
})

// resources and annotations that the schedulers and plugins know.
var (
	knownResources = []string{"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/priority",
		"volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"}
	knownAnnotations = []string{"nvidia.com/vgpu-mode", "nvidia.com/use-gputype", "volcano.sh/vgpu-mode", "gpu-fraction", "gpu-memory", "gpu-fraction-container-name"}
)

// checkSchema compares a value with its schema: a mapping of keys, a list of one item, or the name of a type.
func checkSchema(t *testing.T, file, at string, schema, n *yaml.Node) {
	t.Helper()
	kinds := map[yaml.Kind]string{yaml.MappingNode: "map", yaml.SequenceNode: "list", yaml.ScalarNode: strings.TrimPrefix(n.Tag, "!!")}
	switch {
	case schema.Value == "any" || schema.Kind == yaml.ScalarNode && schema.Value == kinds[n.Kind]:
	case n.Kind != schema.Kind || schema.Kind == yaml.ScalarNode:
		t.Errorf("%s: %s is a %s, not a %s%s", file, at, kinds[n.Kind], schema.Value, map[yaml.Kind]string{yaml.MappingNode: "map", yaml.SequenceNode: "list"}[schema.Kind])
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			checkSchema(t, file, fmt.Sprintf("%s[%d]", at, i), schema.Content[0], item)
		}
	default:
		keys := map[string]*yaml.Node{}
		for i := 0; i < len(schema.Content); i += 2 {
			key, required := strings.CutSuffix(schema.Content[i].Value, "!")
			if keys[key] = schema.Content[i+1]; required && field(n, key) == nil {
				t.Errorf("%s: %s.%s is missing", file, at, key)
			}
		}
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if of := cmp.Or(keys["*"], keys[key]); of == nil {
				t.Errorf("%s: %s.%s is no field", file, at, key)
			} else {
				checkSchema(t, file, at+"."+key, of, n.Content[i+1])
			}
		}
	}
}

func field(n *yaml.Node, path ...string) *yaml.Node {
	for _, p := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == p {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

func text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

func checkFile(t *testing.T, f File) {
	t.Helper()
	docs, err := strictyaml.Parse(f.Data, strictyaml.Options{})
	if err != nil {
		t.Errorf("%s: %v", f.Path, err)
		return
	}
	folder, _, _ := strings.Cut(f.Path, "/")
	for _, d := range docs {
		kind := text(field(d, "kind"))
		switch {
		case kind == "" && folder == "nodes":
			kind = "node patch"
		case kind == "" && folder == "gpu-operator":
			kind = "operator values"
		case kind == "" && folder == "hami":
			kind = "hami values"
		case kind == "" && folder == "llm-d":
			kind = "llm-d values"
		case kind == "" && folder == "volcano":
			kind = "volcano"
		case kind == "" && folder == "device-plugin":
			checkPlugin(t, f.Path, f.Data)
			continue
		case kind == "" && folder == "mig-parted":
			if _, err := parted.Parse(f.Data); err != nil {
				t.Errorf("%s: %v", f.Path, err)
			}
			continue
		}
		schema, ok := schemas()[kind]
		if !ok {
			t.Errorf("%s: no schema for %q", f.Path, kind)
			continue
		}
		checkSchema(t, f.Path, kind, &schema, d)
		checkKind(t, f.Path, kind, d)
	}
}

func checkKind(t *testing.T, path, kind string, d *yaml.Node) {
	t.Helper()
	apiVersion := map[string]string{"ConfigMap": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1", "ResourceClaim": "resource.k8s.io/v1", "ResourceClaimTemplate": "resource.k8s.io/v1",
		"ClusterConfig": "eksctl.io/v1alpha5", "InferencePool": "inference.networking.k8s.io/v1", "EndpointPickerConfig": "llm-d.ai/v1alpha1"}[kind]
	if got := text(field(d, "apiVersion")); got != apiVersion {
		t.Errorf("%s: %s has apiVersion %q", path, kind, got)
	}
	switch kind {
	case "ConfigMap":
		data := field(d, "data")
		for i := 0; i < len(data.Content); i += 2 {
			if data.Content[i].Value == "router-plugins.yaml" {
				checkPicker(t, path, data.Content[i+1].Value)
				continue
			}
			if data.Content[i].Value == "config.yaml" {
				if _, err := parted.Parse([]byte(data.Content[i+1].Value)); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				continue
			}
			checkPlugin(t, path, []byte(data.Content[i+1].Value))
		}
	case "ResourceClaim", "ResourceClaimTemplate":
		spec := field(d, "spec")
		if kind == "ResourceClaimTemplate" {
			spec = field(spec, "spec")
		}
		class := text(field(field(spec, "devices", "requests").Content[0], "exactly", "deviceClassName"))
		if class != "gpu.nvidia.com" && class != "mig.nvidia.com" {
			t.Errorf("%s: device class %q", path, class)
		}
		if config := field(spec, "devices", "config"); config != nil {
			parameters := field(config.Content[0], "opaque", "parameters")
			schema := schemas()["DRA parameters"]
			checkSchema(t, path, "parameters", &schema, parameters)
			want := map[string]string{"gpu.nvidia.com": "GpuConfig", "mig.nvidia.com": "MigDeviceConfig"}[class]
			if text(field(parameters, "apiVersion")) != "resource.nvidia.com/v1beta1" || text(field(parameters, "kind")) != want {
				t.Errorf("%s: parameters of the wrong kind for %s", path, class)
			}
		}
	case "Deployment", "StatefulSet", "Job":
		pod := field(d, "spec", "template")
		container := field(pod, "spec", "containers").Content[0]
		if limits := field(container, "resources", "limits"); limits != nil {
			for i := 0; i < len(limits.Content); i += 2 {
				name := limits.Content[i].Value
				if _, err := mig.ParseResourceName(name); err != nil && !slices.Contains(knownResources, name) {
					t.Errorf("%s: no plugin offers %s", path, name)
				}
			}
		}
		if a := field(pod, "metadata", "annotations"); a != nil {
			for i := 0; i < len(a.Content); i += 2 {
				if !slices.Contains(knownAnnotations, a.Content[i].Value) {
					t.Errorf("%s: nothing reads the annotation %s", path, a.Content[i].Value)
				}
			}
			if why := kaiRefuses(values(a), []string{field(container, "name").Value}, values(field(container, "resources", "limits"))); field(pod, "spec", "schedulerName") != nil && field(pod, "spec", "schedulerName").Value == "kai-scheduler" && why != "" {
				t.Errorf("%s: KAI's admission refuses it: %s", path, why)
			}
		}
	}
}

// values are the entries of a mapping of texts.
func values(n *yaml.Node) map[string]string {
	out := map[string]string{}
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		out[n.Content[i].Value] = n.Content[i+1].Value
	}
	return out
}

// checkPlugin holds a configuration of the device plugin against a table of its fields; tools/upstream has the plugin
// itself read them.
func checkPlugin(t *testing.T, path string, data []byte) {
	t.Helper()
	docs, err := strictyaml.Parse(data, strictyaml.Options{})
	if err != nil || len(docs) != 1 {
		t.Fatalf("%s: %v", path, err)
	}
	schema := schemas()["plugin config"]
	checkSchema(t, path, "plugin config", &schema, docs[0])
}

func TestEveryDocumentIsValid(t *testing.T) {
	for _, d := range sharing.Deliveries() {
		s := mixed(t)
		s.deliver(d)
		folder, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		kinds := 0
		for _, f := range folder.Files {
			if strings.HasSuffix(f.Path, ".yaml") {
				checkFile(t, f)
				kinds++
			}
		}
		if kinds < 10 {
			t.Errorf("%v: only %d documents", d, kinds)
		}
	}
}

// A node label names a configuration that exists, and pods select a label that nodes get.
func TestReferencesResolve(t *testing.T) {
	for _, d := range []sharing.Delivery{sharing.DeliveryDevicePlugin, sharing.DeliveryDRA} {
		s := mixed(t)
		s.deliver(d)
		checkReferences(t, s)
	}
}

func checkReferences(t *testing.T, s *scenario) {
	t.Helper()
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	parted, err := parted.Parse([]byte(find(t, folder, "mig-parted/config.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]bool{}
	claims := map[string]bool{}
	var deployments []*yaml.Node
	for _, f := range folder.Files {
		if !strings.HasSuffix(f.Path, ".yaml") {
			continue
		}
		docs, err := strictyaml.Parse(f.Data, strictyaml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			switch {
			case strings.HasPrefix(f.Path, "nodes/"):
				labels := field(d, "metadata", "labels")
				groups[text(field(labels, groupLabel))] = true
				if key := text(field(labels, "nvidia.com/device-plugin.config")); key != "" {
					find(t, folder, "device-plugin/"+key+".yaml")
				}
				if label := text(field(labels, "nvidia.com/mig.config")); label != "" && !slices.Contains(parted.Labels(), label) {
					t.Errorf("%s: mig-parted has no label %s", f.Path, label)
				}
			case strings.HasPrefix(text(field(d, "kind")), "ResourceClaim"):
				claims[text(field(d, "metadata", "namespace"))+"/"+text(field(d, "metadata", "name"))] = true
			case field(d, "spec", "template") != nil:
				deployments = append(deployments, d)
			}
		}
	}
	for _, d := range deployments {
		spec := field(d, "spec", "template", "spec")
		name := text(field(d, "metadata", "name"))
		for _, sel := range selects(spec) {
			if !groups[sel] {
				t.Errorf("%s selects nodes %q, which none is", name, sel)
			}
		}
		if len(selects(spec)) == 0 {
			t.Errorf("%s may be anywhere", name)
		}
		if rc := field(spec, "resourceClaims"); rc != nil {
			claim := text(field(rc.Content[0], "resourceClaimName")) + text(field(rc.Content[0], "resourceClaimTemplateName"))
			if !claims[text(field(d, "metadata", "namespace"))+"/"+claim] {
				t.Errorf("%s names claim %q, which does not exist in its namespace", name, claim)
			}
		}
	}
	if len(deployments) < 10 || s.nodes[0].Delivery == sharing.DeliveryDRA && len(claims) < 5 {
		t.Errorf("%d deployments, %d claims", len(deployments), len(claims))
	}
}

// selects are the groups that pods may be on.
func selects(pod *yaml.Node) (out []string) {
	if one := text(field(pod, "nodeSelector", groupLabel)); one != "" {
		return []string{one}
	}
	terms := field(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if terms == nil {
		return nil
	}
	for _, v := range field(field(terms.Content[0], "matchExpressions").Content[0], "values").Content {
		out = append(out, v.Value)
	}
	return out
}
