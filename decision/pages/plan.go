package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/sharing"
)

// Plan returns the page of a change of what runs: money today and after, what changes, the GPUs of each node before and
// after, the steps, and what stays and why.
func Plan(p *migrate.Plan) *webpage.Page {
	b, details := &p.Bill, map[string][]string{}
	first := webpage.Section{}
	head, shown := "All stays as it is: "+p.Why, []webpage.Map{{Title: "Today", Nodes: nodesOf(p.Fleet, nil)}}
	if p.Changes() {
		head = freed(b.MonthlySaved, b.Currency) + sentence(p.Why)
		shown = append(shown, webpage.Map{Title: "Plan", Nodes: nodesOf(p.Fleet, p)})
		if b.Uncertain != "" {
			first.Notes = append(first.Notes, fmt.Sprintf("Of that %s %s may not come: workloads that move may have to go "+
				"back.", amount(b.Uncertain), b.Currency))
		}
	}
	say := func(workload, format string, args ...any) {
		details[workload] = append(details[workload], fmt.Sprintf(format, args...))
	}
	changes := webpage.Table{Caption: "Changes", Head: []string{"node", "workload", "today", "after", "risk"}}
	for _, r := range p.Rows {
		changes.Add(r.Node, r.Workload, cmp.Or(r.Today, "-"), cmp.Or(r.After, "leaves"), r.Risk)
		say(r.Workload, "On %s: %s today, %s after; %s", r.Node, cmp.Or(r.Today, "nothing"), cmp.Or(r.After, "nothing"),
			r.Risk)
	}
	for _, a := range p.Answers {
		say(a.Workload, "Keeps its objectives: %s today, %s after.", a.Today, a.After)
	}
	stays := webpage.Table{Head: []string{"workloads", "why"}}
	for _, s := range p.Stays {
		stays.Add(plaintext.Some(s.Workloads, len(s.Workloads), s.Count), s.Why)
		for _, w := range s.Workloads {
			say(w, "Stays: %s", s.Why)
		}
	}
	for _, w := range p.Fleet.Workloads {
		if p.Result != nil {
			if d := p.Result.Decision(w.Name); d != nil {
				details[w.Name] = append(details[w.Name], detail(p.Result, d)...)
			}
		}
		if details[w.Name] == nil {
			say(w.Name, "Stays as it is.")
		}
	}
	steps := webpage.Section{Title: "Steps, one after another"}
	for i := range p.Steps {
		steps.Text = append(steps.Text, fmt.Sprintf("%d. %s", i+1, p.Steps[i].Title()))
	}
	first.Tables = []webpage.Table{money("nodes with GPUs", b.Currency, b.NodesToday, b.NodesAfter, b.MonthlyToday,
		b.MonthlyAfter, b.MonthlySaved), changes}
	return &webpage.Page{Title: "What runs, and what should change", Details: details, Answer: fmt.Sprintf(
		"%s\n%s with GPUs today, %d after.", sentence(head), plaintext.Count(b.NodesToday, "node"), b.NodesAfter),
		Sections: []webpage.Section{first, {Title: "GPUs", Maps: shown, Text: []string{"The width of a tenant is its part " +
			"of a GPU: its slices, or its turn among those that share. Who shares a node stands in the cluster; on which of " +
			"its GPUs, where several do, does not."}}, steps, {Title: "Stays as it is", Tables: []webpage.Table{stays}}}}
}

func sentence(s string) string {
	return strings.TrimSuffix(strings.ToUpper(s[:min(1, len(s))])+s[min(1, len(s)):], ".") + "."
}

// device names what a replica holds on a node: a GPU, a turn on one, or an instance.
type device struct {
	share          float64 // of a GPU
	seat, workload string
}

// nodesOf draws every node of a fleet as it runs, or with a plan as it is to run: the tenants of a mechanism in the
// order of their size, each on the first GPU with room.
func nodesOf(f *decision.Fleet, plan *migrate.Plan) (nodes []webpage.Node) {
	held := map[string]map[string]string{} // "2 x exclusive" by node and workload
	hold := func(node, workload, what string) {
		if held[node] == nil {
			held[node] = map[string]string{}
		}
		held[node][workload] = what
	}
	for _, w := range f.Workloads {
		if w.Today != nil {
			for _, on := range w.Today.On {
				hold(on.Node, w.Name, fmt.Sprintf("%d x %s %s", on.Replicas, w.Today.Mechanism, w.Today.Profile))
			}
		}
	}
	shapes := map[string]migrate.Shape{}
	if plan != nil {
		for _, r := range plan.Rows {
			hold(r.Node, r.Workload, r.After)
		}
		for _, s := range plan.Steps {
			if s.Action == migrate.ActionConfigure {
				shapes[s.Node] = *s.Gets
			}
		}
	}
	for i := range f.Today.Nodes {
		n := &f.Today.Nodes[i]
		shape, ok := shapes[n.Name]
		if !ok {
			shape = migrate.ShapeOf(n)
		}
		pool := f.Pools[slices.IndexFunc(f.Pools, func(p decision.Pool) bool { return p.Name == n.Pool })]
		var all []device
		for w, what := range held[n.Name] {
			replicas, d := 0, device{workload: w}
			_, _ = fmt.Sscanf(what, "%d", &replicas)
			_, d.seat, _ = strings.Cut(what, " x ")
			mechanism, profile, _ := strings.Cut(strings.TrimSpace(d.seat), " ")
			d.share = cmp.Or(slice(pool.GPU, profile), 1/float64(max(1, shape.Replicas)))
			if mechanism == sharing.MechanismExclusive.String() {
				d.share = 1
			}
			all = append(all, slices.Repeat([]device{d}, replicas*max(1, workloadOf(f, w).GPUs))...)
		}
		slices.SortFunc(all, func(a, b device) int {
			return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.seat, b.seat), cmp.Compare(a.workload, b.workload))
		})
		nodes = append(nodes, webpage.Node{Name: n.Name + ": " + shape.String(), GPUs: fill(pool.GPU, n.GPUs, all)})
	}
	return nodes
}

// fill puts devices on GPUs.
func fill(model string, n int, all []device) (gpus []webpage.GPU) {
	for _, d := range all {
		mechanism, profile, _ := strings.Cut(strings.TrimSpace(d.seat), " ")
		name := model + ", " + mechanism
		k := slices.IndexFunc(gpus, func(g webpage.GPU) bool { return g.Name == name && g.Free() >= d.share-1e-9 })
		if k < 0 {
			k = len(gpus)
			gpus = append(gpus, webpage.GPU{Name: name})
		}
		gpus[k].Parts = append(gpus[k].Parts, webpage.Part{Name: d.workload, Text: profile, Share: d.share})
	}
	for len(gpus) < n {
		gpus = append(gpus, webpage.GPU{Name: model + ", nothing on it"})
	}
	return gpus
}
