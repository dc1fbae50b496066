// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision"
)

// serviceLabel is the label of a service's pods, by which its router finds them.
const serviceLabel = "cotenant.dev/service"

const longestRelease = 53 // characters of the name of a chart's release, to which charts append

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
// configuration of llm-d's endpoint picker, and the values of llm-d's router chart.
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
	v := map[string]any{"Name": name, "Space": m.space, "In": in(m.space), "Service": m.service,
		"Port": cmp.Or(serverPorts[m.framework().Name], serverPorts["vllm"]), "Picker": string(b.render("picker", nil))}
	file := strings.TrimPrefix(m.space+"."+name, ".")
	add := func(path, note, template string) {
		b.document(path, note, template, v)
		b.notes = append(b.notes, fmt.Sprintf("%s: %s.", path, note))
	}
	add("inference-extension/"+file+".yaml", "pool and endpoint picker configuration", "inference-pool")
	add("llm-d/"+file+".values.yaml", "values of llm-d's router", "llm-d")
}
