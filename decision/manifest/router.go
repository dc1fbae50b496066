// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/yamlnode"
)

// serviceLabel is the label of a service's pods, by which its router finds them.
const serviceLabel = "cotenant.dev/service"

// Versions of what is written, and the names in it.
const (
	poolAPI        = "inference.networking.k8s.io/v1" // of InferencePool
	pickerAPI      = "llm-d.ai/v1alpha1"              // of EndpointPickerConfig
	gatewayVersion = "v1.6.0"                         // of the Gateway API inference extension, whose pool is written
	routerVersion  = "v0.10.0"                        // of llm-d-router, whose endpoint picker and chart are configured
	pickerPort     = 9002
	pickerFile     = "router-plugins.yaml"
	longestRelease = 53 // characters of the name of a chart's release, to which charts append
)

// serverPorts are those that servers of language models listen on by default.
var serverPorts = map[string]int{"vllm": 8000, "sglang": 30000, "tgi": 80}

// routed reports whether a workload needs a router: it is an online language model with several replicas. Language
// models are workloads that state a model, a server of such models, or the length or the time of output tokens.
func (b *builder) routed(m *member) bool {
	w := m.workload
	return b.plan == nil && w.Kind == decision.KindOnlineInference && m.all > 1 && (w.Model != nil ||
		!w.SLO.TPOTP99.IsZero() || w.Load != nil && !w.Load.OutputTokens.IsZero() || serverPorts[m.framework().Name] > 0)
}

// podLabels returns the labels of a workload's pods.
func (b *builder) podLabels(m *member) map[string]string {
	if b.routed(m) {
		return map[string]string{serviceLabel: m.service}
	}
	return nil
}

// routers writes for each routed workload the InferencePool of the Gateway API inference extension, with the
// configuration of llm-d's endpoint picker, and the values of llm-d's router chart. The picker prefers the replica that
// holds the beginning of a prompt in its prefix cache, weighed against the requests in flight there.
func (b *builder) routers() {
	taken := map[string]bool{}
	for _, m := range b.members {
		if m.part > 0 || !b.routed(m) {
			continue
		}
		name := m.name
		for n := 1; len(name) > longestRelease || taken[m.space+"/"+name]; n++ {
			end := fmt.Sprintf("-%d", n)
			name = strings.TrimRight(m.name[:min(len(m.name), longestRelease-len(end))], "-") + end
		}
		taken[m.space+"/"+name] = true
		b.router(m, name)
	}
}

func (b *builder) router(m *member, name string) {
	config, err := yamlnode.Encode(nil, pickerConfig())
	b.fail(err)
	ports := yamlnode.List(yamlnode.Map("number", cmp.Or(serverPorts[m.framework().Name], serverPorts["vllm"])))
	labels := yamlnode.Map(serviceLabel, m.service)
	file := strings.TrimPrefix(m.space+"."+name, ".")
	add := func(path, note, header string, docs ...*yaml.Node) {
		b.encode(path, note, []string{header}, docs...)
		b.notes = append(b.notes, fmt.Sprintf("%s: %s.", path, note))
	}
	add("inference-extension/"+file+".yaml", "pool and endpoint picker configuration",
		poolAPI+" of the Gateway API inference extension "+gatewayVersion+"; "+pickerAPI+" of llm-d-router "+routerVersion+
			". The endpoint picker "+name+"-epp starts with --config-file=/config/"+pickerFile+", the ConfigMap mounted there.",
		yamlnode.Map("apiVersion", poolAPI, "kind", "InferencePool", "metadata", metadata(name, m.space),
			"spec", yamlnode.Map("selector", yamlnode.Map("matchLabels", labels), "targetPorts", ports,
				"endpointPickerRef", yamlnode.Map("kind", "Service", "name", name+"-epp",
					"port", yamlnode.Map("number", pickerPort), "failureMode", "FailOpen"))),
		yamlnode.ConfigMap(name+"-epp", yamlnode.Some(m.space), map[string]string{pickerFile: string(config)}))
	add("llm-d/"+file+".values.yaml", "values of llm-d's router",
		"helm install "+name+in(m.space)+" of the chart llm-d-router-gateway "+routerVersion+
			": github.com/llm-d/llm-d-router, config/charts.",
		yamlnode.Map("router", yamlnode.Map(
			"modelServers", yamlnode.Map("type", "vllm", "protocol", "http", "targetPorts", ports, "matchLabels", labels),
			"inferencePool", yamlnode.Map("create", true, "failureMode", "FailOpen"),
			"epp", yamlnode.Map("pluginsConfigFile", pickerFile, "pluginsCustomConfig", yamlnode.Map(pickerFile,
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(config), Style: yaml.LiteralStyle})))))
}

// pickerConfig is the configuration of llm-d's endpoint picker.
func pickerConfig() *yaml.Node {
	plugin := func(kind string) *yaml.Node { return yamlnode.Map("type", kind) }
	scorer := func(kind string, weight int) *yaml.Node { return yamlnode.Map("pluginRef", kind, "weight", weight) }
	return yamlnode.Map("apiVersion", pickerAPI, "kind", "EndpointPickerConfig",
		"plugins", yamlnode.List(plugin("single-profile-handler"), plugin("prefix-cache-scorer"),
			plugin("active-request-scorer"), plugin("max-score-picker")),
		"schedulingProfiles", yamlnode.List(yamlnode.Map("name", "default", "plugins", yamlnode.List(
			scorer("prefix-cache-scorer", 3), scorer("active-request-scorer", 1),
			yamlnode.Map("pluginRef", "max-score-picker")))))
}
