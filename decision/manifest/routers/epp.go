package routers

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/yamlnode"
)

// scorer is a plugin of the endpoint picker that takes part in the choice.
type scorer struct {
	kind   string
	weight int // 0: it is no scorer
	params *yaml.Node
}

// picker is the configuration of llm-d's endpoint picker.
type picker struct {
	before  []scorer // plugins that no profile names
	profile []scorer
	sources *yaml.Node // the data layer
}

// The plugins of llm-d's endpoint picker, which was the Gateway API inference extension's until that's v1.5.
const (
	pluginQueue    = "queue-scorer"
	pluginKV       = "kv-cache-utilization-scorer"
	pluginPrefix   = "prefix-cache-scorer"
	pluginActive   = "active-request-scorer"
	pluginSession  = "session-affinity-scorer"
	pluginMax      = "max-score-picker"
	pluginRandom   = "random-picker"
	pluginSingle   = "single-profile-handler"
	pluginTokens   = "token-producer"
	pluginPrecise  = "precise-prefix-cache-producer"
	pluginNotify   = "endpoint-notification-source"
	pluginMetrics  = "metrics-data-source"
	pluginExtract  = "core-metrics-extractor"
	eppPort        = 9002
	blockTokens    = 16 // of the servers' prefix cache, vLLM's default
	eppConfigFile  = "router-plugins.yaml"
	configAPI      = "llm-d.ai/v1alpha1"           // of EndpointPickerConfig
	objectiveAPI   = "llm-d.ai/v1alpha2"           // of InferenceObjective
	poolGroup      = "inference.networking.k8s.io" // of InferencePool
	poolAPI        = poolGroup + "/v1"
	routerVersion  = "v0.10.0" // of llm-d-router, whose forms are written: its endpoint picker, objectives and charts
	gatewayVersion = "v1.6.0"  // of the Gateway API inference extension, whose pool is written
)

// choices are llm-d's scorers of a policy, and what one needs beside the documents. A policy without scorers draws a
// server.
var choices = map[Policy]struct {
	scorers       []scorer
	needs, remedy string
}{
	PolicyPrefixApproximate: {scorers: []scorer{{kind: pluginPrefix, weight: 3}, {kind: pluginActive, weight: 1}}},
	PolicyPrefixExact: {scorers: []scorer{precise, {kind: pluginQueue, weight: 1}}, needs: kvEvents,
		remedy: kvRemedy},
	PolicyKVAware: {scorers: []scorer{precise, {kind: pluginKV, weight: 2}, {kind: pluginQueue, weight: 1}},
		needs: kvEvents, remedy: kvRemedy},
	PolicyLeastRequests: {scorers: []scorer{{kind: pluginActive, weight: 1}}},
	PolicySession: {scorers: []scorer{{kind: pluginSession, weight: 3}, {kind: pluginActive, weight: 1}},
		needs:  "llm-d's session affinity goes by the header x-session-token, which the router sets in its answer",
		remedy: "let the clients send it back with the next turn"},
}

// precise scores by the exact prefix index.
var precise = scorer{pluginPrefix, 3, yamlnode.Map("prefixMatchInfoProducerName", pluginPrecise)}

const (
	kvEvents = "the exact prefix index is fed by the servers' KV cache events, and tokenises prompts by asking a server " +
		"of the model at localhost:8000"
	kvRemedy = "start the servers with KV cache events, and the router's tokenizer sidecar"
)

// llmdPicker is the configuration of llm-d's endpoint picker.
func (b *builder) llmdPicker(p *Pool) picker {
	c, choice := picker{before: []scorer{{kind: pluginSingle}}}, choices[p.Policy]
	if p.Policy == PolicyRoundRobin {
		b.unlike(WarnPolicy, p, fmt.Sprintf("llm-d's router has no %v policy; its configuration takes %v", p.Policy,
			PolicyRandom), "use a policy that it has")
	}
	if choice.needs != "" {
		b.unlike(WarnNeeds, p, choice.needs, choice.remedy)
	}
	if p.Policy.exact() {
		c.precise(p)
	}
	last := scorer{kind: pluginMax}
	if len(choice.scorers) == 0 {
		last.kind = pluginRandom
	}
	c.profile = append(slices.Clone(choice.scorers), last)
	return c
}

// precise adds what the exact prefix index needs.
func (c *picker) precise(p *Pool) {
	c.before = append(c.before,
		scorer{kind: pluginTokens, params: yamlnode.Map("backend", "vllm", "modelName", p.Model, "vllm",
			yamlnode.Map("url", "http://localhost:8000"))},
		scorer{kind: pluginNotify}, scorer{kind: pluginMetrics}, scorer{kind: pluginExtract},
		scorer{kind: pluginPrecise, params: yamlnode.Map("tokenProcessorConfig", yamlnode.Map("blockSize",
			blockTokens))})
	source := func(of, extractor string) *yaml.Node {
		return yamlnode.Map("pluginRef", of, "extractors", yamlnode.List(yamlnode.Map("pluginRef", extractor)))
	}
	c.sources = yamlnode.List(source(pluginMetrics, pluginExtract), source(pluginNotify, pluginPrecise))
}

// document is the EndpointPickerConfig.
func (c picker) document() *yaml.Node {
	var plugins, refs []*yaml.Node
	for _, s := range slices.Concat(c.before, c.profile) {
		plugins = append(plugins, yamlnode.Map("type", s.kind, "parameters", s.params))
	}
	for _, s := range c.profile {
		var weight any
		if s.weight > 0 {
			weight = s.weight
		}
		refs = append(refs, yamlnode.Map("pluginRef", s.kind, "weight", weight))
	}
	return yamlnode.Map("apiVersion", configAPI, "kind", "EndpointPickerConfig", "plugins", plugins,
		"dataLayer", yamlnode.Map("sources", c.sources),
		"schedulingProfiles", yamlnode.List(yamlnode.Map("name", "default", "plugins", refs)))
}

// inferenceExtension writes the pool in the extension's form, and its objectives and its endpoint picker's
// configuration in llm-d's, which has them since the extension's v1.6.
func (b *builder) inferenceExtension(p *Pool, config string) error {
	docs := []*yaml.Node{
		yamlnode.Map("apiVersion", poolAPI, "kind", "InferencePool", "metadata", p.metadata(p.Name),
			"spec", yamlnode.Map(
				"selector", yamlnode.Map("matchLabels", p.Labels), "targetPorts", p.ports(),
				"endpointPickerRef", yamlnode.Map("kind", "Service", "name", p.Name+"-epp", "port", yamlnode.Map("number", eppPort),
					"failureMode", "FailOpen"))),
		yamlnode.ConfigMap(p.Name+"-epp", yamlnode.Some(p.Namespace), map[string]string{eppConfigFile: config}),
	}
	for _, name := range slices.Sorted(maps.Keys(p.Priorities)) {
		docs = append(docs, yamlnode.Map("apiVersion", objectiveAPI, "kind", "InferenceObjective",
			"metadata", p.metadata(name), "spec",
			yamlnode.Map("poolRef", yamlnode.Map("group", poolGroup, "kind", "InferencePool", "name",
				p.Name), "priority", p.Priorities[name])))
	}
	note := "pool, objectives and endpoint picker configuration"
	return b.encode("inference-extension/"+p.file()+".yaml", note, []string{
		poolAPI + " of the Gateway API inference extension " + gatewayVersion + "; " + objectiveAPI + " and " + configAPI +
			" of llm-d-router " + routerVersion + ", which has the endpoint picker now.",
		"The endpoint picker " + p.Name + "-epp starts with --config-file=/config/" + eppConfigFile +
			", the ConfigMap mounted there.",
	}, docs...)
}

// llmdValues writes values of llm-d's router chart for a gateway.
func (b *builder) llmdValues(p *Pool, config string) error {
	var objectives []*yaml.Node
	for _, name := range slices.Sorted(maps.Keys(p.Priorities)) {
		objectives = append(objectives, yamlnode.Map("name", name, "priority", p.Priorities[name]))
	}
	values := yamlnode.Map(
		"modelServers", yamlnode.Map("type", "vllm", "protocol", "http", "targetPorts", p.ports(), "matchLabels",
			p.Labels),
		"inferencePool", yamlnode.Map("create", true, "failureMode", "FailOpen"),
		"epp", yamlnode.Map("pluginsConfigFile", eppConfigFile, "pluginsCustomConfig", yamlnode.Map(eppConfigFile,
			&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: config, Style: yaml.LiteralStyle})),
		"inferenceObjectives", objectives)
	return b.encode("llm-d/"+p.file()+".values.yaml", "values of llm-d's router", []string{
		p.install() + " of the chart llm-d-router-gateway " + routerVersion +
			": github.com/llm-d/llm-d-router, config/charts.",
	}, yamlnode.Map("router", values))
}
