// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/copies"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// copyMark stands for the number of a copy, from 1, in the command and the addresses of a server that is copied: each
// listens on a port of its own ("800{copy}").
const copyMark = "{copy}"

// mostCopies bounds the copies that a plan may start.
const mostCopies = 32

// copyServer replaces the plan's servers and cases by numbers of copies of its first server, or tenant, each with its
// first load. Every plan has a run of one isolated copy.
func (p *Plan) copyServer(numbers []int, list *problem.List) {
	for _, n := range numbers {
		list.If(n < 1 || n > mostCopies, "copies", fmt.Sprintf("use 1 to %d", mostCopies), "%d is out of range", n)
	}
	from, to := &p.Servers, len(p.Servers)
	if to == 0 {
		from, to = &p.Tenants, len(p.Tenants)
	}
	if to == 0 || list.Len() > 0 {
		return // check reports it
	}
	first := (*from)[0]
	at := slices.IndexFunc(p.Loads, func(l Load) bool { return l.Server == first.Name })
	var load Load
	if at >= 0 {
		load = p.Loads[at]
	}
	p.Servers, p.Tenants, p.Loads, p.Cases = nil, nil, nil, nil
	p.Modes = slices.DeleteFunc(p.Modes, func(m sharing.Mechanism) bool { return m == sharing.MechanismMIGLikeEmulation })
	var names []string
	for i := range slices.Max(numbers) {
		s, n := first, fmt.Sprint(i+1)
		s.Name, s.Model = first.Name+"-"+n, first.Model
		s.Command = slices.Clone(first.Command)
		for k := range s.Command {
			s.Command[k] = strings.ReplaceAll(s.Command[k], copyMark, n)
		}
		s.URL = strings.ReplaceAll(s.URL, copyMark, n)
		if at >= 0 {
			l := load
			l.Name, l.Server = load.Name+"-"+n, s.Name
			p.Servers, p.Loads, names = append(p.Servers, s), append(p.Loads, l), append(names, l.Name)
		} else {
			s.Model = first.Name
			p.Tenants, names = append(p.Tenants, s), append(names, s.Name)
		}
	}
	for _, n := range numbers {
		if n > 1 {
			p.Cases = append(p.Cases, Case{Name: fmt.Sprintf("copies-%d", n), Loads: names[:n]})
		}
	}
	p.copied = true
}

// copiesRow is the rate of copies in one mode, and its ratio to the rate of one isolated copy under time-slicing.
type copiesRow struct {
	Mode      sharing.Mechanism `json:"mode"`
	Copies    int               `json:"copies"`
	Rate      float64           `json:"rate"` // tokens or steps a second, of all
	Ratio     float64           `json:"ratio"`
	Predicted profile.Interval  `json:"predicted"` // of the ratio, from one copy alone
}

// copies summarizes the runs of copies, with the predictions from one copy alone.
func (f *planFlow) copies() (out []copiesRow) {
	if !f.plan.copied {
		return nil
	}
	alone := f.soloRow(f.plan.Loads[0].Name)
	if alone == nil {
		return nil
	}
	solo := alone.Profile()
	server := copies.ServerOf(&solo)
	for i := range f.runs {
		r := &f.runs[i]
		row := copiesRow{Mode: r.mode, Copies: len(r.loads)}
		if r.solo() && (r.mode == sharing.MechanismTimeSlicing || r.rows[0].Case != "solo-"+r.loads[0]) {
			continue
		}
		for k := range r.rows {
			row.Rate += r.rows[k].TokensPerS.Or(r.rows[k].StepsPerS.Or(0))
		}
		row.Ratio = row.Rate / server.Rate
		setting := copies.Setting{Mechanism: r.mode, Copies: row.Copies}
		if f.plan.Loads[0].Rate > 0 {
			setting.Load = copies.LoadOpen
		}
		if e, err := copies.Predict(server, setting); err == nil {
			row.Predicted = e.Ratio
		}
		out = append(out, row)
	}
	return out
}
