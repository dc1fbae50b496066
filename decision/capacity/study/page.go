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
	p := &webpage.Page{Title: "GPUs for a trace", Basis: "All figures are simulated: no GPU was used."}
	at := fmt.Sprintf("%s at load %g%s", r.SLO, r.load, r.perS(r.load, " (%s requests a second)"))
	p.Answer = "Nothing is known to keep " + at + "."
	if c := r.Chosen; c != nil {
		p.Answer = fmt.Sprintf("%s, for %s %s an hour, is the cheapest that is known to keep %s.\nIt breaks first: %s.",
			label(c),
			amount(c.CostPerHour), r.Currency, at, c.FirstLimit)
	}
	t := webpage.Table{Head: []string{"kind", "GPUs", "router", "verdict", r.Currency + " an hour",
		"per million good tokens",
		"TTFT P99 (ms)", "TPOT P99 (ms)", "breaks first"}}
	grows := webpage.Chart{Title: "Objectives as load grows",
		X:      webpage.Axis{Label: "load (multiples of the trace)", Log: true},
		Y:      webpage.Axis{Label: "worst figure over its limit", Max: highestOver},
		Limits: []webpage.Limit{{Name: "the limit", At: 1}},
		Caption: fmt.Sprintf("Above the dashed line the objectives are missed. What lies above %d is not drawn.",
			highestOver)}
	var lost []string // that miss even the least load
	for _, a := range r.ByVerdict() {
		name, gpus := a.Kind.String(), fmt.Sprintf("%d %s", a.GPUs, a.GPU)
		if a.Division != "" {
			name += " (" + a.Division + ")"
		}
		if notBy(a) {
			gpus = fmt.Sprintf("not by %d %s; figures of %s", a.Tried, a.GPU, gpus)
		}
		t.Rows = append(t.Rows, webpage.Row{Colour: a.Kind.String(), Chosen: r.isChosen(a),
			Cells: []string{name, gpus, a.Router,
				a.Verdict.String(), amount(a.CostPerHour), perMillion(a), interval(a, "ttft_p99"), interval(a, "tpot_p99"),
				a.FirstLimit}})
		s := webpage.Series{Name: label(a), Colour: a.Kind.String(), Dots: true}
		for _, q := range a.Curve {
			s.Points = append(s.Points, webpage.Point{X: q.Load, Y: q.Over})
		}
		if r.isChosen(a) {
			s.Name += ": chosen"
		}
		if !slices.ContainsFunc(a.Curve, func(q capacity.CurvePoint) bool { return q.Over <= highestOver }) {
			lost = append(lost, label(a))
			continue
		}
		grows.Series = append(grows.Series, s)
	}
	if len(lost) > 0 {
		grows.Caption += " So do all figures of " + strings.Join(lost, "; ") + "."
	}
	first := webpage.Section{Tables: []webpage.Table{t}, Notes: r.Notes, Charts: []webpage.Chart{r.costs()}}
	why := webpage.Section{Title: "Why", Text: slices.Clone(r.Why)}
	if r.Chosen != nil {
		why.Text = append([]string{"Chosen: " + label(r.Chosen) + ", because " + r.Chosen.Reason + "."}, why.Text...)
	}
	for _, c := range r.Crossovers {
		why.Text = append(why.Text, fmt.Sprintf("Between load %g and %g the cheapest changes from %s (%d %s) to %s (%d %s).",
			c.Above,
			c.UpTo, c.From.Kind, c.From.GPUs, c.From.GPU, c.To.Kind, c.To.GPUs, c.To.GPU))
	}
	p.Sections = []webpage.Section{first, {Title: "As load grows", Charts: []webpage.Chart{grows}}, why}
	for i := range r.Verified {
		p.Sections = append(p.Sections, webpage.Section{Title: "Predicted and measured",
			Tables: []webpage.Table{verified(&r.Verified[i])}})
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
		for _, q := range r.Arrangements[i].Curve {
			if q.Over <= 1 {
				keep = append(keep, capacity.CheapestAt{Load: q.Load, Kind: r.Arrangements[i].Kind,
					CostPerHour: r.Arrangements[i].CostPerHour})
			}
		}
	}
	slices.SortStableFunc(keep, func(a, b capacity.CheapestAt) int { return cmp.Compare(a.Load, b.Load) })
	for i := range keep {
		price, name := keep[i].CostPerHour.Micros(), keep[i].Kind.String()
		for k := range keep {
			if keep[k].Kind == keep[i].Kind && keep[k].Load >= keep[i].Load { // what keeps a load keeps a lower one
				price = min(price, keep[k].CostPerHour.Micros())
			}
		}
		if r.Chosen != nil && r.Chosen.Kind == keep[i].Kind {
			name += ": chosen"
		}
		c.Add(name, webpage.Point{X: keep[i].Load, Y: float64(price) / 1e6})
	}
	for i := range c.Series {
		c.Series[i].Colour = strings.TrimSuffix(c.Series[i].Name, ": chosen")
	}
	return c
}

// verified is an arrangement's prediction beside its measurement.
func verified(v *Verified) webpage.Table {
	t := webpage.Table{Head: []string{"tenant", "requests", "figure", "predicted", "measured"},
		Caption: strings.Join(append([]string{fmt.Sprintf("%s on %d %s, %.0f s on %d %s servers; latencies in ms", v.Kind,
			v.GPUs, v.GPU,
			v.Seconds, v.Endpoints, v.Basis)}, v.Notes...), "; ")}
	for _, tn := range v.Tenants {
		for _, m := range []string{"ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "share"} {
			t.Rows = append(t.Rows, webpage.Row{Cells: []string{tn.Name, fmt.Sprint(tn.Requests), m,
				webpage.Number(tn.Predicted[m]),
				webpage.Number(tn.Measured[m])}})
		}
	}
	return t
}
