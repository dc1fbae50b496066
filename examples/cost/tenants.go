package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

type tenantsResult struct {
	GPUs             int               `json:"gpus"`
	PricePerGPUHour  cost.Money        `json:"price_per_gpu_hour"`
	Tenants          int               `json:"tenants"`
	Utilisation      cost.PPM          `json:"utilisation"`
	Mechanism        sharing.Mechanism `json:"mechanism"`
	CapacityHours    float64           `json:"capacity_gpu_hours_per_day"`
	UtilisationHours float64           `json:"utilisation_gpu_hours_per_day"`
	Rows             []tenantsRow      `json:"by_overhead"`
	Note             string            `json:"note,omitempty"`
	cited
}

// tenantsRow is the cost under one figure for the mechanism's overhead.
type tenantsRow struct {
	Overhead  span[cost.PPM]   `json:"overhead"`
	Basis     string           `json:"overhead_basis"`
	Source    sharing.SourceID `json:"overhead_source,omitempty"`
	OnWhat    string           `json:"overhead_note"`
	CostHour  span[cost.Money] `json:"cost_per_workload_hour"`
	Saving    span[cost.PPM]   `json:"saving"`
	Published string           `json:"published,omitempty"`
}

// span is a range of figures; Low and High may be equal.
type span[T comparable] struct {
	Low  T `json:"low"`
	High T `json:"high"`
}

func (s span[T]) String() string {
	if s.Low == s.High {
		return fmt.Sprint(s.Low)
	}
	return fmt.Sprintf("%v to %v", s.Low, s.High)
}

func prepareTenants(fs *flag.FlagSet) func(io.Reader) (result, error) {
	gpus := fs.Int("gpus", 10, "`number` of GPUs")
	price := moneyFlag(fs, "price", "3.50 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "workloads that share each GPU; the article does not print its `number`, 4 is the "+
		"only one that fits")
	use := ppmFlag(fs, "utilisation", 25*cost.Percent, "how much of a GPU one workload keeps busy, in `percent`")
	mechanism := sharing.MechanismTimeSlicing
	fs.TextVar(&mechanism, "mechanism", mechanism, "`mechanism` whose published overheads to use")
	overhead := ppmFlag(fs, "overhead", 0, "your own figure in `percent`, in place of the published ones")
	return func(io.Reader) (result, error) {
		if err := checkMechanism(mechanism, *tenants); err != nil {
			return nil, err
		}
		fleet := cost.SharedFleet{GPUs: *gpus, PricePerGPUHour: *price, Tenants: *tenants, Utilisation: use.Float(),
			Overhead: *overhead}
		f, err := fleet.Figures()
		if err != nil {
			return nil, err
		}
		r := tenantsResult{GPUs: *gpus, PricePerGPUHour: *price, Tenants: *tenants, Utilisation: *use, Mechanism: mechanism,
			CapacityHours: f.CapacityHours, UtilisationHours: f.UtilisationHours}
		priors := priorsOf(mechanism)
		if given(fs, "overhead") {
			priors = []sharing.Overhead{{Known: true, Low: overhead.Float(), High: overhead.Float(),
				Text: "given with -overhead"}}
		}
		for _, o := range priors {
			row, err := newTenantsRow(fleet, o)
			if err != nil {
				return nil, err
			}
			r.Sources.Add(o.Source)
			if !given(fs) && o.Source == asleekgeekArticle {
				row.Published = string(asleekgeekArticle) + ": $0.95, -73%"
			}
			r.Rows = append(r.Rows, row)
		}
		switch {
		case len(priors) == 0:
			r.Note = fmt.Sprintf("No source gives an overhead for %s; measure it and give -overhead.", mechanism)
		case !given(fs):
			r.Note = string(asleekgeekArticle) + " printed 180 recovered hours and not which kind; with its inputs both kinds " +
				"come to 180."
		}
		return r, nil
	}
}

// checkMechanism refuses what no GPU can do.
func checkMechanism(m sharing.Mechanism, tenants int) error {
	if m == sharing.MechanismNone {
		return fmt.Errorf("none is no way to run a workload")
	}
	if most, ok := sharing.InfoFor(m).MaxTenants.Get(); ok && tenants > most {
		return fmt.Errorf("tenants: %s takes at most %d to a GPU, not %d", m, most, tenants)
	}
	return nil
}

// priorsOf lists what the sources say a mechanism costs, and last the bracket
// to plan with where it is none of these.
func priorsOf(m sharing.Mechanism) []sharing.Overhead {
	info := sharing.InfoFor(m)
	priors := slices.Clone(info.Overheads)
	if info.Overhead.Known && !slices.Contains(priors, info.Overhead) {
		plan := info.Overhead
		plan.Text = "to plan with: " + plan.Text
		priors = append(priors, plan)
	}
	return priors
}

func newTenantsRow(fleet cost.SharedFleet, o sharing.Overhead) (tenantsRow, error) {
	row := tenantsRow{Basis: "given", Source: o.Source, OnWhat: o.Text}
	if o.Source != "" {
		row.Basis = o.Basis.String()
	}
	var ok bool
	if row.Overhead.Low, row.Overhead.High, ok = cost.OverheadRange(o); !ok {
		return row, fmt.Errorf("%v to %v is no range of overheads", o.Low, o.High)
	}
	fleet.Overhead = row.Overhead.Low
	low, err := fleet.Figures()
	if err != nil {
		return row, err
	}
	fleet.Overhead = row.Overhead.High
	high, err := fleet.Figures()
	if err != nil {
		return row, err
	}
	row.CostHour = span[cost.Money]{low.PerWorkloadHour, high.PerWorkloadHour}
	row.Saving = span[cost.PPM]{high.Saving.Fraction, low.Saving.Fraction}
	return row, nil
}

func (r tenantsResult) text(w io.Writer) {
	fmt.Fprintf(w, "TENANTS: %d GPUs at %s an hour, %d workloads on each, each busy %s of the time, %s\n\n",
		r.GPUs, r.PricePerGPUHour, r.Tenants, r.Utilisation, r.Mechanism)
	if len(r.Rows) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  overhead\tcost of a workload-hour\tsaving\tprinted\toverhead from")
		for _, row := range r.Rows {
			printed := row.Published
			if printed == "" {
				printed = "-"
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", row.Overhead, row.CostHour, row.Saving, printed, provenance(row))
		}
		_ = t.Flush()
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  capacity-hours, need not be bought:  %v GPU-hours a day\n", r.CapacityHours)
	fmt.Fprintf(w, "  utilisation-hours, more work done:   %v GPU-hours a day\n", r.UtilisationHours)
	if r.Note != "" {
		fmt.Fprintf(w, "  %s\n", r.Note)
	}
}

func provenance(row tenantsRow) string {
	if row.Source == "" {
		return row.OnWhat
	}
	return fmt.Sprintf("%s, %s: %s", row.Source, row.Basis, row.OnWhat)
}
