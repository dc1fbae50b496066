package routers

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// The tables of the routers' documents, by hand from the extension's reference of
// inference.networking.k8s.io/v1 (v1.6.0), the types of llm-d-router's llm-d.ai/v1alpha2
// and EndpointPickerConfig (v0.10.0), the values of its chart routerlib, and the schema and values
// of the production stack's chart.
var routerSchemas = map[string]schema{
	"InferencePool": merge(meta(""), schema{
		"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.selector": "map!", "spec.selector.matchLabels": "map!", "spec.selector.matchLabels.*": "str",
		"spec.targetPorts": "list!", "spec.targetPorts[]": "map", "spec.targetPorts[].number": "int!", "spec.appProtocol": "str",
		"spec.endpointPickerRef": "map!", "spec.endpointPickerRef.group": "str", "spec.endpointPickerRef.kind": "str", "spec.endpointPickerRef.name": "str!",
		"spec.endpointPickerRef.port": "map", "spec.endpointPickerRef.port.number": "int!", "spec.endpointPickerRef.failureMode": "str",
	}),
	"InferenceObjective": merge(meta(""), schema{
		"apiVersion": "str!", "kind": "str!", "spec": "map!", "spec.priority": "int", "spec.poolRef": "map!", "spec.poolRef.group": "str", "spec.poolRef.kind": "str", "spec.poolRef.name": "str!",
	}),
	"EndpointPickerConfig": {
		"apiVersion": "str!", "kind": "str!", "featureGates": "list", "plugins": "list!", "plugins[]": "map", "plugins[].name": "str", "plugins[].type": "str!", "plugins[].parameters": "any",
		"schedulingProfiles": "list!", "schedulingProfiles[]": "map", "schedulingProfiles[].name": "str!", "schedulingProfiles[].plugins": "list!", "schedulingProfiles[].plugins[]": "map",
		"schedulingProfiles[].plugins[].pluginRef": "str!", "schedulingProfiles[].plugins[].weight": "int",
		"dataLayer": "map", "dataLayer.sources": "list", "dataLayer.sources[]": "map", "dataLayer.sources[].pluginRef": "str!", "dataLayer.sources[].extractors": "list!",
		"dataLayer.sources[].extractors[]": "map", "dataLayer.sources[].extractors[].pluginRef": "str!",
	},
	"llm-d values": {
		"router": "map!", "router.modelServers": "map!", "router.modelServers.type": "str", "router.modelServers.protocol": "str", "router.modelServers.targetPorts": "list",
		"router.modelServers.targetPorts[]": "map", "router.modelServers.targetPorts[].number": "int!", "router.modelServers.matchLabels": "map!", "router.modelServers.matchLabels.*": "str",
		"router.inferencePool": "map", "router.inferencePool.create": "bool", "router.inferencePool.failureMode": "str",
		"router.epp": "map", "router.epp.pluginsConfigFile": "str", "router.epp.pluginsCustomConfig": "map", "router.epp.pluginsCustomConfig.*": "str",
		"router.inferenceObjectives": "list", "router.inferenceObjectives[]": "map", "router.inferenceObjectives[].name": "str!", "router.inferenceObjectives[].priority": "int!",
	},
	"stack values": {
		"servingEngineSpec": "map", "servingEngineSpec.labels": "map", "servingEngineSpec.labels.*": "str", "servingEngineSpec.containerPort": "int", "servingEngineSpec.modelSpec": "list",
		"servingEngineSpec.modelSpec[]": "map", "servingEngineSpec.modelSpec[].name": "str!", "servingEngineSpec.modelSpec[].repository": "str!", "servingEngineSpec.modelSpec[].tag": "str!",
		"servingEngineSpec.modelSpec[].modelURL": "str!", "servingEngineSpec.modelSpec[].replicaCount": "int!", "servingEngineSpec.modelSpec[].requestCPU": "int!",
		"servingEngineSpec.modelSpec[].requestMemory": "str!", "servingEngineSpec.modelSpec[].requestGPU": "int!", "servingEngineSpec.modelSpec[].requestGPUType": "str",
		"servingEngineSpec.modelSpec[].pvcStorage": "str!", "servingEngineSpec.modelSpec[].enableLoRA": "bool", "servingEngineSpec.modelSpec[].vllmConfig": "map",
		"servingEngineSpec.modelSpec[].vllmConfig.enablePrefixCaching": "bool", "servingEngineSpec.modelSpec[].vllmConfig.maxLoras": "int",
		"servingEngineSpec.modelSpec[].vllmConfig.extraArgs": "list", "servingEngineSpec.modelSpec[].vllmConfig.extraArgs[]": "str",
		"routerSpec": "map", "routerSpec.enableRouter": "bool", "routerSpec.replicaCount": "int", "routerSpec.serviceDiscovery": "str", "routerSpec.routingLogic": "str", "routerSpec.sessionKey": "str",
		"routerSpec.lmcacheControllerPort": "int",
	},
}

// knownPlugins are the plugins of each endpoint picker, with the parameters that they
// take.
var knownPlugins = map[string]map[string][]string{
	"llm-d.ai/v1alpha1": {
		"single-profile-handler": nil, "queue-scorer": nil, "kv-cache-utilization-scorer": nil, "lora-affinity-scorer": nil, "active-request-scorer": nil, "session-affinity-scorer": nil,
		"prefix-cache-scorer": {"prefixMatchInfoProducerName"}, "max-score-picker": {"maxNumOfEndpoints"}, "random-picker": {"maxNumOfEndpoints"},
		"token-producer": {"backend", "modelName", "vllm"}, "precise-prefix-cache-producer": {"tokenProcessorConfig", "indexerConfig"},
		"endpoint-notification-source": nil, "metrics-data-source": nil, "core-metrics-extractor": nil,
	},
}

// checkPicker holds an EndpointPickerConfig against its table, its references
// against its plugins, and these against what the picker knows.
func checkPicker(t *testing.T, file string, n *yaml.Node) {
	t.Helper()
	routerSchemas["EndpointPickerConfig"].check(t, file, "EndpointPickerConfig", n)
	known := knownPlugins[text(field(n, "apiVersion"))]
	if known == nil {
		t.Errorf("%s: apiVersion %q", file, text(field(n, "apiVersion")))
	}
	var names []string
	for _, p := range field(n, "plugins").Content {
		kind := text(field(p, "type"))
		names = append(names, kind)
		params, ok := known[kind]
		if !ok {
			t.Errorf("%s: no plugin %q", file, kind)
		}
		if given := field(p, "parameters"); given != nil {
			for i := 0; i < len(given.Content); i += 2 {
				if !slices.Contains(params, given.Content[i].Value) {
					t.Errorf("%s: %s has no parameter %s", file, kind, given.Content[i].Value)
				}
			}
		}
	}
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%s: a plugin twice: %v", file, names)
	}
	pickers := 0
	var refs func(*yaml.Node)
	refs = func(n *yaml.Node) {
		if ref := field(n, "pluginRef"); ref != nil {
			if !slices.Contains(names, ref.Value) {
				t.Errorf("%s: %s is referred to and not there", file, ref.Value)
			}
			if strings.HasSuffix(ref.Value, "-picker") {
				pickers++
			}
			if weight := field(n, "weight"); (weight != nil) != strings.HasSuffix(ref.Value, "-scorer") && !strings.HasSuffix(ref.Value, "-source") && !strings.HasSuffix(ref.Value, "-extractor") &&
				!strings.HasSuffix(ref.Value, "-producer") {
				t.Errorf("%s: %s and its weight", file, ref.Value)
			}
		}
		for _, c := range n.Content {
			refs(c)
		}
	}
	refs(n)
	if pickers != 1 {
		t.Errorf("%s: %d pickers", file, pickers)
	}
}

func checkRouterFile(t *testing.T, f manifest.File) {
	t.Helper()
	docs, err := strictyaml.Parse(f.Data, strictyaml.Options{})
	if err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}
	for _, d := range docs {
		kind := text(field(d, "kind"))
		folder, _, _ := strings.Cut(f.Path, "/")
		switch {
		case folder == "llm-d":
			kind = "llm-d values"
		case folder == "production-stack":
			kind = "stack values"
		case kind == "ConfigMap":
			merge(meta(""), schema{"apiVersion": "str!", "kind": "str!", "data": "map!", "data.*": "str"}).check(t, f.Path, kind, d)
		}
		if want := map[string]string{"InferencePool": "inference.networking.k8s.io/v1", "InferenceObjective": "llm-d.ai/v1alpha2"}[kind]; want != "" && text(field(d, "apiVersion")) != want {
			t.Errorf("%s: %s is of %s, and upstream has %s", f.Path, kind, text(field(d, "apiVersion")), want)
		}
		if s, ok := routerSchemas[kind]; ok {
			s.check(t, f.Path, kind, d)
		} else if kind != "ConfigMap" {
			t.Errorf("%s: no schema for %q", f.Path, kind)
		}
		for _, data := range []*yaml.Node{field(d, "data"), field(d, "router", "epp", "pluginsCustomConfig")} {
			if data == nil {
				continue
			}
			picker, err := strictyaml.Parse([]byte(data.Content[1].Value), strictyaml.Options{})
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			checkPicker(t, f.Path, picker[0])
		}
	}
}

func routerPool(p Policy) Pool {
	return Pool{
		Name: "chat-8b", Model: "llama-8b", Labels: map[string]string{"app": "chat-8b", "cotenant.dev/group": "h100-mps"}, Policy: p,
		Priorities: map[string]int{"chat": 10, "batch": -1},
		Servers: &StackServers{Replicas: 3, Repository: "vllm/vllm-openai", Tag: "v0.9.2", ModelURL: "meta-llama/Llama-3.1-8B-Instruct", CPUs: 6, Memory: "16Gi", Storage: "50Gi",
			GPUResource: "nvidia.com/mig-3g.40gb", Args: []string{"--gpu-memory-utilization", "0.45"}},
	}
}

// TestRouterDocuments holds the documents of each policy against the tables of
// their readers.
func TestRouterDocuments(t *testing.T) {
	for _, p := range Policies() {
		f, err := Build([]Pool{routerPool(p)})
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Files) != 3 {
			t.Errorf("%v: %d files", p, len(f.Files))
		}
		for _, file := range f.Files {
			checkRouterFile(t, file)
		}
	}
}

// TestRouterWarnings: a router without a policy says which it takes.
func TestRouterWarnings(t *testing.T) {
	for p, want := range map[Policy][]string{
		PolicyLeastRequests:     {"production stack's router has no least-requests policy; its values take round-robin"},
		PolicyRoundRobin:        {"llm-d's router has no round-robin policy; its configuration takes random"},
		PolicyRandom:            {"production stack's router has no random policy"},
		PolicySession:           {"x-session-token", "x-session-id"},
		PolicyPrefixApproximate: nil,
		PolicyPrefixExact:       {"KV cache events", "LMCache"},
	} {
		f, err := Build([]Pool{routerPool(p)})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, w := range f.Warnings {
			all = append(all, w.Message)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(all, "\n"), w) {
				t.Errorf("%v: no %q in %q", p, w, all)
			}
		}
		if want == nil && len(all) > 0 || p == PolicyRandom && len(all) > 1 {
			t.Errorf("%v: %q", p, all)
		}
	}
}

func TestRouterGolden(t *testing.T) {
	pools := []Pool{routerPool(PolicyPrefixExact), {Name: "code-1b", Model: "llama-1b", Labels: map[string]string{"app": "code-1b"}, Policy: PolicyLeastRequests}}
	f, err := Build(pools)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, file := range f.Files {
		checkRouterFile(t, file)
		b.WriteString("==> " + file.Path + " (" + file.Note + ")\n")
		b.Write(file.Data)
	}
	golden.Check(t, "testdata/router.txt", b.Bytes())
}

// TestRouterRefuses names every problem.
func TestRouterRefuses(t *testing.T) {
	_, err := Build([]Pool{
		{Name: "Chat", Namespace: "My", Port: -1, Labels: map[string]string{"a b": "x", "ok": "-"}, Policy: 99, Priorities: map[string]int{"Big": 1}, Servers: &StackServers{Memory: "lots", GPUResource: "a b"}},
		{Name: "Chat", Namespace: "My", Model: "m", Labels: map[string]string{"a": "b"}},
		{Name: "chat", Labels: map[string]string{"a": "b"}, Policy: PolicyPrefixExact},
	})
	if !errors.Is(err, manifest.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`pools[0].name: is "Chat"`, `pools[0].namespace: is "My"`, "pools[0].port: is -1", "pools[2].model: missing", "pools[0].labels[a b]", "pools[0].labels[ok]", "pools[0].policy: 99", "pools[0].priorities[Big]",
		"pools[0].servers.repository: missing", "pools[0].servers.tag", "pools[0].servers.model_url", `pools[0].servers.memory: is "lots"`, "pools[0].servers.storage", "pools[0].servers.replicas: is 0",
		"pools[0].servers.cpus", "pools[0].servers.gpu_resource", `pools[1].name: "My.Chat" twice`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if _, err := Build(nil); !errors.Is(err, manifest.ErrInvalid) {
		t.Error(err)
	}
}
