// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Plan is a change of a cluster's placement with its steps. Without steps nothing changes.
type Plan struct {
	Steps []Step `json:"steps"`
	Rows  []Row  `json:"changes"` // by node and workload
	Cost  Cost   `json:"bill"`
	// Mends lists workloads that today miss an objective or exceed the GPU's memory, but not after the change.
	Mends []string `json:"mends,omitempty"`
	// Answers lists whether workloads meet their objectives, if that is known today or after.
	Answers []Answer `json:"answers"`
	Stays   []Stay   `json:"stays,omitempty"` // by reason
	Why     string   `json:"why"`             // why nothing changes, or the summary of the change

	Fleet        *decision.Fleet `json:"-"` // the fleet with its state
	Today, After *layout.Cluster `json:"-"` // placements; Steps lists the differences
	// the decision for workloads that move to new nodes or get another request; nil without
	Result *decision.Result `json:"-"`

	cluster *cluster
}

// NotEnough begins the reason of a workload that is not moved because its figures are assumptions.
const NotEnough = "it is not known enough of: "

// Stay returns the reason why a workload could not move; empty if it could. held reports that more measurements or
// stated needs of the workload would not change that.
func (p *Plan) Stay(workload string) (why string, held bool) {
	return cmp.Or(p.cluster.stays[workload], p.cluster.bounds[workload]), p.cluster.held[workload]
}

// Changes reports whether the plan changes anything.
func (p *Plan) Changes() bool { return len(p.Steps) > 0 }

// Row is the change of one workload on one node.
type Row struct {
	Node     string `json:"node"`
	Workload string `json:"workload"`
	Today    string `json:"today"` // "3 x exclusive"; empty if it is new there
	After    string `json:"after"` // empty if it leaves
	Risk     string `json:"risk"`

	risky bool // that it meets its objectives is not sure
}

// Answer reports whether a workload meets its objectives today and after the change.
type Answer struct {
	Workload string         `json:"workload"`
	Today    sharing.Answer `json:"today"`
	After    sharing.Answer `json:"after"`
}

// Stay is a reason why workloads could not move.
type Stay struct {
	Why       string   `json:"why"`
	Count     int      `json:"count"`
	Workloads []string `json:"workloads"` // the first of them, at most 20
}

// mostNamed bounds the workloads that are named of one reason.
const mostNamed = 20

// Cost is the money of a plan per month of 730 hours: exact decimals, absent if a pool has no price. Nodes are paid as
// a whole, and reserved GPUs in any case.
type Cost struct {
	NodesToday int `json:"nodes_today"` // with GPUs
	NodesAfter int `json:"nodes_after"` // without nodes that the plan empties
	GPUsFreed  int `json:"gpus_freed"`
	// Uncertain is the part of MonthlySaved at risk: moved workloads that must go back, each with a probability of 1 minus
	// the confidence, and for each move an hour of its devices paid twice.
	MonthlyToday string `json:"monthly_today,omitempty"`
	MonthlyAfter string `json:"monthly_after,omitempty"`
	MonthlySaved string `json:"monthly_saved,omitempty"`
	Uncertain    string `json:"monthly_uncertain,omitempty"`
	// Comes is the price of the devices of new workloads.
	Comes    string `json:"monthly_comes,omitempty"`
	Currency string `json:"currency,omitempty"`

	saved, uncertain int64 // micro-units a month; without prices a GPU counts as one unit an hour
}

// Waits names the workloads with replicas that have no device after all steps.
func (p *Plan) Waits() (names []string) {
	has := total(p.After)
	for i := range p.Fleet.Workloads {
		if w := &p.Fleet.Workloads[i]; has[w.Name] < leastReplicas(w) {
			names = append(names, w.Name)
		}
	}
	return names
}

// total counts the replicas of workloads.
func total(l *layout.Cluster) map[string]int {
	out := map[string]int{}
	for n := range l.Nodes() {
		for w, k := range n.Replicas() {
			out[w] += k
		}
	}
	return out
}

// Disturbs reports whether any step does more than start arriving workloads.
func (p *Plan) Disturbs() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != "move" || len(s.From) > 0 })
}

// Step is one step of a plan. Steps are taken one after another; to take a plan back, undo the steps so far in reverse
// order.
type Step struct {
	// Action is move (a workload's replicas move to other devices), configure (an empty node changes the delivery of its
	// GPUs), or free (an empty node can be returned).
	Action string `json:"action"`
	Pool   string `json:"pool,omitempty"` // pool of its devices
	// For a step on a node: the node, its sharing before the step, and its configuration after it.
	Node string       `json:"node,omitempty"`
	Was  string       `json:"was,omitempty"`
	Gets *layout.Node `json:"gets,omitempty"`
	// Others counts the known pods without a GPU on a node that is returned.
	Others int `json:"others,omitempty"`
	// For a step on a workload: the kind of the patched object, its replicas, the nodes that they leave, and the nodes
	// that have a free device for each of them when the step begins.
	Workload string  `json:"workload,omitempty"`
	Object   string  `json:"object,omitempty"`
	Replicas int     `json:"replicas,omitempty"`
	From     []Place `json:"from,omitempty"`
	To       []Place `json:"to,omitempty"`
	Device   string  `json:"device,omitempty"` // the device that a replica gets
	Request  bool    `json:"request"`          // the pods request another device than today
	// Budget is the PodDisruptionBudget that lets a replica stop before its successor starts. Without one the successor
	// starts first.
	Budget string `json:"budget,omitempty"`
}

// Place is a node with a number of replicas of a workload.
type Place struct {
	Node     string `json:"node"`
	Replicas int    `json:"replicas"`
}

// Title returns the step in a sentence, the same wherever the step is shown.
func (s *Step) Title() string {
	n := plaintext.Count(s.Replicas, "replica")
	switch s.Action {
	case "configure":
		return fmt.Sprintf("Drain %s, on which no GPU is in use, and let it hand out %v (today %s)", s.Node, Shape(s.Gets),
			s.Was)
	case "free":
		if s.Others > 0 {
			return fmt.Sprintf("Give %s back: no GPU of it is in use; %s there without one move when it is drained", s.Node,
				plaintext.Count(s.Others, "pod"))
		}
		return fmt.Sprintf("Give %s back: nothing runs on it any more", s.Node)
	}
	if len(s.From) == 0 {
		return fmt.Sprintf("Start %s of %s on %s, each on %s", n, s.Workload, places(s.To), s.Device)
	}
	how := "each new replica is ready before an old one stops"
	if s.Budget != "" {
		how = fmt.Sprintf("one after another, each stopped before the next starts, as PodDisruptionBudget %s allows",
			s.Budget)
	}
	return fmt.Sprintf("Move %s of %s from %s to %s, each to %s: %s", n, s.Workload,
		places(s.From), places(s.To), s.Device, how)
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
// plan by [Admit].
func (p *Plan) Admits(coming []string) (answer string, admitted bool) {
	price := ""
	if p.Cost.Comes != "" {
		price = fmt.Sprintf("; its devices cost %s %s a month", p.Cost.Comes, p.Cost.Currency)
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

// Summary returns the plan in a sentence: the nodes it frees, its savings, the number of moves, and the risk.
func (p *Plan) Summary() string {
	b := &p.Cost
	if !p.Changes() {
		return "Nothing to change: " + p.Why + "."
	}
	moves, risky := 0, map[string]bool{}
	for i := range p.Steps {
		if p.Steps[i].Action == "move" {
			moves++
		}
	}
	for i := range p.Rows {
		if p.Rows[i].risky {
			risky[p.Rows[i].Workload] = true
		}
	}
	var parts []string
	if freed := b.NodesToday - b.NodesAfter; freed > 0 {
		parts = append(parts, fmt.Sprintf("Free %d of %s", freed, plaintext.Count(b.NodesToday, "node")))
	}
	if len(p.Mends) > 0 {
		parts = append(parts, "mend "+strings.Join(p.Mends, ", "))
	}
	if come := p.come(); len(come) > 0 {
		parts = append(parts, "give a place to "+strings.Join(come, ", "))
	}
	text := strings.Join(parts, ", ")
	text = strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
	if b.Currency != "" && b.saved != 0 {
		text += fmt.Sprintf(": %s %s a month", plaintext.Amount(b.MonthlySaved), b.Currency)
	}
	if text += ", " + plaintext.Count(moves, "move"); len(risky) == 0 {
		return text + ", no objective at risk."
	}
	return text + fmt.Sprintf(", %s whose objectives are not known to be kept.", plaintext.Count(len(risky), "workload"))
}

// come lists the workloads that get more replicas than run today.
func (p *Plan) come() (names []string) {
	today, after := total(p.Today), total(p.After)
	for _, w := range sortedKeys(after) {
		if after[w] > today[w] {
			names = append(names, w)
		}
	}
	return names
}

// mostRows and fewRows bound the rows of each list of a text, long and short.
const mostRows, fewRows = 200, 12

// Lines returns the plan as text, by paragraph: summary, money, changes by node and workload, steps, and, in the long
// form, the stays by reason. A line that begins with a space belongs to the heading before it.
func (p *Plan) Lines(long bool) []string {
	b, most := &p.Cost, fewRows
	if long {
		most = mostRows
	}
	money := " Without a price of every pool no money is stated"
	if b.Currency != "" {
		money = fmt.Sprintf(" %s %s a month today", plaintext.Amount(b.MonthlyToday), b.Currency)
		if b.saved != 0 {
			money += fmt.Sprintf(", %s after; %s of the saving may not come, as moved workloads may have to go back",
				plaintext.Amount(b.MonthlyAfter), plaintext.Amount(b.Uncertain))
		}
		if b.Comes != "" {
			money += fmt.Sprintf("; the devices of what comes cost %s of it", plaintext.Amount(b.Comes))
		}
	}
	out := []string{p.Summary(), money}
	out = append(out, list("CHANGES by node and workload", "rows", most, p.Rows, func(r *Row) string {
		text := fmt.Sprintf("%s -> %s", r.Today, r.After)
		switch {
		case r.Today == "":
			text = "comes: " + r.After
		case r.After == "":
			text = "leaves: " + r.Today
		}
		return fmt.Sprintf("%s  %s: %s; %s", r.Node, r.Workload, text, r.Risk)
	})...)
	out = append(out, p.StepLines(most)...)
	if !long {
		n := 0
		for i := range p.Stays {
			n += p.Stays[i].Count
		}
		if n > 0 {
			out = append(out, "STAYS AS IT IS", fmt.Sprintf(" %s: -v shows why", plaintext.Count(n, "workload")))
		}
		return out
	}
	return append(out, list("STAYS AS IT IS, by reason", "reasons", most, p.Stays, func(s *Stay) string {
		return plaintext.Some(s.Workloads, len(s.Workloads), s.Count) + ": " + s.Why
	})...)
}

// WriteText writes the plan as text, wrapped to width columns; 0 means [decision.DefaultWidth].
func (p *Plan) WriteText(w io.Writer, width int, long bool) error {
	var out bytes.Buffer
	for i, text := range p.Lines(long) {
		if i > 0 && !strings.HasPrefix(text, " ") {
			out.WriteByte('\n')
		}
		fmt.Fprintln(&out, plaintext.Wrap(text, cmp.Or(width, decision.DefaultWidth), 3))
	}
	_, err := out.WriteTo(w)
	return err
}

// StepLines returns the heading of the steps and the titles of at most `most` steps.
func (p *Plan) StepLines(most int) []string {
	n := 0
	return list("STEPS, one after another", "steps", most, p.Steps, func(s *Step) string {
		n++
		return fmt.Sprintf("%d. %s", n, s.Title())
	})
}

// list writes the first items under a heading, and how many more there are.
func list[T any](heading, what string, most int, items []T, text func(*T) string) (out []string) {
	for i := range items {
		switch {
		case i == 0:
			out = []string{heading}
		case i == most:
			return append(out, fmt.Sprintf(" and %d more %s: -v, -json and the page have them", len(items)-i, what))
		}
		out = append(out, " "+text(&items[i]))
	}
	return out
}
