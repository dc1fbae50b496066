// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
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

func (t *tenant) page(suffix string, port int) string {
	host := strings.TrimSuffix(t.name+suffix+"."+t.space, ".")
	return fmt.Sprintf("http://%s:%d/metrics", host, port)
}

// file is the path of a service's canary file.
func (t *tenant) file(kind string) string {
	return "canary/" + strings.TrimPrefix(t.space+"."+t.name, ".") + kind + ".yaml"
}

// watched reports whether new replicas of a workload are worth a canary: it serves, states what it promises, and runs
// in turn with others or beside them.
func watched(w *decision.Workload, m sharing.Mechanism) bool {
	promises := false
	for range w.SLO.Limits() {
		promises = true
	}
	return w.Kind == decision.KindOnlineInference && promises && (shared(m) || usesHAMi(m))
}

// canaries writes the canaries of a decision's services.
func (b *builder) canaries() {
	for _, m := range b.members {
		if !watched(m.workload, m.Mechanism) {
			continue
		}
		beside := map[*member]int{} // replicas on a GPU that one of the service is on
		for _, g := range m.groups {
			for _, n := range g.nodes {
				b.slots(n, func(s *slot) {
					if !slices.ContainsFunc(s.tenants, func(t tenants) bool { return t.member == m }) {
						return
					}
					for _, t := range s.tenants {
						beside[t.member] = max(beside[t.member], t.pods)
					}
				})
			}
		}
		beside[m]-- // the newcomer
		var neighbours []tenant
		for _, n := range b.members {
			if beside[n] > 0 {
				neighbours = append(neighbours, tenant{n.space, n.name, n.workload})
			}
		}
		b.canary(tenant{m.space, m.name, m.workload}, neighbours)
	}
}

// planCanaries writes the canaries of the services that a plan's steps bring to shared GPUs. Their neighbours are
// those on the same nodes then.
func (b *builder) planCanaries() {
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if s.Action != migrate.ActionMove {
			continue
		}
		w := b.workload(s)
		name, _, _ := strings.Cut(s.Seat, " ")
		var m sharing.Mechanism
		if m.UnmarshalText([]byte(name)) != nil || !watched(w, m) {
			continue
		}
		var neighbours []tenant
		nodes := nodesOf(b.plan.After, w.Name)
		for i := range b.plan.Fleet.Workloads {
			n := &b.plan.Fleet.Workloads[i]
			if n != w && slices.ContainsFunc(nodesOf(b.plan.After, n.Name),
				func(on string) bool { return slices.Contains(nodes, on) }) {
				space, name := spaced(n.Name)
				neighbours = append(neighbours, tenant{space, name, n})
			}
		}
		space, name := spaced(w.Name)
		b.canary(tenant{space, name, w}, neighbours)
	}
}

// canary writes the plan of cotenant canary for a service, and what the rollout controllers ask it by.
func (b *builder) canary(t tenant, neighbours []tenant) {
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
			name = "itl" // which every server's page tells
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
