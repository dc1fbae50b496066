package migrate

import (
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/decision"
)

// Title is the step in a sentence, the same wherever the step is shown.
func (s *Step) Title() string {
	switch s.Action {
	case ActionConfigure:
		return fmt.Sprintf("Drain %s, on which no GPU is in use, and let it hand out %v (today %s)", s.Node, s.Gets, s.Was)
	case ActionFree:
		return fmt.Sprintf("Give %s back: nothing runs on it any more", s.Node)
	}
	if len(s.From) == 0 {
		return fmt.Sprintf("Start %s of %s on %s, each on %s", plural(s.Replicas, "replica"), s.Workload, places(s.To),
			s.Seat)
	}
	how := "each new replica is ready before an old one stops"
	if s.Budget != "" {
		how = fmt.Sprintf("one after another, each stopped before the next starts, as PodDisruptionBudget %s allows",
			s.Budget)
	}
	return fmt.Sprintf("Move %s of %s from %s to %s, each to %s: %s", plural(s.Replicas, "replica"), s.Workload,
		places(s.From), places(s.To), s.Seat, how)
}

func places(all []decision.Place) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s (%d)", p.Node, p.Replicas))
	}
	return strings.Join(out, ", ")
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
	money := fmt.Sprintf(" %s with GPUs today, %d after", plural(b.NodesToday, "node"), b.NodesAfter)
	if b.Currency != "" {
		money += fmt.Sprintf("; %s %s a month today, %s after", b.MonthlyToday, b.Currency, b.MonthlyAfter)
		if p.Changes() {
			money += fmt.Sprintf(": saves %s, of which %s are uncertain", b.MonthlySaved, b.Uncertain)
		}
		if b.Comes != "" {
			money += fmt.Sprintf("; the devices of what comes: %s", b.Comes)
		}
	} else {
		money += "; without a price of every pool nothing is said of money"
	}
	out := []string{head, money}
	if len(p.Rows) > 0 {
		out = append(out, "CHANGES by node and workload")
	}
	for i, r := range p.Rows {
		if i == mostRows {
			out = append(out, fmt.Sprintf(" and %d more rows: the JSON has all", len(p.Rows)-i))
			break
		}
		text := fmt.Sprintf("%s -> %s", r.Today, r.After)
		switch {
		case r.Today == "":
			text = "comes: " + r.After
		case r.After == "":
			text = "leaves: " + r.Today
		}
		out = append(out, fmt.Sprintf(" %s  %s: %s; %s", r.Node, r.Workload, text, r.Risk))
	}
	if p.Changes() {
		out = append(out, "STEPS, one after another")
	}
	for i := range p.Steps {
		if i == mostRows {
			out = append(out, fmt.Sprintf(" and %d more steps: plan.md has all", len(p.Steps)-i))
			break
		}
		out = append(out, fmt.Sprintf(" %d. %s", i+1, p.Steps[i].Title()))
	}
	if len(p.Stays) > 0 {
		out = append(out, "STAYS AS IT IS, by reason")
	}
	for i, s := range p.Stays {
		if i == mostRows {
			out = append(out, fmt.Sprintf(" and %d more reasons: the JSON has all", len(p.Stays)-i))
			break
		}
		names := strings.Join(s.Workloads, ", ")
		if s.Count > len(s.Workloads) {
			names += fmt.Sprintf(" and %d more", s.Count-len(s.Workloads))
		}
		out = append(out, fmt.Sprintf(" %s: %s", names, s.Why))
	}
	return out
}

// WriteText writes the plan's lines, each under its heading.
func (p *Plan) WriteText(w io.Writer) error {
	for _, line := range p.Lines() {
		if strings.HasPrefix(line, " ") {
			line = " " + line
		} else {
			line = "\n" + line
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
