package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

func compare(fs *flag.FlagSet) func(*answer, io.Reader) error {
	first, second := sharing.MechanismTimeSlicing, sharing.MechanismMPS
	fs.TextVar(&first, "a", first, "one `mechanism`")
	fs.TextVar(&second, "b", second, "the other `mechanism`")
	price := moneyFlag(fs, "price", "3.25 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share a GPU")
	gpu := fs.String("gpu", "", "`name` of the GPU, for what depends on it; without it that is unknown")
	return func(a *answer, _ io.Reader) error {
		if _, err := (cost.SharedFleet{PricePerGPUHour: *price, Tenants: *tenants}).Figures(); err != nil {
			return err
		}
		var env sharing.Environment
		var err error
		on := "the GPU"
		if *gpu != "" {
			if env.GPU, err = sharing.LookupGPU(*gpu); err != nil {
				return err
			}
			on = env.GPU.Name
			a.json["gpu"] = on
		}
		month, err := cost.Monthly(*price)
		if err != nil {
			return err
		}
		months, err := month.Mul(int64(*tenants))
		if err != nil {
			return err
		}
		a.json["price_per_gpu_hour"], a.json["tenants"] = price, *tenants
		a.json["exclusive_month"], a.json["shared_month"] = months, month
		a.printf("COMPARE: a GPU at %s an hour, %d workloads to a shared GPU\n\n", price, *tenants)
		a.printf("  a GPU each: %s a month; one for all: %s a month", months, month)
		if !given(fs) {
			a.sources.Add(bertonArticle)
			a.json["published"] = string(bertonArticle) + ": $9,490 and $2,373"
			a.printf(" (%s)", a.json["published"])
		}
		a.printf("\n\n")
		c := sharing.Compare(first, second, env)
		rows := [][]string{{""}, {"workloads on a GPU"}, {"overhead"}, {"cost of a workload-hour"},
			{"cost of a workload-month"}, {"saving against exclusive"}}
		for _, x := range c.Axes {
			rows = append(rows, []string{x.Axis.String() + " isolation"})
		}
		rows = append(rows, []string{on + " can run it"})
		var sides []object
		var words strings.Builder
		for i, info := range []sharing.Info{c.InfoA, c.InfoB} {
			available := []sharing.Finding{c.AvailableA, c.AvailableB}[i]
			m, n := info.Mechanism, *tenants
			if m == sharing.MechanismExclusive {
				n = 1
			}
			if err := checkMechanism(m, n); err != nil {
				return err
			}
			side := object{"mechanism": m, "tenants": n, "available": available.Answer, "available_reason": available.Text}
			cells := []string{m.String(), fmt.Sprint(n), "unknown", "unknown", "unknown", "unknown"}
			if info.Overhead.Known {
				figures, err := costsOf(cost.SharedFleet{PricePerGPUHour: *price, Tenants: n}, info.Overhead)
				if err != nil {
					return err
				}
				var month span[cost.Money]
				if month.Low, err = cost.Monthly(figures.hour.Low); err != nil {
					return err
				}
				if month.High, err = cost.Monthly(figures.hour.High); err != nil {
					return err
				}
				side["overhead"], side["saving"] = figures.overhead, figures.saving
				side["cost_per_workload_hour"], side["cost_per_workload_month"] = figures.hour, month
				cells = append(cells[:2], figures.overhead.String(), figures.hour.String(), month.String(),
					figures.saving.String())
			}
			var isolation []object
			for _, x := range c.Axes {
				p := []sharing.Property{x.A, x.B}[i]
				isolation = append(isolation, object{"axis": x.Axis, "level": p.Level, "text": p.Text, "source": p.Source})
				cells = append(cells, fmt.Sprintf("%s (%s)", p.Level, p.Source))
			}
			for row, cell := range append(cells, available.Answer.String()) {
				rows[row] = append(rows[row], cell)
			}
			evidence := []string{}
			for _, o := range priorsOf(m) {
				a.sources.Add(o.Source)
				if low, high, ok := cost.OverheadRange(o); ok {
					evidence = append(evidence, fmt.Sprintf("%s (%s, %s): %s", span[cost.PPM]{low, high}, o.Source,
						o.Basis, o.Text))
				}
			}
			best, avoid := texts(info.BestFor), texts(info.AvoidWhen)
			side["isolation"], side["overhead_evidence"], side["best_for"], side["avoid_when"] = isolation, evidence, best, avoid
			sides = append(sides, side)
			fmt.Fprintf(&words, "\n  %s\n    best for: %s\n    avoid: %s\n", m, strings.Join(best, "; "),
				strings.Join(avoid, "; "))
			if *gpu != "" {
				fmt.Fprintf(&words, "    on %s: %s, %s\n", on, available.Answer, available.Text)
			}
			if len(evidence) == 0 {
				evidence = []string{"no source gives a figure: measure it (cost tenants -overhead)"}
			}
			fmt.Fprintf(&words, "    overhead:\n      %s\n", strings.Join(evidence, "\n      "))
		}
		for _, x := range c.Axes {
			a.sources.Add(x.A.Source, x.B.Source)
		}
		a.json["mechanisms"] = sides
		a.table("  ", rows)
		a.printf("%s\n  Costs use the bracket to plan with. Overhead is not what neighbours take from one another, and a\n"+
			"  cost does not say that so many workloads fit: examples/quickstart decides that.\n", &words)
		return nil
	}
}

func texts(ss []sharing.Statement) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = s.Text
	}
	return out
}
