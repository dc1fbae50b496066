package judge

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
)

// Page returns the report as a page: what decisions missed and cost, beside every rule, as numbers and as a chart of
// what is missed against money.
func (r *Report) Page() *webpage.Page {
	t := webpage.Table{Head: []string{"who decides", "decided", "provisional", "none", "wrong none", "GPUs out of memory",
		"missed (%)", "provisional missed (%)", "regret (%), mean", "P95", "hindsight (%), mean", "P95"}}
	c := webpage.Chart{Title: "Missed against money", Scatter: true, X: webpage.Axis{Label: "workloads that missed (%)"},
		Y: webpage.Axis{Label: "mean regret (% of the cheapest)"}}
	add := func(name string, o *Outcome) {
		t.Add(name, o.Decided, o.Provisional, o.None, o.WrongNone, o.Overcommitted, o.MissedPercent,
			o.ProvisionalMissedPercent, o.Regret.Mean, o.Regret.P95, o.Hindsight.Mean, o.Hindsight.P95)
		c.Add(name, webpage.Point{X: o.MissedPercent, Y: o.Regret.Mean})
	}
	add("decision", &r.Ours)
	t.Choose()
	add("cheapest that could be shown", &r.Shown)
	cheapest := rules[0]
	for _, rule := range rules {
		add(rule.label, r.Rules[rule.name])
		if r.Rules[rule.name].Regret.Mean < r.Rules[cheapest.name].Regret.Mean {
			cheapest = rule
		}
	}
	number, rule := webpage.Number, r.Rules[cheapest.name]
	return &webpage.Page{Title: "Decisions held to simulated worlds",
		Basis: fmt.Sprintf("Simulated: %d fleets with %d workloads, in %s each, seed %d.", r.Fleets, r.Workloads,
			plaintext.Count(r.Worlds, "world"), r.Seed),
		Answer: fmt.Sprintf("Of %d workloads decided at %.4g%% confidence %s%% missed an objective, for %s%% more money "+
			"than the cheapest arrangement that could be shown to do.\nThe cheapest rule of thumb (%s) misses %s%%, for "+
			"%s%% more.", r.Ours.Decided, 100*r.Confidence, number(r.Ours.MissedPercent), number(r.Ours.Regret.Mean),
			cheapest.label, number(rule.MissedPercent), number(rule.Regret.Mean)),
		Sections: []webpage.Section{{Tables: []webpage.Table{t}, Charts: []webpage.Chart{c}, Notes: []string{
			"Regret is what is paid over the cheapest arrangement that could be shown to keep the objectives from the " +
				"same information; hindsight knows the world.", fmt.Sprintf("The cheapest arrangement was sought among "+
				"all in %d fleets; elsewhere the best found stands for it.", r.Exhaustive)}}}}
}
