package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

func compare(fs *flag.FlagSet) func(*answer) error {
	first, second := sharing.MechanismTimeSlicing, sharing.MechanismMPS
	fs.TextVar(&first, "a", first, "one `mechanism`")
	fs.TextVar(&second, "b", second, "the other `mechanism`")
	price := moneyFlag(fs, "price", "3.25 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share a GPU")
	gpu := fs.String("gpu", "", "`name` of the GPU, for what depends on it; without it that is unknown")
	return func(a *answer) error {
		all, err := cost.SharedFleet{PricePerGPUHour: *price, Tenants: *tenants}.Figures()
		if err != nil {
			return err
		}
		var env sharing.Environment
		on := "the GPU"
		if *gpu != "" {
			if env.GPU, err = sharing.LookupGPU(*gpu); err != nil {
				return err
			}
			on = env.GPU.Name
		}
		months, err := all.Saving.Before.Mul(int64(*tenants))
		if err != nil {
			return err
		}
		a.printf("COMPARE: a GPU at %s an hour, %d workloads to a shared GPU\n\n", price, *tenants)
		a.printf("  a GPU each: %s a month; one for all: %s a month", months, all.Saving.Before)
		if !given(fs) {
			a.sources.Add(bertonArticle)
			a.printf(" (%s: $9,490 and $2,373)", bertonArticle)
		}
		a.printf("\n\n")
		c := sharing.Compare(first, second, env)
		rows := [][]string{{""}, {"workloads on a GPU"}, {"overhead"}, {"cost of a workload-hour"},
			{"saving against exclusive"}}
		for _, x := range c.Axes {
			rows = append(rows, []string{x.Axis.String() + " isolation"})
			a.sources.Add(x.A.Source, x.B.Source)
		}
		rows = append(rows, []string{on + " can run it"})
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
			cells := []string{m.String(), fmt.Sprint(n), "unknown", "unknown", "unknown"}
			if info.Overhead.Known {
				figures, err := costsOf(cost.SharedFleet{PricePerGPUHour: *price, Tenants: n}, info.Overhead)
				if err != nil {
					return err
				}
				a.sources.Add(info.Overhead.Source)
				cells = append(cells[:2], figures.overhead.String(), figures.hour.String(), figures.saving.String())
			}
			for _, x := range c.Axes {
				p := []sharing.Property{x.A, x.B}[i]
				cells = append(cells, fmt.Sprintf("%s (%s)", p.Level, p.Source))
			}
			for row, cell := range append(cells, available.Answer.String()) {
				rows[row] = append(rows[row], cell)
			}
			fmt.Fprintf(&words, "\n  %s\n    best for: %s\n    avoid: %s\n", m, texts(info.BestFor), texts(info.AvoidWhen))
			if *gpu != "" {
				fmt.Fprintf(&words, "    on %s: %s, %s\n", on, available.Answer, available.Text)
			}
		}
		a.table(rows)
		a.printf("%s\n  Costs use the overhead to plan with (cost tenants -mechanism NAME lists what sources measured). It\n"+
			"  is not what neighbours take from one another, and a cost does not say that so many workloads fit:\n"+
			"  examples/quickstart decides that.\n", &words)
		return nil
	}
}

func texts(ss []sharing.Statement) string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = s.Text
	}
	return strings.Join(out, "; ")
}
