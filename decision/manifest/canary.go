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
// by time-slicing or at the same time.
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
	v := canaryService{Name: t.name, Space: t.space, Port: canaryPort, Address: fmt.Sprintf("http://%s:%d",
		strings.TrimSuffix("cotenant-canary-"+t.name+"."+t.space, "."), canaryPort)}
	for i, n := range slices.Insert(slices.Clone(neighbours), 0, t) {
		suffix := ""
		if i == 0 {
			suffix = "-canary" // the Service of the new replica, as Argo's guide and Flagger name it
		}
		one := canaryTenant{Name: strings.TrimPrefix(n.space+"/"+n.name, "/") + suffix, Objectives: objectives(n.workload)}
		if n.workload.Kind.Serves() {
			one.Page = n.page(suffix, 8000)
		} else {
			one.Counter = n.page("", 9100)
		}
		v.Tenants = append(v.Tenants, one)
	}
	var plan strings.Builder
	b.fail(documents.ExecuteTemplate(&plan, "canary", v))
	b.add(t.file(""), t.name+": the plan of cotenant canary", []byte(plan.String()))
	b.document(t.file(".argo-rollouts"), t.name+": the same for Argo Rollouts", "argo", v)
	b.document(t.file(".flagger"), t.name+": the same for Flagger", "flagger", v)
}

// canaryService is a service with its neighbours, for the templates of a canary's files.
type canaryService struct {
	Name, Space, Address string // Address is that of cotenant canary
	Port                 int
	Tenants              []canaryTenant
}

type canaryTenant struct {
	Name, Page, Counter string
	Objectives          []string
}

// objectives are a tenant's in a canary's plan: of a limit of the P99, which takes hours to measure, the median
// decides. One that states none is to stay as it was.
func objectives(w *decision.Workload) (out []string) {
	if !w.Kind.Serves() {
		return []string{"{metric: steps, at_least: true}"}
	}
	for m, limit := range w.SLO.Limits() {
		name, _, _ := strings.Cut(m.String(), "_")
		if name == "tpot" {
			name = "itl" // every server's page has it
		}
		at := strconv.FormatFloat(limit.Seconds(), 'g', -1, 64)
		median := fmt.Sprintf("{metric: %s, quantile: 0.5, ", name)
		if !slices.ContainsFunc(out, func(o string) bool { return strings.HasPrefix(o, median) }) {
			out = append(out, median+"limit: "+at+"}")
		}
		if strings.HasSuffix(m.String(), "_p99") {
			out = append(out, fmt.Sprintf("{metric: %s, quantile: 0.99, limit: %s, after_promotion: true}", name, at))
		}
	}
	if len(out) == 0 {
		return []string{"{metric: ttft}", "{metric: itl}"}
	}
	return out
}

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
