package pages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Plan returns the page of a change of what runs: money today and after, what changes, the GPUs of each node before and
// after, the steps, and what stays and why.
func Plan(p *migrate.Plan) *webpage.Page {
	b := &p.Bill
	head := "All stays as it is: " + p.Why
	if p.Changes() {
		head = freed(b.MonthlySaved, b.Currency) + upper(p.Why)
	}
	page := &webpage.Page{Title: "What runs, and what should change", Answer: fmt.Sprintf(
		"%s.\n%s with GPUs today, %d after.", strings.TrimSuffix(head, "."), plaintext.Count(b.NodesToday, "node"),
		b.NodesAfter)}
	first := webpage.Section{Tables: []webpage.Table{{
		Head: []string{"", "nodes with GPUs", strings.TrimSpace(b.Currency + " a month")},
		Rows: []webpage.Row{{Cells: []string{"today", fmt.Sprint(b.NodesToday), amount(b.MonthlyToday)}},
			{Cells: []string{"plan", fmt.Sprint(b.NodesAfter), amount(b.MonthlyAfter)}, Chosen: true},
			{Cells: []string{"freed", fmt.Sprint(b.NodesToday - b.NodesAfter), amount(b.MonthlySaved)}}}}}}
	if b.Uncertain != "" && p.Changes() {
		first.Notes = append(first.Notes, fmt.Sprintf("Of that %s %s may not come: workloads that move may have to go back.",
			amount(b.Uncertain), b.Currency))
	}
	changes := webpage.Table{Caption: "Changes", Head: []string{"node", "workload", "today", "after", "risk"}}
	for _, r := range p.Rows {
		changes.Rows = append(changes.Rows, webpage.Row{Colour: r.Workload, Cells: []string{r.Node, r.Workload,
			cmp.Or(r.Today, "-"), cmp.Or(r.After, "leaves"), r.Risk}})
	}
	first.Tables = append(first.Tables, changes)
	before, after := newState(p.Fleet), newState(p.Fleet)
	steps := webpage.Section{Title: "Steps, one after another"}
	for i := range p.Steps {
		after.take(&p.Steps[i])
		steps.Text = append(steps.Text, fmt.Sprintf("%d. %s", i+1, p.Steps[i].Title()))
	}
	maps := []webpage.Map{{Title: "Today", Nodes: before.draw()}}
	if p.Changes() {
		maps = append(maps, webpage.Map{Title: "Plan", Nodes: after.draw()})
	}
	page.Sections = []webpage.Section{first, {Title: "GPUs", Maps: maps, Text: []string{
		"The width of a tenant is its part of a GPU: its slices, or its turn among those that share. " +
			"Who shares a node stands in the cluster; on which of its GPUs, where several do, does not."}}}
	page.Sections = append(page.Sections, steps)
	stays := map[string]string{}
	table := webpage.Table{Head: []string{"workloads", "why"}}
	for _, s := range p.Stays {
		names := plaintext.Some(s.Workloads, len(s.Workloads), s.Count)
		for _, w := range s.Workloads {
			stays[w] = s.Why
		}
		table.Rows = append(table.Rows, webpage.Row{Cells: []string{names, s.Why}})
	}
	page.Sections = append(page.Sections, webpage.Section{Title: "Stays as it is", Tables: []webpage.Table{table}})
	for i := range p.Fleet.Workloads {
		page.Details = append(page.Details, change(p, p.Fleet.Workloads[i].Name, stays))
	}
	return page
}

func upper(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// change says of a workload what changes, whether it keeps its objectives, and what else the decision knows.
func change(p *migrate.Plan, workload string, stays map[string]string) webpage.Detail {
	out := webpage.Detail{Name: workload}
	for _, r := range p.Rows {
		if r.Workload == workload {
			out.Text = append(out.Text, fmt.Sprintf("On %s: %s today, %s after; %s", r.Node, cmp.Or(r.Today, "nothing"),
				cmp.Or(r.After, "nothing"), r.Risk))
		}
	}
	for _, a := range p.Answers {
		if a.Workload == workload {
			out.Text = append(out.Text, fmt.Sprintf("Keeps its objectives: %s today, %s after.", a.Today, a.After))
		}
	}
	if why := stays[workload]; why != "" {
		out.Text = append(out.Text, "Stays: "+why)
	}
	if p.Result != nil {
		if d := p.Result.Decision(workload); d != nil {
			out.Text = append(out.Text, detail(p.Result, d).Text...)
		}
	}
	if len(out.Text) == 0 {
		out.Text = []string{"Stays as it is."}
	}
	return out
}

// device names what a replica holds on a node: a GPU, a turn on one, or an instance.
type device struct{ workload, seat string }

// state holds what runs on each node while the steps of a plan are taken.
type state struct {
	fleet  *decision.Fleet
	shapes map[string]migrate.Shape
	held   map[string]map[device]int // replicas by node
}

func newState(f *decision.Fleet) *state {
	s := &state{f, map[string]migrate.Shape{}, map[string]map[device]int{}}
	for i := range f.Today.Nodes {
		n := &f.Today.Nodes[i]
		s.shapes[n.Name], s.held[n.Name] = migrate.ShapeOf(n), map[device]int{}
	}
	for _, w := range f.Workloads {
		if w.Today != nil {
			s.move(device{w.Name, strings.TrimSpace(w.Today.Mechanism.String() + " " + w.Today.Profile)}, w.Today.On, 1)
		}
	}
	return s
}

func (s *state) move(d device, to []decision.Place, sign int) {
	for _, on := range to {
		if s.held[on.Node][d] += sign * on.Replicas; s.held[on.Node][d] <= 0 {
			delete(s.held[on.Node], d)
		}
	}
}

// take takes a step.
func (s *state) take(step *migrate.Step) {
	switch step.Action {
	case migrate.ActionConfigure:
		s.shapes[step.Node] = *step.Gets
	case migrate.ActionMove:
		for node, held := range s.held {
			for d := range held {
				if d.workload == step.Workload {
					for _, from := range step.From {
						if from.Node == node {
							s.move(d, []decision.Place{from}, -1)
						}
					}
				}
			}
		}
		s.move(device{step.Workload, step.Seat}, step.To, 1)
	}
}

// draw draws every node, the tenants of a mechanism in the order of their size, each on the first GPU with room.
func (s *state) draw() (nodes []webpage.Node) {
	for i := range s.fleet.Today.Nodes {
		n := &s.fleet.Today.Nodes[i]
		pool := s.fleet.Pools[slices.IndexFunc(s.fleet.Pools, func(p decision.Pool) bool { return p.Name == n.Pool })]
		var gpus []webpage.GPU
		put := func(mechanism string, p webpage.Part) {
			name := pool.GPU + ", " + mechanism
			k := slices.IndexFunc(gpus, func(g webpage.GPU) bool {
				room := 1 - p.Share + 1e-9
				for _, other := range g.Parts {
					room -= other.Share
				}
				return g.Name == name && room >= 0
			})
			if k < 0 {
				k = len(gpus)
				gpus = append(gpus, webpage.GPU{Name: name})
			}
			gpus[k].Parts = append(gpus[k].Parts, p)
		}
		held := s.held[n.Name]
		for _, d := range slices.SortedFunc(maps.Keys(held), func(a, b device) int {
			return cmp.Or(cmp.Compare(s.share(pool.GPU, n.Name, b.seat), s.share(pool.GPU, n.Name, a.seat)),
				cmp.Compare(a.seat, b.seat), cmp.Compare(a.workload, b.workload))
		}) {
			mechanism, profile, _ := strings.Cut(d.seat, " ")
			for range held[d] * max(1, workloadOf(s.fleet, d.workload).GPUs) {
				put(mechanism, webpage.Part{Name: d.workload, Text: profile, Detail: d.workload,
					Share: s.share(pool.GPU, n.Name, d.seat)})
			}
		}
		gpus = append(gpus, alike(n.GPUs-len(gpus), pool.GPU+", nothing on it", nil)...)
		shape := s.shapes[n.Name]
		nodes = append(nodes, webpage.Node{Name: n.Name + ": " + shape.String(), GPUs: grouped(gpus)})
	}
	return nodes
}

// share is the part of a GPU that a device takes.
func (s *state) share(gpu, node, seat string) float64 {
	mechanism, profile, _ := strings.Cut(seat, " ")
	if known, err := sharing.LookupGPU(gpu); err == nil && profile != "" {
		if model, err := mig.Lookup(known.Name); err == nil {
			if p, err := model.Profile(profile); err == nil {
				return float64(p.PlacementUnits) / float64(model.Units)
			}
		}
	}
	if mechanism == sharing.MechanismExclusive.String() {
		return 1
	}
	return 1 / float64(max(1, s.shapes[node].Replicas))
}

// grouped draws GPUs that carry the same once.
func grouped(gpus []webpage.GPU) (out []webpage.GPU) {
	for len(gpus) > 0 {
		g, n := gpus[0], len(gpus)
		gpus = slices.DeleteFunc(gpus, func(o webpage.GPU) bool { return o.Name == g.Name && slices.Equal(o.Parts, g.Parts) })
		out = append(out, alike(n-len(gpus), g.Name, g.Parts)...)
	}
	return out
}
