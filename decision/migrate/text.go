package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Title is the step in a sentence, the same wherever the step is shown.
func (s *Step) Title() string {
	n := plaintext.Count(s.Replicas, "replica")
	switch s.Action {
	case ActionConfigure:
		return fmt.Sprintf("Drain %s, on which no GPU is in use, and let it hand out %v (today %s)", s.Node, Shape(s.Gets),
			s.Was)
	case ActionFree:
		if s.Others > 0 {
			return fmt.Sprintf("Give %s back: no GPU of it is in use; %s there without one move when it is drained", s.Node,
				plaintext.Count(s.Others, "pod"))
		}
		return fmt.Sprintf("Give %s back: nothing runs on it any more", s.Node)
	}
	if len(s.From) == 0 {
		return fmt.Sprintf("Start %s of %s on %s, each on %s", n, s.Workload, places(s.To), s.Seat)
	}
	how := "each new replica is ready before an old one stops"
	if s.Budget != "" {
		how = fmt.Sprintf("one after another, each stopped before the next starts, as PodDisruptionBudget %s allows",
			s.Budget)
	}
	return fmt.Sprintf("Move %s of %s from %s to %s, each to %s: %s", n, s.Workload,
		places(s.From), places(s.To), s.Seat, how)
}

// Shape describes how a node shares its GPUs: "mps, 3 pods to a GPU and 2 x 3g.40gb".
func Shape(n *layout.Node) string {
	var parts []string
	instances := map[string]int{}
	for i := range n.Devices {
		d := &n.Devices[i]
		for _, in := range d.Instances {
			instances[in.Profile.Name]++
		}
		text := fmt.Sprintf("%v, %d pods to a GPU", d.Mode, d.Slots)
		if d.Mode == sharing.MechanismExclusive {
			text = "whole GPUs"
		}
		if !layout.Sliced(d.Mode) && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	for _, p := range sortedKeys(instances) {
		parts = append(parts, fmt.Sprintf("%d x %s", instances[p], p))
	}
	return strings.Join(parts, " and ")
}

func places(all []Place) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s (%d)", p.Node, p.Replicas))
	}
	return strings.Join(out, ", ")
}

// Admits returns a line on whether arriving workloads have a place, with the reason and the price: the summary of a
// plan that [Admit] made.
func (p *Plan) Admits(coming []string) (answer string, admitted bool) {
	price := ""
	if p.Bill.Comes != "" {
		price = fmt.Sprintf("; its devices cost %s %s a month", p.Bill.Comes, p.Bill.Currency)
	}
	waits := p.Waits()
	lacks := slices.DeleteFunc(slices.Clone(coming), func(w string) bool { return !slices.Contains(waits, w) })
	switch {
	case len(lacks) > 0:
		why := ""
		for _, s := range p.Stays {
			if slices.Contains(s.Workloads, lacks[0]) {
				why = strings.TrimPrefix(": "+s.Why, ": it has no place")
			}
		}
		return fmt.Sprintf("NO: %s has no place%s", plaintext.Some(lacks, len(lacks), len(lacks)), why), false
	case p.Disturbs():
		return fmt.Sprintf("ONLY IF WHAT RUNS CHANGES, in %s%s", plaintext.Count(len(p.Steps), "step"), price), true
	case len(coming) == 1:
		return fmt.Sprintf("YES: %s has a place, and nothing that runs changes%s", coming[0], price), true
	}
	return fmt.Sprintf("YES: all %d workloads have a place, and nothing that runs changes%s", len(coming), price), true
}

// mostRows bounds the rows of the table that a text shows.
const mostRows = 200

// Lines are the plan for people, paragraph by paragraph: its money, what changes by node and workload, the steps, and
// what stays by reason. A line that begins with a space belongs to the heading before it.
func (p *Plan) Lines() []string {
	head := "PLAN: all stays as it is: " + p.Why
	if p.Changes() {
		head = "PLAN: " + p.Why
	}
	b := &p.Bill
	money := fmt.Sprintf(" %s with GPUs today, %d after", plaintext.Count(b.NodesToday, "node"), b.NodesAfter)
	if b.Currency != "" {
		money += fmt.Sprintf("; %s %s a month today, %s after", b.MonthlyToday, b.Currency, b.MonthlyAfter)
		if b.saved != 0 {
			money += fmt.Sprintf(": saves %s, of which %s are uncertain", b.MonthlySaved, b.Uncertain)
		}
		if b.Comes != "" {
			money += fmt.Sprintf("; the devices of what comes: %s", b.Comes)
		}
	} else {
		money += "; without a price of every pool nothing is said of money"
	}
	out := []string{head, money}
	out = append(out, list("CHANGES by node and workload", "rows: the JSON has all", p.Rows, func(r *Row) string {
		text := fmt.Sprintf("%s -> %s", r.Today, r.After)
		switch {
		case r.Today == "":
			text = "comes: " + r.After
		case r.After == "":
			text = "leaves: " + r.Today
		}
		return fmt.Sprintf("%s  %s: %s; %s", r.Node, r.Workload, text, r.Risk)
	})...)
	n := 0
	out = append(out, list("STEPS, one after another", "steps: plan.md has all", p.Steps, func(s *Step) string {
		n++
		return fmt.Sprintf("%d. %s", n, s.Title())
	})...)
	return append(out, list("STAYS AS IT IS, by reason", "reasons: the JSON has all", p.Stays, func(s *Stay) string {
		return plaintext.Some(s.Workloads, len(s.Workloads), s.Count) + ": " + s.Why
	})...)
}

// list writes the first mostRows of items under a heading, and more of how many are left out.
func list[T any](heading, more string, items []T, text func(*T) string) (out []string) {
	for i := range items {
		switch {
		case i == 0:
			out = []string{heading}
		case i == mostRows:
			return append(out, fmt.Sprintf(" and %d more %s", len(items)-i, more))
		}
		out = append(out, " "+text(&items[i]))
	}
	return out
}
