// SPDX-License-Identifier: Apache-2.0

package manifest

import (
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
