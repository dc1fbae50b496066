// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// canaryPort is that of cotenant canary in the files.
const canaryPort = 8080

// tenant is a service or one of its neighbours, as Kubernetes has it.
type tenant struct {
	space, name string
	workload    *decision.Workload
}

// tenant finds the name that a workload's documents have.
func (b *builder) tenant(w *decision.Workload) tenant {
	space, name := spaced(w.Name)
	for _, m := range b.members {
		if m.workload == w && m.part == 0 {
			name = m.name
		}
	}
	return tenant{space, name, w}
}

func (t *tenant) page(suffix string, port int) string {
	host := strings.TrimSuffix(t.name+suffix+"."+t.space, ".")
	return fmt.Sprintf("http://%s:%d/metrics", host, port)
}

// file is the path of a service's canary file.
func (t *tenant) file(kind string) string {
	return "canary/" + strings.TrimPrefix(t.space+"."+t.name, ".") + kind + ".yaml"
}

// watched reports whether new replicas of a workload are worth a canary: it serves, states objectives, and shares a GPU
// by turns or at the same time.
func watched(w *decision.Workload, m sharing.Mechanism) bool {
	for range w.SLO.Limits() {
		return w.Kind == decision.KindOnlineInference && (shared(m) || usesHAMi(m))
	}
	return false
}

// neighbours are the workloads that a layout may put on one GPU with a new replica of w; w itself may be among them.
func (b *builder) neighbours(w *decision.Workload, l *layout.Cluster) (out []tenant) {
	on := map[string]bool{}
	for n := range l.Nodes() {
		for i := range n.Assignments {
			for k := range n.Assignments {
				a, other := &n.Assignments[i], &n.Assignments[k]
				if i != k && a.Workload.Name == w.Name && a.Device >= 0 && other.Device >= 0 &&
					n.Meets(int(a.Device), n.Devices[a.Device].Mode, int(other.Device)) {
					on[other.Workload.Name] = true
				}
			}
		}
	}
	for i := range b.fleet.Workloads {
		if n := &b.fleet.Workloads[i]; on[n.Name] {
			out = append(out, b.tenant(n))
		}
	}
	return out
}

// canary writes the plan of cotenant canary for a service that comes to GPUs with others, and the files by which
// rollout controllers ask it.
func (b *builder) canary(w *decision.Workload, m sharing.Mechanism, l *layout.Cluster) {
	if !watched(w, m) {
		return
	}
	t, neighbours := b.tenant(w), b.neighbours(w, l)
	if len(neighbours) == 0 {
		return
	}
	const note = "canary/ has, for each service with objectives that shares a GPU, what Argo Rollouts or Flagger asks " +
		"before it promotes the first new replica."
	if !slices.Contains(b.notes, note) {
		b.notes = append(b.notes, note)
	}
	var plan strings.Builder
	fmt.Fprintf(&plan, "# cotenant canary -listen :%d -plan FILE, behind a Service cotenant-canary-%s. Check the\n"+
		"# addresses: a page is that of one replica. Leave out a neighbour of which no page or counter tells.\ntenants:\n",
		canaryPort, t.name)
	for i, n := range slices.Insert(slices.Clone(neighbours), 0, t) {
		suffix, name := "", strings.TrimPrefix(n.space+"/"+n.name, "/")
		if i == 0 {
			suffix = "-canary" // the Service of the new replica, as Argo's guide and Flagger name it
			name += suffix
		}
		fmt.Fprintf(&plan, "  - name: %q\n", name)
		if n.workload.Kind.Serves() {
			fmt.Fprintf(&plan, "    page: %q\n", n.page(suffix, 8000))
		} else {
			fmt.Fprintf(&plan, "    counter: {url: %q, name: steps_total}\n", n.page("", 9100))
		}
		plan.WriteString("    objectives:\n" + objectives(n.workload))
	}
	b.add(t.file(""), t.name+": what cotenant canary looks at", []byte(plan.String()))
	address := fmt.Sprintf("http://%s:%d", strings.TrimSuffix("cotenant-canary-"+t.name+"."+t.space, "."), canaryPort)
	b.encode(t.file(".argo-rollouts"), t.name+": the same for Argo Rollouts", []string{
		"For a step of the Rollout, with Argo Rollouts 1.8 or newer:",
		"analysis: {templates: [{templateName: cotenant-" + t.name + "}], args: [{name: rollout, valueFrom: " +
			"{podTemplateHashValue: Latest}}]}"},
		yamlnode.Map("apiVersion", "argoproj.io/v1alpha1", "kind", "AnalysisTemplate",
			"metadata", metadata("cotenant-"+t.name, t.space),
			"spec", yamlnode.Map("args", yamlnode.List(yamlnode.Map("name", "rollout")),
				"metrics", yamlnode.List(yamlnode.Map("name", "objectives", "interval", "15s",
					"successCondition", `result == "pass"`, "failureCondition", `result == "fail"`,
					"inconclusiveLimit", 1000, "consecutiveSuccessLimit", 1,
					"provider", yamlnode.Map("web", yamlnode.Map("url", address+"/?rollout={{args.rollout}}",
						"jsonPath", "{$.answer}")))))))
	hook := func(kind, path string) any {
		return yamlnode.Map("name", "cotenant-"+kind, "type", kind, "url", address+path)
	}
	b.encode(t.file(".flagger"), t.name+": the same for Flagger", []string{
		"Put its analysis into the Canary of the service."},
		yamlnode.Map("apiVersion", "flagger.app/v1beta1", "kind", "Canary", "metadata", metadata(t.name, t.space),
			"spec", yamlnode.Map(
				"targetRef", yamlnode.Map("apiVersion", "apps/v1", "kind", "Deployment", "name", t.name),
				"service", yamlnode.Map("port", 8000),
				"analysis", yamlnode.Map("interval", "30s", "threshold", 1, "iterations", 10,
					"webhooks", []any{hook("pre-rollout", "/begin"), hook("rollout", "/continue"),
						hook("confirm-promotion", "/promote")}))))
}

// objectives are a tenant's in a canary's plan: of a limit of the P99, which takes hours to tell, the median decides.
// One that states none is to stay as it was.
func objectives(w *decision.Workload) string {
	if !w.Kind.Serves() {
		return "      - {metric: steps, at_least: true}\n"
	}
	var out strings.Builder
	for m, limit := range w.SLO.Limits() {
		name, _, _ := strings.Cut(m.String(), "_")
		if name == "tpot" {
			name = "itl" // every server's page has it
		}
		at := strconv.FormatFloat(limit.Seconds(), 'g', -1, 64)
		if median := fmt.Sprintf("      - {metric: %s, quantile: 0.5, ", name); !strings.Contains(out.String(), median) {
			out.WriteString(median + "limit: " + at + "}\n")
		}
		if strings.HasSuffix(m.String(), "_p99") {
			fmt.Fprintf(&out, "      - {metric: %s, quantile: 0.99, limit: %s, after_promotion: true}\n", name, at)
		}
	}
	return cmp.Or(out.String(), "      - {metric: ttft}\n      - {metric: itl}\n")
}
