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
	GPU             string        `json:"gpu,omitempty"`
	ExclusiveMonth  cost.Money    `json:"exclusive_month"` // a GPU for each workload
	SharedMonth     cost.Money    `json:"shared_month"`    // one GPU for all
	Published       string        `json:"published,omitempty"`
	Sides           []compareSide `json:"mechanisms"`
	cited
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
	Isolation []isolationCell   `json:"isolation"`
	Available sharing.Answer    `json:"available"`
	Why       string            `json:"available_reason"`
	BestFor   []string          `json:"best_for"`
	AvoidWhen []string          `json:"avoid_when"`
}

// isolationCell grades a mechanism on one axis, by primary sources.
type isolationCell struct {
	Axis   sharing.Axis     `json:"axis"`
	Level  sharing.Level    `json:"level"`
	Text   string           `json:"text"`
	Source sharing.SourceID `json:"source"`
}

func prepareCompare(fs *flag.FlagSet) func(io.Reader) (result, error) {
	a, b := sharing.MechanismTimeSlicing, sharing.MechanismMPS
	fs.TextVar(&a, "a", a, "one `mechanism`")
	fs.TextVar(&b, "b", b, "the other `mechanism`")
	price := moneyFlag(fs, "price", "3.25 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share a GPU")
	gpu := fs.String("gpu", "", "`name` of the GPU, for what depends on it; without it that is unknown")
	return func(io.Reader) (result, error) {
		r := compareResult{PricePerGPUHour: *price, Tenants: *tenants}
		if _, err := (cost.SharedFleet{PricePerGPUHour: *price, Tenants: *tenants}).Figures(); err != nil {
			return nil, err
		}
		var env sharing.Environment
		var err error
		if *gpu != "" {
			if env.GPU, err = sharing.LookupGPU(*gpu); err != nil {
				return nil, err
			}
			r.GPU = env.GPU.Name
		}
		if r.SharedMonth, err = cost.Monthly(*price); err != nil {
			return nil, err
		}
		if r.ExclusiveMonth, err = r.SharedMonth.Mul(int64(*tenants)); err != nil {
			return nil, err
		}
		if !given(fs) {
			r.Sources.Add(bertonArticle)
			r.Published = string(bertonArticle) + ": $9,490 and $2,373"
		}
		for _, m := range []sharing.Mechanism{a, b} {
			s, err := newCompareSide(m, *price, *tenants)
			if err != nil {
				return nil, err
			}
			r.Sides = append(r.Sides, s)
		}
		c := sharing.Compare(a, b, env)
		r.Sides[0].describe(c.InfoA, c.AvailableA)
		r.Sides[1].describe(c.InfoB, c.AvailableB)
		for _, side := range r.Sides {
			for _, o := range priorsOf(side.Mechanism) {
				r.Sources.Add(o.Source)
			}
		}
		for _, x := range c.Axes {
			r.Sides[0].Isolation = append(r.Sides[0].Isolation, isolationCell{x.Axis, x.A.Level, x.A.Text, x.A.Source})
			r.Sources.Add(x.A.Source, x.B.Source)
			r.Sides[1].Isolation = append(r.Sides[1].Isolation, isolationCell{x.Axis, x.B.Level, x.B.Text, x.B.Source})
		}
		return r, nil
	}
}

func newCompareSide(m sharing.Mechanism, price cost.Money, tenants int) (compareSide, error) {
	s := compareSide{Mechanism: m, Tenants: tenants, Evidence: []string{}}
	if m == sharing.MechanismExclusive {
		s.Tenants = 1
	}
	if err := checkMechanism(m, s.Tenants); err != nil {
		return s, err
	}
	for _, o := range priorsOf(m) {
		if low, high, ok := cost.OverheadRange(o); ok {
			s.Evidence = append(s.Evidence, fmt.Sprintf("%s (%s, %s): %s", span[cost.PPM]{low, high}, o.Source, o.Basis, o.Text))
		}
	}
	plan := sharing.InfoFor(m).Overhead
	if !plan.Known {
		return s, nil
	}
	row, err := newTenantsRow(cost.SharedFleet{PricePerGPUHour: price, Tenants: s.Tenants}, plan)
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

func (s *compareSide) describe(info sharing.Info, available sharing.Finding) {
	s.Available, s.Why = available.Answer, available.Text
	s.BestFor, s.AvoidWhen = texts(info.BestFor), texts(info.AvoidWhen)
}

func texts(ss []sharing.Statement) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = s.Text
	}
	return out
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
	for axis := range r.Sides[0].Isolation {
		line(r.Sides[0].Isolation[axis].Axis.String()+" isolation", func(s compareSide) string {
			return fmt.Sprintf("%s (%s)", s.Isolation[axis].Level, s.Isolation[axis].Source)
		})
	}
	on := "the GPU can run it"
	if r.GPU != "" {
		on = r.GPU + " can run it"
	}
	line(on, func(s compareSide) string { return s.Available.String() })
	_ = t.Flush()
	for _, s := range r.Sides {
		fmt.Fprintf(w, "\n  %s\n    best for: %s\n    avoid: %s\n", s.Mechanism, strings.Join(s.BestFor, "; "),
			strings.Join(s.AvoidWhen, "; "))
		if r.GPU != "" {
			fmt.Fprintf(w, "    on %s: %s, %s\n", r.GPU, s.Available, s.Why)
		}
		fmt.Fprintln(w, "    overhead:")
		if len(s.Evidence) == 0 {
			fmt.Fprintln(w, "      no source gives a figure: measure it (cost tenants -overhead)")
			continue
		}
		fmt.Fprintf(w, "      %s\n", strings.Join(s.Evidence, "\n      "))
	}
	fmt.Fprint(w, "\n  Costs use the bracket to plan with. Overhead is not what neighbours take from one another, and a\n"+
		"  cost does not say that so many workloads fit: examples/quickstart decides that.\n")
}

func orUnknown[T comparable](s *span[T]) string {
	if s == nil {
		return "unknown"
	}
	return s.String()
}
