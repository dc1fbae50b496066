package pages

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// manyWorkloads is from where on workloads are grouped by equal answers, and pools folded.
const manyWorkloads = 21

// Decide returns the page of a fleet's decision: money today, planned and freed, what each workload gets and why, the
// GPUs, and the traps.
func Decide(f *decision.Fleet, r *decision.Result) *webpage.Page {
	t := &r.Totals
	placed := 0
	for i := range r.Decisions {
		placed += min(r.Decisions[i].Placed, 1)
	}
	p := &webpage.Page{Title: "What shares which GPU", Answer: freed(t.MonthlyFreed, t.Currency) + fmt.Sprintf(
		"%d of %s have a place, at %.4g%% confidence, on %s; %d are there today.", placed,
		plaintext.Count(len(r.Decisions), "workload"), 100*r.Confidence, plaintext.Count(t.GPUsAfter, "GPU"), t.GPUsToday)}
	if m := r.MoreGPUs; m != nil {
		p.Answer += fmt.Sprintf("\n%s more in %s would hold all that lack room.", plaintext.Count(m.GPUs, "GPU"), m.Pool)
	}
	first := webpage.Section{Tables: []webpage.Table{money(t.Currency, webpage.Row{Cells: []string{"today",
		fmt.Sprint(t.GPUsToday), amount(t.MonthlyToday)}}, webpage.Row{Cells: []string{"plan", fmt.Sprint(t.GPUsAfter),
		amount(t.MonthlyAfter)}, Chosen: true}, webpage.Row{Cells: []string{"freed", fmt.Sprint(t.GPUsToday - t.GPUsAfter),
		amount(t.MonthlyFreed)}}), answers(r)}, Notes: slices.Clone(r.Remarks)}
	for _, a := range r.Assumes {
		first.Notes = append(first.Notes, "Assumes "+a.What+": "+a.Why)
	}
	if r.Installing != nil {
		first.Notes = append(first.Notes, r.Installing.String())
	}
	plan := webpage.Map{}
	for i := range r.Pools {
		plan.Nodes = append(plan.Nodes, poolOf(f, &r.Pools[i]))
	}
	p.Sections = []webpage.Section{first, {Title: "GPUs as planned", Maps: []webpage.Map{plan}, Text: []string{
		"The width of a tenant is its part of the GPU's memory, that of a MIG instance its slices. " +
			"Click a name for the reasons."}}}
	if len(r.Decisions) >= manyWorkloads {
		p.Sections[1].Maps = nil
		for _, n := range plan.Nodes {
			p.Sections = append(p.Sections, webpage.Section{Title: n.Name, Folded: true,
				Maps: []webpage.Map{{Nodes: []webpage.Node{n}}}})
		}
	}
	for i := range r.Decisions {
		p.Details = append(p.Details, detail(r, &r.Decisions[i]))
	}
	p.Sections = append(p.Sections, webpage.Section{Title: "Traps that the input walks into",
		Tables: []webpage.Table{trapsOf(r)}})
	return p
}

// freed says what a plan frees, or needs more, in a sentence.
func freed(amountFreed, currency string) string {
	more, negative := strings.CutPrefix(amountFreed, "-")
	switch {
	case amountFreed == "":
		return ""
	case negative:
		return fmt.Sprintf("The plan needs %s %s a month more. ", amount(more), currency)
	}
	return fmt.Sprintf("The plan frees %s %s a month. ", amount(amountFreed), currency)
}

// amount writes an exact decimal for the eye: cents, and commas between thousands.
func amount(decimal string) string {
	whole, cents, ok := strings.Cut(decimal, ".")
	if decimal == "" {
		return "-"
	}
	for at := len(whole) - 3; at > 0 && whole[at-1] != '-'; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if ok {
		whole += "." + (cents + "00")[:2]
	}
	return whole
}

func money(currency string, rows ...webpage.Row) webpage.Table {
	return webpage.Table{Head: []string{"", "GPUs", strings.TrimSpace(currency + " a month")}, Rows: rows}
}

// answers lists what workloads get; of many, how many get the same.
func answers(r *decision.Result) webpage.Table {
	gets := func(d *decision.Decision) string {
		if d.Status == decision.StatusNone {
			return "no place"
		}
		return strings.TrimSpace(d.Mechanism.String()+" "+d.Profile) + " on " + d.Pool
	}
	if len(r.Decisions) < manyWorkloads {
		t := webpage.Table{Head: []string{"workload", "gets", "answer", "replicas", "an hour", "why"}}
		for i := range r.Decisions {
			d := &r.Decisions[i]
			cost := "-"
			if d.Cost != nil {
				cost = amount(d.Cost.PerWorkloadHour) + " " + d.Cost.Currency
			}
			t.Rows = append(t.Rows, webpage.Row{Colour: d.Workload, Cells: []string{d.Workload, gets(d), d.Status.String(),
				fmt.Sprintf("%d of %d", d.Placed, d.Replicas), cost, d.Why}})
		}
		return t
	}
	t := webpage.Table{Head: []string{"workloads", "get", "answer", "replicas", "for example"}}
	groups := map[string][]*decision.Decision{}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		groups[gets(d)+d.Status.String()] = append(groups[gets(d)+d.Status.String()], d)
	}
	for _, g := range slices.SortedFunc(maps.Values(groups), func(a, b []*decision.Decision) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a[0].Workload, b[0].Workload))
	}) {
		replicas := 0
		for _, d := range g {
			replicas += d.Placed
		}
		t.Rows = append(t.Rows, webpage.Row{Cells: []string{fmt.Sprint(len(g)), gets(g[0]), g[0].Status.String(),
			fmt.Sprint(replicas), g[0].Workload + ": " + g[0].Why}})
	}
	return t
}

// alike returns n GPUs that carry the same as one box, none where there are none.
func alike(n int, name string, parts []webpage.Part) []webpage.GPU {
	switch n {
	case 0:
		return nil
	case 1:
		return []webpage.GPU{{Name: name, Parts: parts}}
	}
	return []webpage.GPU{{Name: fmt.Sprintf("%d alike: %s", n, name), Parts: parts}}
}

// poolOf draws the GPUs of a pool, with those that the plan leaves free.
func poolOf(f *decision.Fleet, p *decision.PoolResult) webpage.Node {
	n := webpage.Node{Name: fmt.Sprintf("%s: %d of %s in use", p.Pool, p.GPUsNeeded, plaintext.Count(p.GPUs, "GPU"))}
	for _, g := range p.Groups {
		for i := range g.Layouts {
			l := &g.Layouts[i]
			n.GPUs = append(n.GPUs, alike(l.GPUs, p.GPU+", "+g.Mechanism.String(), partsOf(f, p.GPU, l))...)
		}
	}
	n.GPUs = append(n.GPUs, alike(p.GPUs-p.GPUsNeeded, p.GPU+", not in use", nil)...)
	return n
}

// partsOf draws a GPU's instances by their slices, and other tenants by their memory, where all of it is known.
func partsOf(f *decision.Fleet, gpu string, l *decision.LayoutResult) (parts []webpage.Part) {
	known, err := sharing.LookupGPU(gpu)
	if err != nil {
		known = &sharing.GPU{}
	}
	for _, in := range l.Instances {
		share := 1 / float64(len(l.Instances))
		if model, err := mig.Lookup(known.Name); err == nil {
			share = float64(in.Size) / float64(model.Units)
		}
		parts = append(parts, webpage.Part{Name: in.Workload, Text: in.Profile, Share: share, Detail: in.Workload})
	}
	total, sum, replicas := known.Memory.Value, sharing.Bytes(0), 0
	for _, t := range l.Tenants {
		replicas += t.Replicas
		sum += workloadOf(f, t.Workload).MemoryNeed().Total * sharing.Bytes(t.Replicas)
	}
	for _, t := range l.Tenants {
		p := webpage.Part{Name: t.Workload, Share: float64(t.Replicas) / float64(replicas), Detail: t.Workload}
		if need := workloadOf(f, t.Workload).MemoryNeed().Total; need > 0 {
			p.Text = need.String()
			if total > 0 && sum <= total {
				p.Share = float64(need) * float64(t.Replicas) / float64(total)
			}
		}
		if t.Replicas > 1 {
			p.Text = fmt.Sprintf("%d x %s", t.Replicas, p.Text)
		}
		parts = append(parts, p)
	}
	return parts
}

func workloadOf(f *decision.Fleet, name string) *decision.Workload {
	return &f.Workloads[slices.IndexFunc(f.Workloads, func(w decision.Workload) bool { return w.Name == name })]
}

// detail says of a workload why it gets its place, at what odds, what else it could get, and its traps.
func detail(r *decision.Result, d *decision.Decision) webpage.Detail {
	out := webpage.Detail{Name: d.Workload}
	if len(r.Decisions) < manyWorkloads {
		var b bytes.Buffer
		if err := r.WriteText(&b, decision.TextOptions{Explain: d.Workload, Width: 1000}); err == nil {
			out.Text = strings.Split(strings.TrimSpace(b.String()), "\n")
			return out
		}
	}
	say := func(format string, args ...any) { out.Text = append(out.Text, fmt.Sprintf(format, args...)) }
	say("%s: %s", d.Status, d.Why)
	for _, c := range d.Consequences {
		say("%s %.4g (%.4g to %.4g) of %.4g: kept %s", c.Metric, c.Value, c.Low, c.High, c.Limit, c.Verdict)
	}
	for _, a := range []struct {
		name string
		*decision.Alternative
	}{{"Safe", d.Safe}, {"Otherwise", d.Otherwise}, {"A gamble", d.Gamble}} {
		if a.Alternative != nil {
			say("%s: %s", a.name, a.Alternative)
		}
	}
	for _, hit := range d.Traps {
		say("Trap %s (%s): %s", hit.ID, hit.Severity, hit.Message)
	}
	return out
}

// trapsOf lists the traps of a fleet, each with the first workload that walks into it.
func trapsOf(r *decision.Result) webpage.Table {
	t := webpage.Table{Head: []string{"severity", "trap", "workloads", "what"}}
	for _, hit := range r.Traps {
		names, message := 0, hit.Message
		first := ""
		for i := range r.Decisions {
			for _, h := range r.Decisions[i].Traps {
				if h.ID == hit.ID {
					if names++; names == 1 {
						first, message = r.Decisions[i].Workload, h.Message
					}
				}
			}
		}
		if names > 1 {
			first += fmt.Sprintf(" and %d more", names-1)
		}
		t.Rows = append(t.Rows, webpage.Row{Cells: []string{hit.Severity.String(), hit.ID, first, message}})
	}
	return t
}
