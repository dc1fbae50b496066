package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/advise"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
)

// mostUnknown bounds the unknowns that a page lists; the fleet's file and the JSON have all.
const mostUnknown = 40

// Discovered returns the page of a cluster: what runs on which GPUs, what is found there and what no input says; with a
// plan, which may be nil, also what should change.
func Discovered(d *discover.Discovery, plan *migrate.Plan) *webpage.Page {
	gpus, tenants := 0, 0
	uses := webpage.Table{Caption: "Today", Head: []string{"pool", "GPUs handed out by", "GPUs", "pods on them"}}
	for _, s := range d.Today {
		gpus, tenants = gpus+s.GPUs, tenants+s.Tenants
		uses.Add(s.Pool, s.Mechanism, s.GPUs, s.Tenants)
	}
	count := plaintext.Count
	runs := fmt.Sprintf("%s of %s on %s; %s, and %s that no input says.", count(tenants, "pod"),
		count(len(d.Fleet.Workloads), "workload"), count(gpus, "GPU"), count(len(d.Findings), "finding"),
		count(len(d.Unknown), "figure"))
	p := &webpage.Page{Title: "What runs", Answer: runs, Sections: []webpage.Section{{Tables: []webpage.Table{uses}}}}
	switch {
	case plan != nil:
		p = Plan(plan)
		p.Answer += "\n" + runs
	case d.Fleet.Today != nil:
		p.Sections = append(p.Sections, webpage.Section{Title: "GPUs", Maps: []webpage.Map{{Nodes: nodesOf(&d.Fleet, nil)}}})
	}
	found := webpage.Table{Head: []string{"severity", "where", "what", "said by"}}
	for _, f := range d.Findings {
		found.Add(f.Severity, f.Object, f.Message, f.Source)
	}
	for _, r := range d.Rightsize {
		found.Add("advice", "workload "+r.Workload, fmt.Sprintf("%s does where it has %s; %s fewer", r.To, r.From,
			count(r.Frees, "GPU")), "measured memory")
	}
	unknown := webpage.Table{Head: []string{"a month at stake", "unknown", "settle it by"}}
	for _, u := range d.Unknown[:min(mostUnknown, len(d.Unknown))] {
		unknown.Add(amount(u.MonthlyAtStake), u.Why, u.SettleBy)
	}
	more := []webpage.Section{{Title: "Findings", Tables: []webpage.Table{found}},
		{Title: "Unknown, by the money that hangs on it", Tables: []webpage.Table{unknown}}}
	if rest := len(d.Unknown) - mostUnknown; rest > 0 {
		more[1].Notes = []string{fmt.Sprintf("%d more: -json has all.", rest)}
	}
	p.Sections = slices.Insert(p.Sections, min(2, len(p.Sections)), more...)
	return p
}

// Advised returns the page of a look at a cluster: whether to act, what changed since the last look, and what
// Discovered shows of the cluster and its plan.
func Advised(d *discover.Discovery, a *advise.Advice) *webpage.Page {
	plan := cmp.Or(a.Now, a.Plan)
	p := Discovered(d, plan)
	if !plan.Changes() { // the headline says so
		_, p.Answer, _ = strings.Cut(p.Answer, "\n")
	}
	p.Title, p.Answer = "Advice of "+a.At.Format("2006-01-02 15:04 MST"), sentence(a.Headline())+"\n"+p.Answer
	since := webpage.Table{Caption: "Since the last look", Head: []string{"", "what"}}
	for i, list := range [][]string{a.Changed, a.Drifted, a.Settled} {
		for _, item := range list {
			since.Add([]string{"changed", "drifted from the plan", "settled"}[i], item)
		}
	}
	p.Sections[0].Tables = append(p.Sections[0].Tables, since)
	if len(since.Rows) == 0 {
		p.Sections[0].Notes = append(p.Sections[0].Notes, "Nothing changed since the last look, or this is the first.")
	}
	return p
}
