package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

// costsOf returns a range of overheads, and what a workload-hour costs and saves under it.
func costsOf(fleet cost.SharedFleet, o sharing.Overhead) ([]string, error) {
	low, high, ok := cost.OverheadRange(o)
	if !ok || !o.Known {
		return nil, errors.New("overhead: no source gives one that can be; measure it, and give -overhead")
	}
	fleet.Overhead = low
	best, err1 := fleet.Figures()
	fleet.Overhead = high
	worst, err2 := fleet.Figures()
	cells := []string{fmt.Sprint(low), fmt.Sprint(best.PerWorkloadHour), fmt.Sprint(worst.Saving.Fraction)}
	for i, to := range []any{high, worst.PerWorkloadHour, best.Saving.Fraction} {
		if text := fmt.Sprint(to); text != cells[i] {
			cells[i] += " to " + text
		}
	}
	return cells, errors.Join(err1, err2)
}

// checkMechanism refuses what no GPU can do.
func checkMechanism(m sharing.Mechanism, tenants int) error {
	if m == sharing.MechanismNone {
		return errors.New("none is no way to run a workload")
	}
	if most, ok := sharing.InfoFor(m).MaxTenants.Get(); ok && tenants > most {
		return fmt.Errorf("tenants: %s takes at most %d to a GPU, not %d", m, most, tenants)
	}
	return nil
}

func tenants(fs *flag.FlagSet) func(*answer) error {
	gpus := fs.Int("gpus", 10, "`number` of GPUs")
	price := moneyFlag(fs, "price", "3.50 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share each GPU")
	mechanism, use, overhead := sharing.MechanismTimeSlicing, 25*cost.Percent, cost.PPM(0)
	fs.TextVar(&use, "utilisation", use, "how much of a GPU one workload keeps busy, in `percent`")
	fs.TextVar(&mechanism, "mechanism", mechanism, "`mechanism` whose published overheads to use")
	fs.TextVar(&overhead, "overhead", overhead, "your own figure in `percent`, in place of the published ones, unless 0")
	return func(a *answer) error {
		if err := checkMechanism(mechanism, *tenants); err != nil {
			return err
		}
		fleet := cost.SharedFleet{GPUs: *gpus, PricePerGPUHour: *price, Tenants: *tenants, Utilisation: use.Float(),
			Overhead: overhead}
		f, err := fleet.Figures()
		if err != nil {
			return err
		}
		info := sharing.InfoFor(mechanism)
		priors := info.Overheads
		switch own := overhead.Float(); {
		case own != 0:
			priors = []sharing.Overhead{{Known: true, Low: own, High: own, Text: "given with -overhead"}}
		case len(priors) == 0:
			priors = []sharing.Overhead{info.Overhead}
		}
		a.printf("TENANTS: %d GPUs at %s an hour, %d workloads on each, each busy %s of the time, %s\n\n", *gpus, price,
			*tenants, use, mechanism)
		rows := [][]string{{"overhead", "cost of a workload-hour", "saving", "overhead from"}}
		for _, o := range priors {
			cells, err := costsOf(fleet, o)
			if err != nil {
				return err
			}
			a.sources.Add(o.Source)
			rows = append(rows, append(cells, strings.TrimPrefix(fmt.Sprintf("%s: %s", o.Source, o.Text), ": ")))
		}
		a.table(rows)
		a.printf("\n  capacity-hours, need not be bought:  %.1f GPU-hours a day\n", f.CapacityHours)
		a.printf("  utilisation-hours, more work done:   %.1f GPU-hours a day\n", f.UtilisationHours)
		if f.Needed > 1 {
			a.printf("  The workloads need %.4g%% of a GPU: they do not fit on one, and sharing saves less than this.\n",
				100*f.Needed)
		}
		a.published(fs, "asleekgeek-sharing", "printed $0.95, -73% and 180 recovered hours, not which kind; with its "+
			"inputs both kinds come to 180")
		return nil
	}
}

func nodes(fs *flag.FlagSet) func(*answer) error {
	gpu := moneyFlag(fs, "gpu-price", "2.24 USD", "`price` of a GPU node for an hour")
	cpu := moneyFlag(fs, "cpu-price", "0.08 USD", "`price` of a CPU node for an hour")
	before := fs.Int("before", 2, "`number` of GPU nodes without sharing")
	after := fs.Int("after", 1, "`number` of GPU nodes with sharing")
	cpuNodes := fs.Int("cpu-nodes", 2, "`number` of CPU nodes that stand beside the shared GPU nodes")
	return func(a *answer) error {
		dedicated := cost.Composition{{Name: "GPU node", Count: *before, PricePerHour: *gpu}}
		shared := cost.Composition{{Name: "GPU node", Count: *after, PricePerHour: *gpu},
			{Name: "CPU node", Count: *cpuNodes, PricePerHour: *cpu, Auxiliary: true}}
		rows := [][]string{{"CPU nodes counted", "before/month", "after/month", "saved/year", "saving"}}
		for _, counting := range cost.Countings() {
			s, err := cost.CompareCompositions(dedicated, shared, counting)
			if err != nil {
				return err
			}
			rows = append(rows, []string{counting.String(), s.Before.String(), s.After.String(), s.Annual.String(),
				s.Fraction.RoundPercent(1).String()})
		}
		a.printf("NODES: %d GPU nodes at %s an hour become %d and %d CPU nodes at %s\n\n", *before, gpu, *after, *cpuNodes,
			cpu)
		a.table(rows)
		a.published(fs, "myitbasics-eks-sharing", "printed ~46%: it charges the CPU nodes to the shared side alone")
		return nil
	}
}

func sla(fs *flag.FlagSet) func(*answer) error {
	saving := moneyFlag(fs, "saving", "1518.40 USD", "`amount` that sharing saves in a month")
	revenue := moneyFlag(fs, "revenue", "100000 USD", "`amount` of a month's revenue that depends on the latency")
	added := fs.Duration("added", 618*time.Millisecond, "`latency` that sharing adds")
	rate := 1 * cost.Percent
	fs.TextVar(&rate, "loss-per-100ms", rate, "`percent` of revenue lost for each 100 ms")
	return func(a *answer) error {
		loss, err1 := cost.RevenueLoss(*added, rate)
		net, err2 := cost.NetSaving(*saving, *revenue, loss)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		loses := "never"
		if at, err := cost.BreakEvenRevenue(*saving, loss); err == nil {
			loses = "above " + at.Round(2).String() + " a month"
		} else if saving.Sign() < 0 || loss > 0 {
			loses = "at any revenue"
		}
		a.printf("SLA: sharing saves %s a month and adds latency\n\n", saving)
		a.table([][]string{{"added", "loss per 100 ms", "revenue lost", "net at " + revenue.String(), "sharing loses money"},
			{added.String(), rate.String(), loss.String(), net.Round(2).String(), loses}})
		a.published(fs, "myitbasics-eks-sharing", "multiplies a loss per 100 ms by milliseconds: 100 ms lose 100% there, "+
			"and 1% by the units")
		return nil
	}
}

func compare(fs *flag.FlagSet) func(*answer) error {
	first, second := sharing.MechanismTimeSlicing, sharing.MechanismMPS
	fs.TextVar(&first, "a", first, "one `mechanism`")
	fs.TextVar(&second, "b", second, "the other `mechanism`")
	price := moneyFlag(fs, "price", "3.25 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share a GPU")
	return func(a *answer) error {
		c := sharing.Compare(first, second, sharing.Environment{})
		rows := [][]string{{""}, {"overhead"}, {"cost of a workload-hour"}, {"saving against exclusive"}}
		for _, x := range c.Axes {
			rows = append(rows, []string{x.Axis.String() + " isolation"})
			a.sources.Add(x.A.Source, x.B.Source)
		}
		words := ""
		for i, info := range []sharing.Info{c.InfoA, c.InfoB} {
			n := *tenants
			if info.Mechanism == sharing.MechanismExclusive {
				n = 1
			}
			if err := checkMechanism(info.Mechanism, n); err != nil {
				return err
			}
			figures, err := costsOf(cost.SharedFleet{PricePerGPUHour: *price, Tenants: n}, info.Overhead)
			if err != nil && info.Overhead.Known {
				return err
			} else if err != nil {
				figures = []string{"unknown", "unknown", "unknown"}
			}
			a.sources.Add(info.Overhead.Source)
			cells := append([]string{info.Mechanism.String()}, figures...)
			for _, x := range c.Axes {
				p := []sharing.Property{x.A, x.B}[i]
				cells = append(cells, fmt.Sprintf("%s (%s)", p.Level, p.Source))
			}
			words += fmt.Sprintf("  %s: best for %s; avoid: %s\n", info.Mechanism, info.BestFor[0].Text, info.AvoidWhen[0].Text)
			for row, cell := range cells {
				rows[row] = append(rows[row], cell)
			}
		}
		a.printf("COMPARE: a GPU at %s an hour, %d workloads to a shared GPU\n\n", price, *tenants)
		a.table(rows)
		a.printf("\n%s  A cost does not say that so many workloads fit: examples/quickstart decides that.\n", words)
		return nil
	}
}
