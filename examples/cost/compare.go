package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

type compareResult struct {
	PricePerGPUHour cost.Money    `json:"price_per_gpu_hour"`
	Tenants         int           `json:"tenants"`
	ExclusiveMonth  cost.Money    `json:"exclusive_month"` // a GPU for each workload
	SharedMonth     cost.Money    `json:"shared_month"`    // one GPU for all
	Published       string        `json:"published,omitempty"`
	Sides           []compareSide `json:"mechanisms"`
}

// compareSide holds what is known; what no source gives is absent.
type compareSide struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Tenants   int               `json:"tenants"` // 1 for exclusive
	Overhead  *span[cost.PPM]   `json:"overhead,omitempty"`
	CostHour  *span[cost.Money] `json:"cost_per_workload_hour,omitempty"`
	Monthly   *span[cost.Money] `json:"cost_per_workload_month,omitempty"`
	Saving    *span[cost.PPM]   `json:"saving,omitempty"`
	Evidence  []string          `json:"overhead_evidence"`
}

func prepareCompare(fs *flag.FlagSet) func(io.Reader) (result, error) {
	a, b := sharing.TimeSlicing, sharing.MPS
	fs.TextVar(&a, "a", a, "one `mechanism`")
	fs.TextVar(&b, "b", b, "the other `mechanism`")
	price := moneyFlag(fs, "price", "3.25 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share a GPU")
	return func(io.Reader) (result, error) {
		r := compareResult{PricePerGPUHour: *price, Tenants: *tenants}
		if _, err := (cost.SharedFleet{PricePerGPUHour: *price, Tenants: *tenants}).Figures(); err != nil {
			return nil, err
		}
		var err error
		if r.SharedMonth, err = cost.Monthly(*price); err != nil {
			return nil, err
		}
		if r.ExclusiveMonth, err = r.SharedMonth.Mul(int64(*tenants)); err != nil {
			return nil, err
		}
		if !given(fs) {
			r.Published = "S2: $9,490 and $2,373"
		}
		for _, m := range []sharing.Mechanism{a, b} {
			s, err := newCompareSide(m, *price, *tenants)
			if err != nil {
				return nil, err
			}
			r.Sides = append(r.Sides, s)
		}
		return r, nil
	}
}

func newCompareSide(m sharing.Mechanism, price cost.Money, tenants int) (compareSide, error) {
	s := compareSide{Mechanism: m, Tenants: tenants, Evidence: []string{}}
	if m == sharing.None {
		return s, fmt.Errorf("%q is no way to run a workload", m)
	}
	if m == sharing.Exclusive {
		s.Tenants = 1
	}
	for _, o := range cost.Overheads(m) {
		s.Evidence = append(s.Evidence, fmt.Sprintf("%s (%s, %s): %s", span[cost.PPM]{o.Low, o.High}, o.Source, o.Basis, o.Note))
	}
	low, high, ok := cost.OverheadRange(m)
	if !ok {
		return s, nil
	}
	row, err := newTenantsRow(cost.SharedFleet{PricePerGPUHour: price, Tenants: s.Tenants}, cost.Overhead{Low: low, High: high})
	if err != nil {
		return s, err
	}
	s.Overhead, s.CostHour, s.Saving = &row.Overhead, &row.CostHour, &row.Saving
	s.Monthly = new(span[cost.Money])
	if s.Monthly.Low, err = cost.Monthly(row.CostHour.Low); err != nil {
		return s, err
	}
	s.Monthly.High, err = cost.Monthly(row.CostHour.High)
	return s, err
}

func (r compareResult) text(w io.Writer) {
	fmt.Fprintf(w, "COMPARE: a GPU at %s an hour, %d workloads to a shared GPU\n\n", r.PricePerGPUHour, r.Tenants)
	fmt.Fprintf(w, "  a GPU each: %s a month; one for all: %s a month", r.ExclusiveMonth, r.SharedMonth)
	if r.Published != "" {
		fmt.Fprintf(w, " (%s)", r.Published)
	}
	fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value func(compareSide) string) {
		fmt.Fprintf(t, "  %s", name)
		for _, s := range r.Sides {
			fmt.Fprintf(t, "\t%s", value(s))
		}
		fmt.Fprintln(t)
	}
	line("", func(s compareSide) string { return s.Mechanism.String() })
	line("workloads on a GPU", func(s compareSide) string { return fmt.Sprint(s.Tenants) })
	line("overhead", func(s compareSide) string { return orUnknown(s.Overhead) })
	line("cost of a workload-hour", func(s compareSide) string { return orUnknown(s.CostHour) })
	line("cost of a workload-month", func(s compareSide) string { return orUnknown(s.Monthly) })
	line("saving against exclusive", func(s compareSide) string { return orUnknown(s.Saving) })
	_ = t.Flush()
	for _, s := range r.Sides {
		fmt.Fprintf(w, "\n  what %s's overhead rests on:\n", s.Mechanism)
		if len(s.Evidence) == 0 {
			fmt.Fprintln(w, "    no source gives a figure: measure it (cost tenants -overhead)")
			continue
		}
		fmt.Fprintf(w, "    %s\n", strings.Join(s.Evidence, "\n    "))
	}
	fmt.Fprint(w, "\n  Ranges are those of the measurements where there are any. Overhead is not what neighbours take\n"+
		"  from one another, and a cost does not say that so many workloads fit: examples/quickstart decides that.\n")
}

func orUnknown[T comparable](s *span[T]) string {
	if s == nil {
		return "unknown"
	}
	return s.String()
}
