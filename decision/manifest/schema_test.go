// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// schema lists every path that a document may have, with the type of its value: "[]" is any index, "*" for any
// key. A "!" behind the type makes the path required where its parent is there. The tables are written by hand from the
// upstream APIs.
type schema map[string]string

func meta(prefix string) schema {
	return schema{
		prefix + "metadata": "map!", prefix + "metadata.name": "str!", prefix + "metadata.namespace": "str",
		prefix + "metadata.labels": "map", prefix + "metadata.labels.*": "str", prefix + "metadata.annotations": "map", prefix + "metadata.annotations.*": "str",
	}
}

func merge(ss ...schema) schema {
	out := schema{}
	for _, s := range ss {
		for k, v := range s {
			out[k] = v
		}
	}
	return out
}

func claimSchema(spec string) schema {
	d := spec + "devices."
	return merge(meta(""), schema{
		"apiVersion": "str!", "kind": "str!", spec + "devices": "map!", d + "requests": "list!", d + "requests[]": "map", d + "requests[].name": "str!",
		d + "requests[].exactly": "map!", d + "requests[].exactly.deviceClassName": "str!", d + "requests[].exactly.allocationMode": "str", d + "requests[].exactly.count": "int",
		d + "requests[].exactly.capacity": "map", d + "requests[].exactly.capacity.requests": "map!", d + "requests[].exactly.capacity.requests.*": "str",
		d + "requests[].exactly.selectors": "list", d + "requests[].exactly.selectors[]": "map", d + "requests[].exactly.selectors[].cel": "map!", d + "requests[].exactly.selectors[].cel.expression": "str!",
		d + "config": "list", d + "config[]": "map", d + "config[].requests": "list", d + "config[].requests[]": "str", d + "config[].opaque": "map!", d + "config[].opaque.driver": "str!",
		d + "config[].opaque.parameters": "any!",
	})
}

// podTemplate is the part of an object that its pods are made from.
func podTemplate(at string) schema {
	out := schema{}
	of := schema{
		".metadata": "map", ".metadata.labels": "map", ".metadata.labels.*": "str",
		".metadata.annotations": "map", ".metadata.annotations.*": "str", ".spec": "map!", ".spec.schedulerName": "str",
		".spec.nodeSelector": "map", ".spec.nodeSelector.*": "str", ".spec.affinity": "any", ".spec.tolerations": "any", ".spec.volumes": "any", ".spec.containers[].volumeMounts": "any",
		".spec.resourceClaims": "list", ".spec.resourceClaims[]": "map", ".spec.resourceClaims[].name": "str!",
		".spec.resourceClaims[].resourceClaimName": "str", ".spec.resourceClaims[].resourceClaimTemplateName": "str",
		".spec.containers": "list!", ".spec.containers[]": "map", ".spec.containers[].name": "str!", ".spec.containers[].image": "str",
		".spec.containers[].args": "list", ".spec.containers[].args[]": "str",
		".spec.containers[].env": "list", ".spec.containers[].env[]": "map", ".spec.containers[].env[].name": "str!", ".spec.containers[].env[].value": "str!",
		".spec.containers[].resources": "map", ".spec.containers[].resources.limits": "map", ".spec.containers[].resources.limits.*": "str",
		".spec.containers[].resources.claims": "list", ".spec.containers[].resources.claims[]": "map", ".spec.containers[].resources.claims[].name": "str!",
	}
	for path, typ := range of {
		out[at+path] = typ
	}
	return out
}

var schemas = map[string]schema{
	"ConfigMap":             merge(meta(""), schema{"apiVersion": "str!", "kind": "str!", "data": "map!", "data.*": "str"}),
	"ResourceClaim":         merge(claimSchema("spec."), schema{"spec": "map!"}),
	"ResourceClaimTemplate": merge(claimSchema("spec.spec."), schema{"spec": "map!", "spec.spec": "map!"}),
	"Deployment":            merge(meta(""), podTemplate("spec.template"), schema{"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.replicas": "int!", "spec.template": "map!"}),
	"StatefulSet":           merge(meta(""), podTemplate("spec.template"), schema{"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.replicas": "int!", "spec.template": "map!"}),
	"Job":                   merge(meta(""), podTemplate("spec.template"), schema{"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.parallelism": "int!", "spec.completions": "int!", "spec.template": "map!"}),
	"CronJob": merge(meta(""), podTemplate("spec.jobTemplate.spec.template"), schema{"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.jobTemplate": "map!", "spec.jobTemplate.spec": "map!",
		"spec.jobTemplate.spec.parallelism": "int!", "spec.jobTemplate.spec.completions": "int!", "spec.jobTemplate.spec.template": "map!"}),
	"DRA parameters": {"apiVersion": "str!", "kind": "str!", "sharing": "map!", "sharing.strategy": "str!",
		"sharing.timeSlicingConfig": "map", "sharing.timeSlicingConfig.interval": "str!", "sharing.mpsConfig": "map",
		"sharing.mpsConfig.defaultActiveThreadPercentage": "int", "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit": "str"},
	// Of the Gateway API inference extension v1.6.0 and llm-d-router v0.10.0.
	"InferencePool": merge(meta(""), schema{
		"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.selector": "map!", "spec.selector.matchLabels": "map!", "spec.selector.matchLabels.*": "str",
		"spec.targetPorts": "list!", "spec.targetPorts[]": "map", "spec.targetPorts[].number": "int!",
		"spec.endpointPickerRef": "map!", "spec.endpointPickerRef.kind": "str", "spec.endpointPickerRef.name": "str!",
		"spec.endpointPickerRef.port": "map", "spec.endpointPickerRef.port.number": "int!", "spec.endpointPickerRef.failureMode": "str",
	}),
	"EndpointPickerConfig": {
		"apiVersion": "str!", "kind": "str!", "plugins": "list!", "plugins[]": "map", "plugins[].type": "str!",
		"schedulingProfiles": "list!", "schedulingProfiles[]": "map", "schedulingProfiles[].name": "str!", "schedulingProfiles[].plugins": "list!", "schedulingProfiles[].plugins[]": "map",
		"schedulingProfiles[].plugins[].pluginRef": "str!", "schedulingProfiles[].plugins[].weight": "int",
	},
	"llm-d values": {
		"router": "map!", "router.modelServers": "map!", "router.modelServers.type": "str", "router.modelServers.protocol": "str", "router.modelServers.targetPorts": "list",
		"router.modelServers.targetPorts[]": "map", "router.modelServers.targetPorts[].number": "int!", "router.modelServers.matchLabels": "map!", "router.modelServers.matchLabels.*": "str",
		"router.inferencePool": "map", "router.inferencePool.create": "bool", "router.inferencePool.failureMode": "str",
		"router.epp": "map", "router.epp.pluginsConfigFile": "str", "router.epp.pluginsCustomConfig": "map", "router.epp.pluginsCustomConfig.*": "str",
	},
	// Of schema.json of eksctl v0.222, which allows no other fields.
	"ClusterConfig": {"apiVersion": "str!", "kind": "str!", "metadata": "map!", "metadata.name": "str!", "metadata.region": "str!", "managedNodeGroups": "list!",
		"managedNodeGroups[]": "map", "managedNodeGroups[].name": "str!", "managedNodeGroups[].amiFamily": "str!", "managedNodeGroups[].instanceType": "str!",
		"managedNodeGroups[].desiredCapacity": "int!", "managedNodeGroups[].labels": "map!", "managedNodeGroups[].labels.*": "str", "managedNodeGroups[].taints": "list!",
		"managedNodeGroups[].taints[]": "map", "managedNodeGroups[].taints[].key": "str!", "managedNodeGroups[].taints[].value": "str!", "managedNodeGroups[].taints[].effect": "str!"},
	"plugin config": {"version": "str!", "flags": "map!", "flags.migStrategy": "str!", "flags.mpsRoot": "str", "sharing": "map", "sharing.mps": "map", "sharing.mps.failRequestsGreaterThanOne": "bool",
		"sharing.mps.resources": "list!", "sharing.mps.resources[]": "map", "sharing.mps.resources[].name": "str!", "sharing.mps.resources[].replicas": "int!",
		"sharing.timeSlicing": "map", "sharing.timeSlicing.failRequestsGreaterThanOne": "bool", "sharing.timeSlicing.resources": "list!", "sharing.timeSlicing.resources[]": "map",
		"sharing.timeSlicing.resources[].name": "str!", "sharing.timeSlicing.resources[].replicas": "int!"},
	"node patch": {"metadata": "map!", "metadata.labels": "map!", "metadata.labels.*": "str"},
	"operator values": {
		"mig": "map", "mig.strategy": "str!", "migManager": "map", "migManager.enabled": "bool!", "migManager.config": "map", "migManager.config.name": "str!", "migManager.config.default": "str!",
		"devicePlugin": "map", "devicePlugin.config": "map!", "devicePlugin.config.name": "str!", "devicePlugin.config.default": "str!", "devicePlugin.mps": "map", "devicePlugin.mps.root": "str!",
	},
	"hami values": {"devicePlugin": "map!", "devicePlugin.deviceSplitCount": "int!", "devicePlugin.deviceMemoryScaling": "int!", "devicePlugin.deviceCoreScaling": "int!"},
	"volcano": {"tiers": "list!", "tiers[]": "map", "tiers[].plugins": "list!", "tiers[].plugins[]": "map", "tiers[].plugins[].name": "str!", "tiers[].plugins[].arguments": "map",
		"tiers[].plugins[].arguments.*": "any"},
}

// resources and annotations that the schedulers and plugins know.
var (
	knownResources = []string{"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/priority",
		"volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"}
	knownAnnotations = []string{"nvidia.com/vgpu-mode", "nvidia.com/use-gputype", "volcano.sh/vgpu-mode", "gpu-fraction", "gpu-memory", "gpu-fraction-container-name"}
)

func (s schema) check(t *testing.T, file, kind string, n *yaml.Node) {
	t.Helper()
	var walk func(path, at string, n *yaml.Node)
	walk = func(path, at string, n *yaml.Node) {
		if path != "" {
			typ := strings.TrimSuffix(s[path], "!")
			if typ == "any" {
				return
			}
			got := map[yaml.Kind]string{yaml.MappingNode: "map", yaml.SequenceNode: "list", yaml.ScalarNode: strings.TrimPrefix(n.Tag, "!!")}[n.Kind]
			if typ == "" {
				t.Errorf("%s: %s: %s is no field", file, kind, at)
				return
			}
			if got != typ {
				t.Errorf("%s: %s: %s is a %s, not a %s", file, kind, at, got, typ)
			}
		}
		switch n.Kind {
		case yaml.SequenceNode:
			for i, c := range n.Content {
				walk(path+"[]", fmt.Sprintf("%s[%d]", at, i), c)
			}
		case yaml.MappingNode:
			dot := path
			if dot != "" {
				dot += "."
			}
			var keys []string
			for i := 0; i < len(n.Content); i += 2 {
				k := n.Content[i].Value
				keys = append(keys, k)
				p := dot + k
				if _, anyKey := s[dot+"*"]; anyKey {
					p = dot + "*"
				}
				walk(p, strings.TrimPrefix(at+"."+k, "."), n.Content[i+1])
			}
			for p, typ := range s {
				rest, under := strings.CutPrefix(p, dot)
				if under && strings.HasSuffix(typ, "!") && !strings.ContainsAny(rest, ".[") && !slices.Contains(keys, rest) {
					t.Errorf("%s: %s: %s.%s is missing", file, kind, at, rest)
				}
			}
		}
	}
	walk("", "", n)
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
		s, ok := schemas[kind]
		if !ok {
			t.Errorf("%s: no schema for %q", f.Path, kind)
			continue
		}
		s.check(t, f.Path, kind, d)
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
			schemas["DRA parameters"].check(t, path, "DRA parameters", parameters)
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
	schemas["plugin config"].check(t, path, "plugin config", docs[0])
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
