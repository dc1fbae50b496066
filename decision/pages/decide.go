// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/sharing"
)

// Decide returns the page of a fleet's decision: money today, planned and freed, the place of each workload with its
// reason, the GPUs, and the traps.
func Decide(r *decision.Result) *webpage.Page {
	t, many := &r.Totals, len(r.Decisions) >= manyWorkloads
	gets := webpage.Table{Head: []string{"workload", "gets", "answer", "replicas", "a replica an hour", "why"}}
	p := &webpage.Page{Title: "What shares which GPU", Details: map[string][]string{}}
	placed := 0
	for i := range r.Decisions {
		d := &r.Decisions[i]
		placed += min(d.Placed, 1)
		p.Details[d.Workload] = detail(r, d)
		what, cost := "no place", "-"
		if d.Status != decision.StatusNone {
			what = d.Where()
		}
		if d.Cost != nil {
			cost = plaintext.Amount(d.Cost.PerReplicaHour) + " " + d.Cost.Currency
		}
		gets.Add(d.Workload, what, d.Status, fmt.Sprintf("%d of %d", d.Placed, d.Replicas), cost, d.Why)
	}
	p.Answer = fmt.Sprintf("%s.\n%d of %s have a place at %.4g%% confidence.", t.Summary(), placed,
		plaintext.Count(len(r.Decisions), "workload"), 100*r.Confidence)
	var notes []string
	for _, part := range []struct{ monthly, what string }{{t.MonthlyFreedBySharing, "is freed by sharing"},
		{t.MonthlyFreedIdle, "is freed of pools and nodes that nobody used before"}, {t.MonthlyAdded, "is added"},
		{t.MonthlyUnplaced, "of free GPUs is kept, which work without a place may hold"}} {
		if part.monthly != "" {
			notes = append(notes, fmt.Sprintf("%s %s a month %s.", plaintext.Amount(part.monthly), t.Currency, part.what))
		}
	}
	notes = append(notes, r.Remarks...)
	for _, a := range r.Assumes {
		notes = append(notes, "Assumes "+a.What+": "+a.Why)
	}
	p.Sections = []webpage.Section{{Notes: notes, Tables: []webpage.Table{money("GPUs", t.Currency, t.GPUsToday,
		t.GPUsAfter, t.MonthlyToday, t.MonthlyAfter, t.MonthlyFreed), gets}}, {Title: "GPUs as planned", Text: []string{
		"The width of a tenant is its part of the GPU's memory, that of a MIG instance its slices. Click a name for the " +
			"reasons."}}}
	for _, pool := range r.Pools {
		of := webpage.Node{Name: fmt.Sprintf("%d of %s in use", pool.GPUsNeeded, plaintext.Count(pool.GPUs, "GPU"))}
		for n := range r.Layout.Nodes() {
			if n.Pool == pool.Pool {
				of.GPUs = append(of.GPUs, gpusOf(n)...)
			}
		}
		p.Sections = append(p.Sections, webpage.Section{Title: pool.Pool, Folded: many,
			Maps: []webpage.Map{{Nodes: []webpage.Node{of}}}})
	}
	traps := webpage.Table{Head: []string{"severity", "trap", "what"}}
	for _, hit := range r.Traps {
		traps.Add(hit.Severity, hit.ID, hit.Message)
	}
	p.Sections = append(p.Sections,
		webpage.Section{Title: "Traps that the input walks into", Tables: []webpage.Table{traps}})
	return p
}

// detail gives the reasons for a workload's place, the odds, and its traps.
func detail(r *decision.Result, d *decision.Decision) (lines []string) {
	if len(r.Decisions) < manyWorkloads {
		var b bytes.Buffer
		if err := r.WriteText(&b, decision.TextOptions{Explain: d.Workload, Width: 1000}); err == nil {
			return strings.Split(strings.TrimSpace(b.String()), "\n")
		}
	}
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	say("%s: %s", d.Status, d.Why)
	for _, c := range d.Consequences {
		say("%s %.4g (%.4g to %.4g) of %.4g: kept %s", c.Metric, c.Value, c.Low, c.High, c.Limit, c.Verdict)
	}
	for _, hit := range d.Traps {
		say("Trap %s (%s): %s", hit.ID, hit.Severity, hit.Message)
	}
	return lines
}

// manyWorkloads is the number from which on pools are folded and reasons are short.
const manyWorkloads = 21

// money is the table of how much is there, of GPUs or nodes, and its price.
func money(of, currency string, today, after int, pricedToday, pricedAfter, saved string) webpage.Table {
	t := webpage.Table{Head: []string{"", of, strings.TrimSpace(currency + " a month")}}
	t.Add("today", today, plaintext.Amount(pricedToday))
	t.Add("plan", after, plaintext.Amount(pricedAfter))
	t.Choose()
	t.Add("freed", today-after, plaintext.Amount(saved))
	return t
}

// gpusOf draws the GPUs of a node. A tenant has its slices as its width, or its memory where that of all is known, or
// its time slice.
func gpusOf(n *layout.Node) (gpus []webpage.GPU) {
	for i := range n.Devices {
		d := &n.Devices[i]
		known, sum := true, sharing.Bytes(0)
		for a := range n.On(i) {
			known, sum = known && a.Memory > 0, sum+a.Memory
		}
		gpu := webpage.GPU{Name: d.GPU.Name + ", " + d.Mode.String()}
		for a := range n.On(i) {
			part := webpage.Part{Name: a.Workload.Name, Share: 1 / float64(max(1, int(d.Slots), n.Tenants(i)))}
			switch p := a.Profile; {
			case p != nil:
				part.Text, part.Share = p.Name, float64(p.PlacementUnits)/float64(p.Model().Units)
			case known && sum <= d.GPU.Memory:
				part.Text, part.Share = a.Memory.String(), float64(a.Memory)/float64(d.GPU.Memory)
			}
			gpu.Parts = append(gpu.Parts, part)
		}
		if gpu.Parts == nil {
			gpu.Name = d.GPU.Name + ", nothing on it"
		}
		gpus = append(gpus, gpu)
	}
	return gpus
}
