package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/internal/webpage"
)

// The chart of growing load ends at highestOver, a multiple of the limit: what lies above is lost as surely.
const highestOver = 4

// Page returns the report as a page: what to take and its price, the cheapest of each kind, money and objectives
// against load, and why.
func (r *Report) Page() *webpage.Page {
	at := fmt.Sprintf("%s at load %g%s", r.SLO, r.load, r.perS(r.load, " (%s requests a second)"))
	p := &webpage.Page{Title: "GPUs for a trace", Basis: "All figures are simulated: no GPU was used.",
		Answer: "Nothing is known to keep " + at + "."}
	if c := r.Chosen; c != nil {
		p.Answer = fmt.Sprintf("%s, for %s %s an hour, is the cheapest that is known to keep %s.\nIt breaks first: %s.",
			label(c), amount(c.CostPerHour), r.Currency, at, c.FirstLimit)
	}
	t := webpage.Table{Head: []string{"kind", "GPUs", "router", "verdict", r.Currency + " an hour",
		"per million good tokens", "TTFT P99 (ms)", "TPOT P99 (ms)", "breaks first"}}
	grows := webpage.Chart{Title: "Objectives as load grows",
		X:      webpage.Axis{Label: "load (multiples of the trace)", Log: true},
		Y:      webpage.Axis{Label: "worst figure over its limit", Max: highestOver},
		Limits: []webpage.Limit{{Name: "the limit", At: 1}},
		Caption: fmt.Sprintf("Above the dashed line the objectives are missed. What lies above %d is not drawn.",
			highestOver)}
	for _, a := range r.ByVerdict() {
		gpus := fmt.Sprintf("%d %s", a.GPUs, a.GPU)
		if a.Division != "" {
			gpus += " (" + a.Division + ")"
		}
		if notBy(a) {
			gpus = fmt.Sprintf("not by %d %s; figures of %s", a.Tried, a.GPU, gpus)
		}
		t.Add(a.Kind, gpus, a.Router, a.Verdict, amount(a.CostPerHour), perMillion(a), interval(a, "ttft_p99"),
			interval(a, "tpot_p99"), a.FirstLimit)
		s := webpage.Series{Name: label(a), Colour: a.Kind.String()}
		if r.isChosen(a) {
			t.Choose()
			s.Name += ": chosen"
		}
		for _, q := range a.Curve {
			s.Points = append(s.Points, webpage.Point{X: q.Load, Y: q.Over})
		}
		if slices.ContainsFunc(a.Curve, func(q capacity.CurvePoint) bool { return q.Over <= highestOver }) {
			grows.Series = append(grows.Series, s)
		} else {
			grows.Caption += " So do all figures of " + label(a) + "."
		}
	}
	why := webpage.Section{Title: "Why"}
	r.writeWhy(func(format string, args ...any) { why.Text = append(why.Text, fmt.Sprintf(format, args...)) })
	why.Text = slices.DeleteFunc(why.Text, func(line string) bool { return line == "" })
	p.Sections = []webpage.Section{{Tables: []webpage.Table{t}, Notes: r.Notes, Charts: []webpage.Chart{r.costs()}},
		{Title: "As load grows", Charts: []webpage.Chart{grows}}, why}
	for _, v := range r.Verified {
		t := webpage.Table{Head: []string{"tenant", "requests", "figure", "predicted", "measured"},
			Caption: strings.Join(append([]string{fmt.Sprintf("%s on %d %s, %.0f s on %d %s servers; latencies in ms", v.Kind,
				v.GPUs, v.GPU, v.Seconds, v.Endpoints, v.Basis)}, v.Notes...), "; ")}
		for _, tn := range v.Tenants {
			for _, m := range []string{"ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "share"} {
				t.Add(tn.Name, tn.Requests, m, tn.Predicted[m], tn.Measured[m])
			}
		}
		p.Sections = append(p.Sections, webpage.Section{Title: "Predicted and measured", Tables: []webpage.Table{t}})
	}
	return p
}

// costs draws what the cheapest of each kind that keeps the objectives costs, at each load.
func (r *Report) costs() webpage.Chart {
	c := webpage.Chart{Title: "Money against load", X: webpage.Axis{Label: "load (multiples of the trace)", Log: true},
		Y: webpage.Axis{Label: r.Currency + " an hour"}, Caption: "The cheapest of each kind, of those found at the loads " +
			"searched, whose foreseen figures keep the objectives. A line ends where none of them does."}
	keep := slices.Clone(r.Kept)
	for i := range r.Arrangements {
		a := &r.Arrangements[i]
		for _, q := range a.Curve {
			if q.Over <= 1 {
				keep = append(keep, capacity.CheapestAt{Load: q.Load, Kind: a.Kind, CostPerHour: a.CostPerHour})
			}
		}
	}
	slices.SortStableFunc(keep, func(a, b capacity.CheapestAt) int {
		return cmp.Or(cmp.Compare(a.Load, b.Load), cmp.Compare(b.CostPerHour.Micros(), a.CostPerHour.Micros()))
	})
	for i, at := range keep {
		price := at.CostPerHour.Micros()
		for _, k := range keep[i:] {
			if k.Kind == at.Kind { // what keeps a load keeps a lower one
				price = min(price, k.CostPerHour.Micros())
			}
		}
		c.Add(at.Kind.String(), webpage.Point{X: at.Load, Y: float64(price) / 1e6})
	}
	if r.Chosen != nil && len(keep) > 0 {
		chosen := c.Line(r.Chosen.Kind.String())
		chosen.Name, chosen.Colour = chosen.Name+": chosen", chosen.Name
	}
	return c
}
