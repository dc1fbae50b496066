// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
)

// Plan returns the page of a change of a cluster: money before and after, the changes, the GPUs of each node before and
// after, the steps, and the workloads that are not moved, with reasons.
func Plan(p *migrate.Plan) *webpage.Page {
	b, details := &p.Cost, map[string][]string{}
	first := webpage.Section{}
	shown := []webpage.Map{{Title: "Today", Nodes: nodesOf(p.Today)}}
	if p.Changes() {
		shown = append(shown, webpage.Map{Title: "Plan", Nodes: nodesOf(p.After)})
		if b.Uncertain != "" {
			first.Notes = append(first.Notes, fmt.Sprintf("Of that %s %s may not come: workloads that move may have to go "+
				"back.", plaintext.Amount(b.Uncertain), b.Currency))
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
		say(a.Workload, "Meets its objectives: %s today, %s after.", a.Today, a.After)
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
		"%s\n%s with GPUs today, %d after.", p.Summary(), plaintext.Count(b.NodesToday, "node"), b.NodesAfter),
		Sections: []webpage.Section{first, {Title: "GPUs", Maps: shown, Text: []string{"The width of a tenant is its part " +
			"of a GPU: its slices, its memory, or its time slice. The tenants of a node are those that the cluster " +
			"reports; it does not report the GPU of each where several share."}}, steps,
			{Title: "Stays as it is", Tables: []webpage.Table{stays}}}}
}

// nodesOf draws every node of a layout with the tenants of its GPUs.
func nodesOf(l *layout.Cluster) (nodes []webpage.Node) {
	for n := range l.Nodes() {
		nodes = append(nodes, webpage.Node{Name: n.Name + ": " + migrate.Shape(n), GPUs: gpusOf(n)})
	}
	return nodes
}
