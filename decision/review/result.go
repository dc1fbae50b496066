// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// The verdicts on a workload.
const (
	verdictMoves  = "moves"  // the plan moves it, or gives it a device
	verdictShares = "shares" // it shares its devices, and stays
	verdictKept   = "kept"   // it stays as it is, for a reason that no measurement would change
	verdictOpen   = "open"   // more has to be known or stated: see the checklist
)

// Workload is a workload as it runs.
type Workload struct {
	Name    string `json:"name"`
	Runs    string `json:"runs"` // "3 x exclusive"
	Monthly string `json:"monthly,omitempty"`
	// Busy is the measured mean share of a whole GPU, 0 to 1, Memory the maximum in use; with Together set they describe
	// whole GPUs that others use too.
	Busy     sharing.Optional[float64]       `json:"busy,omitzero"`
	Memory   sharing.Optional[sharing.Bytes] `json:"memory,omitzero"`
	Together bool                            `json:"together,omitempty"`
	Verdict  string                          `json:"verdict"` // moves, shares, kept or open
	Why      string                          `json:"why"`

	of     *decision.Workload
	micros int64
	lacks  []string // figures needed before it may share otherwise; empty where they would change nothing
}

// Idle counts devices of a pool that no pod holds.
type Idle struct {
	Pool    string `json:"pool"`
	Profile string `json:"profile,omitempty"` // of MIG instances; empty for GPUs
	Count   int    `json:"count"`
	Monthly string `json:"monthly,omitempty"`

	micros int64
}

// Item is an obstacle to further savings, with the remedy.
type Item struct {
	Do        string   `json:"do"`
	How       string   `json:"how"`               // the key to add, or the command that measures it
	Monthly   string   `json:"monthly,omitempty"` // cost of the devices concerned
	Workloads []string `json:"workloads,omitempty"`

	micros int64
}

// Money divides the cost of the GPUs for a month of 730 hours: exact decimals, absent where a pool has no price. Today
// is the sum of all amounts except Freed and IdleNodes.
type Money struct {
	Currency string `json:"currency,omitempty"`
	Today    string `json:"today,omitempty"`
	Moves    string `json:"moves,omitempty"`
	Shares   string `json:"shares,omitempty"`
	Kept     string `json:"kept,omitempty"`
	Open     string `json:"open,omitempty"`
	Idle     string `json:"idle,omitempty"`
	Freed    string `json:"freed,omitempty"` // by the plan
	// IdleNodes is the part of Idle on nodes without a held GPU.
	IdleNodes string `json:"idle_nodes,omitempty"`
	// Decided is the fraction of Today that is not open, 0 to 1.
	Decided sharing.Optional[float64] `json:"decided,omitzero"`
}

// Review is the answer about a cluster.
type Review struct {
	Answer    string              `json:"answer"`
	Money     Money               `json:"money"`
	Idle      []Idle              `json:"idle"`
	Workloads []Workload          `json:"workloads"` // by cost
	Checklist []Item              `json:"checklist"` // by the money concerned
	Plan      *migrate.Plan       `json:"plan"`
	Discovery *discover.Discovery `json:"discovery"`

	nodes, idleNodes int   // idle ones have no GPU that is held, also after the plan
	idleMicros       int64 // their cost
	priced           bool
	currency         string
}

// enough is the mean busy share from which on a device counts as used: another tenant would mostly wait for it. used
// begins the reason.
const (
	enough = 0.5
	used   = "it uses what it has: "
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

// conclude writes the verdict on a workload.
func (r *Review) conclude(v *Workload) {
	w := v.of
	of, whole := 1.0, 0.0
	for i := range r.Discovery.Used {
		if u := &r.Discovery.Used[i]; u.Workload == w.Name {
			v.Busy, v.Memory, v.Together, whole = u.BusyMean, u.MemoryMax, u.Together, u.WholeBusy.Or(0)
		}
	}
	if w.Today != nil && w.Today.Mechanism == sharing.MechanismMIG {
		of = r.instancePart(w)
	}
	why, held := r.Plan.Stay(w.Name)
	busy, measured := v.Busy.Get()
	shared := w.Today != nil && w.Today.Mechanism != sharing.MechanismExclusive
	full := ""
	switch {
	case whole >= enough:
		full = fmt.Sprintf(used+"with all on its GPUs they are busy %.0f%% of the time", 100*whole)
	case measured && busy >= enough*of:
		full = fmt.Sprintf(used+"busy %.0f%% of the time", 100*busy/of)
	}
	if full == "" && !held {
		v.lacks = migrate.NotKnown(w)
	}
	onlySLO := shared && w.Today.Mechanism != sharing.MechanismMIG && slices.Equal(v.lacks, []string{migrate.KeySLO})
	switch {
	case slices.ContainsFunc(r.Plan.Rows, func(row migrate.Row) bool { return row.Workload == w.Name }):
		v.Verdict, v.Why = verdictMoves, "see the plan"
	case full != "":
		v.Verdict, v.Why = verdictKept, full
	case onlySLO:
		v.Verdict, v.Why = verdictShares, "it shares its GPUs; with its slo stated, more may share them"
	case len(v.lacks) > 0:
		v.Verdict, v.Why = verdictOpen, "not known: "+strings.Join(v.lacks, ", ")
	case strings.HasPrefix(why, migrate.NotEnough):
		v.Verdict, v.Why = verdictOpen, why
	case shared:
		v.Verdict, v.Why = verdictShares, cmp.Or(why, "nothing better was found")
	default:
		v.Verdict, v.Why = verdictKept, cmp.Or(why, "nothing better was found")
	}
}

// instancePart is the part of a GPU's compute that a workload's MIG instances have.
func (r *Review) instancePart(w *decision.Workload) float64 {
	for n := range r.Plan.Today.Nodes() {
		for i := range n.Assignments {
			if a := &n.Assignments[i]; a.Workload.Name == w.Name && a.Profile != nil {
				return float64(a.Profile.ComputeSlices) / float64(a.Profile.Model().ComputeSlices)
			}
		}
	}
	return 1
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
		Freed: r.Plan.Cost.MonthlySaved, IdleNodes: r.decimal(r.idleMicros)}
	if r.priced {
		r.Money.Currency = r.currency
	}
	if today > 0 {
		r.Money.Decided = sharing.Some(float64(today-sums[verdictOpen]) / float64(today))
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
