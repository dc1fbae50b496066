// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// divide gives each workload and each idle device its part of the cost of the GPUs: the tenants of shared GPUs equal
// parts, MIG instances by their size.
func (r *Review) divide(f *decision.Fleet) {
	prices := map[string]int64{} // micro-units a GPU and month; without prices of all pools each GPU counts as one
	r.priced = true
	for i := range f.Pools {
		p := &f.Pools[i]
		price, ok := p.Price()
		r.priced, r.currency = r.priced && ok, cmp.Or(r.currency, price.Currency())
		prices[p.Name] = price.Micros() * cost.HoursPerMonth
	}
	of, runs := map[string]int64{}, map[string]map[string]int{}
	idle := map[[2]string]*Idle{}
	for i := range f.Today.Nodes {
		n := &f.Today.Nodes[i]
		gpu := prices[n.Pool]
		if !r.priced {
			gpu = 1e6
		}
		held, left := parts(n)
		for w, units := range held {
			of[w] += int64(float64(gpu) * units)
		}
		for profile, k := range left {
			key := [2]string{n.Pool, profile}
			if idle[key] == nil {
				idle[key] = &Idle{Pool: n.Pool, Profile: profile}
			}
			idle[key].Count, idle[key].micros = idle[key].Count+k.n, idle[key].micros+int64(float64(gpu)*k.units)
		}
		r.nodes++
		if after := r.Plan.After.Node(n.Name); len(n.Assignments) == 0 && n.Closed == "" && (after == nil || !after.Used()) {
			r.idleNodes++
			r.idleMicros += gpu * int64(len(n.Devices))
		}
		for k := range n.Assignments {
			a := &n.Assignments[k]
			if runs[a.Workload.Name] == nil {
				runs[a.Workload.Name] = map[string]int{}
			}
			runs[a.Workload.Name][heldAs(n, a)]++
		}
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		var kinds []string
		for kind, k := range runs[w.Name] {
			kinds = append(kinds, fmt.Sprintf("%d x %s", k, kind))
		}
		slices.Sort(kinds)
		v := Workload{Name: w.Name, micros: of[w.Name], Runs: cmp.Or(strings.Join(kinds, ", "), "waits"), of: w}
		r.conclude(&v)
		r.Workloads = append(r.Workloads, v)
	}
	slices.SortStableFunc(r.Workloads, func(a, b Workload) int { return cmp.Compare(b.micros, a.micros) })
	for _, at := range idle {
		r.Idle = append(r.Idle, *at)
	}
	slices.SortFunc(r.Idle, func(a, b Idle) int {
		return cmp.Or(cmp.Compare(b.micros, a.micros), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Profile, b.Profile))
	})
}

// heldAs names the MIG profile, or the mode of the GPU, that an assignment holds.
func heldAs(n *layout.Node, a *layout.Assignment) string {
	switch {
	case a.Profile != nil:
		return "mig " + a.Profile.Name
	case a.Device >= 0:
		return n.Devices[a.Device].Mode.String()
	}
	for i := range n.Devices {
		if d := &n.Devices[i]; !layout.Sliced(d.Mode) {
			return d.Mode.String()
		}
	}
	return "a GPU"
}

// free is devices that nobody holds; units counts them in GPUs.
type free struct {
	n     int
	units float64
}

// parts divides a node's GPUs: those of each workload, and by MIG profile ("" for GPUs) those that nobody holds. Where
// it is not known which GPUs pods hold, they are taken to hold as many as they can.
func parts(n *layout.Node) (units map[string]float64, left map[string]free) {
	units, left = map[string]float64{}, map[string]free{}
	full, sliced, bare, slices := 0, 0, 0, 0 // slices: placement units of all instances
	var each []string                        // profiles of all instances
	size := map[string]int{}
	for i := range n.Devices {
		d := &n.Devices[i]
		switch {
		case !layout.Sliced(d.Mode):
			full++
		case len(d.Instances) == 0:
			bare++
		default:
			sliced++
		}
		for _, in := range d.Instances {
			each, slices = append(each, in.Profile.Name), slices+in.Profile.PlacementUnits
			size[in.Profile.Name] = in.Profile.PlacementUnits
		}
	}
	used, unknown, tenants, held := map[int16]bool{}, 0, 0, map[string]int{}
	for k := range n.Assignments {
		switch a := &n.Assignments[k]; {
		case a.Profile != nil:
			held[a.Profile.Name]++
		case a.Device >= 0:
			used[a.Device], tenants = true, tenants+1
		default:
			unknown, tenants = unknown+1, tenants+1
		}
	}
	idle := max(0, full-len(used)-unknown)
	if n := bare + idle; n > 0 {
		left[""] = free{n, float64(n)}
	}
	unit := float64(sliced) / float64(max(1, slices))
	for k := range n.Assignments {
		if a := &n.Assignments[k]; a.Profile != nil {
			units[a.Workload.Name] += unit * float64(a.Profile.PlacementUnits)
		} else {
			units[a.Workload.Name] += float64(full-idle) / float64(tenants)
		}
	}
	for _, profile := range each {
		if held[profile]--; held[profile] < 0 {
			f := left[profile]
			left[profile] = free{f.n + 1, f.units + unit*float64(size[profile])}
		}
	}
	return units, left
}

func (r *Review) add() {
	sums := map[string]int64{}
	today, idle := int64(0), int64(0)
	for i := range r.Workloads {
		v := &r.Workloads[i]
		v.Monthly = r.decimal(v.micros)
		sums[v.Verdict] += v.micros
		today += v.micros
	}
	for i := range r.Idle {
		r.Idle[i].Monthly = r.decimal(r.Idle[i].micros)
		idle += r.Idle[i].micros
	}
	today += idle
	r.Money = Money{Today: r.decimal(today), Moves: r.decimal(sums[verdictMoves]), Shares: r.decimal(sums[verdictShares]),
		Kept: r.decimal(sums[verdictKept]), Open: r.decimal(sums[verdictOpen]), Idle: r.decimal(idle),
		Freed: r.Plan.Bill.MonthlySaved, IdleNodes: r.decimal(r.idleMicros)}
	if r.priced {
		r.Money.Currency = r.currency
	}
	if today > 0 {
		r.Money.Decided = decision.Some(float64(today-sums[verdictOpen]) / float64(today))
	}
}

// decimal writes micro-units, empty without prices.
func (r *Review) decimal(micros int64) string {
	if !r.priced {
		return ""
	}
	m, err := cost.FromMicros(micros, r.currency)
	if err != nil {
		return ""
	}
	return m.Round(2).Decimal()
}

// worth writes an amount for the eye: money a month, or GPUs where there are no prices.
func (r *Review) worth(micros int64) string {
	if r.priced {
		return plaintext.Amount(r.decimal(micros)) + " " + r.currency
	}
	if micros == 1e6 {
		return "1 GPU"
	}
	return fmt.Sprintf("%.3g GPUs", float64(micros)/1e6)
}
