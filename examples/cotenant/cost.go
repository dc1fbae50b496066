// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// calculators add their flags and return the computation for when they are parsed; all is the order in which they run.
var calculators = map[string]func(*flag.FlagSet) func(*costAnswer) error{"tenants": costTenants, "nodes": costNodes,
	"sla": costSLA}

func runCost(_ context.Context, fl *call, std stdio) error {
	asked := []string{"tenants", "nodes", "sla"}
	if args := fl.args; len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		asked, fl.args = args[:1], args[1:]
	}
	var html string
	var run []func(*costAnswer) error
	for _, name := range asked {
		prepare := calculators[name]
		if prepare == nil {
			return badInput(fmt.Errorf("there is no calculator %.40q (known: tenants, nodes, sla)", name))
		}
		own := fl.FlagSet
		if len(asked) > 1 {
			own = flagSet("cost") // the flags are those of one calculator
		}
		run = append(run, prepare(own))
	}
	if len(asked) > 1 {
		page.Report(fl.FlagSet, &html, "write the calculator as a page")
	}
	if err := fl.parse(0, std); err != nil {
		return err
	}
	if html != "" {
		p, err := pages.Cost()
		return errors.Join(err, page.WriteHTML(html, p))
	}
	var a costAnswer
	for _, f := range run {
		if err := f(&a); err != nil {
			return badInput(err)
		}
		a.printf("\n")
	}
	_ = a.sources.WriteText(&a.text)
	return printText(std.out, page.Fold(a.text.String()))
}

// costAnswer holds the figures of calculators as text, and their sources.
type costAnswer struct {
	text    strings.Builder
	sources sharing.Citations
}

func (a *costAnswer) printf(format string, args ...any) { fmt.Fprintf(&a.text, format, args...) }

func (a *costAnswer) table(rows [][]string) {
	for _, cells := range rows {
		cells[0] = "  " + cells[0]
	}
	a.text.WriteString(page.Table(rows))
}

// published cites the answer of a source to the flags' defaults.
func (a *costAnswer) published(fs *flag.FlagSet, source sharing.SourceID, what string) {
	if fs.NFlag() == 0 {
		a.sources.Add(source)
		a.printf("  %s %s.\n", source, what)
	}
}

// moneyFlag adds a flag of an amount; its default must be one.
func moneyFlag(fs *flag.FlagSet, name, value, usage string) *cost.Money {
	m, _ := cost.ParseMoney(value) // the golden files show every default
	fs.TextVar(&m, name, m, usage)
	return &m
}

// costRange returns a range of overheads, with the price of a workload-hour and the saving under it.
func costRange(fleet cost.SharedFleet, o sharing.Overhead) ([]string, error) {
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

// checkMechanism refuses mechanisms that run no workload, and more tenants than they take.
func checkMechanism(m sharing.Mechanism, tenants int) error {
	if m == sharing.MechanismNone {
		return errors.New("none is no way to run a workload")
	}
	if most, ok := sharing.InfoFor(m).MaxTenants.Get(); ok && tenants > most {
		return fmt.Errorf("tenants: %s takes at most %d to a GPU, not %d", m, most, tenants)
	}
	return nil
}

func costTenants(fs *flag.FlagSet) func(*costAnswer) error {
	gpus := fs.Int("gpus", 10, "`number` of GPUs")
	price := moneyFlag(fs, "price", "3.50 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "`number` of workloads that share each GPU")
	mechanism, use, overhead := sharing.MechanismTimeSlicing, 25*cost.Percent, cost.PPM(0)
	fs.TextVar(&use, "utilisation", use, "how much of a GPU one workload keeps busy, in `percent`")
	fs.TextVar(&mechanism, "mechanism", mechanism, "`mechanism` whose published overheads to use")
	fs.TextVar(&overhead, "overhead", overhead, "your own figure in `percent`, in place of the published ones, unless 0")
	return func(a *costAnswer) error {
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
		priors := info.Overheads // of published sources, else as this module reads them
		if len(priors) == 0 {
			priors = []sharing.Overhead{info.Overhead}
		}
		if own := overhead.Float(); own != 0 {
			priors = []sharing.Overhead{{Known: true, Low: own, High: own, Text: "given with -overhead"}}
		}
		a.printf("TENANTS: %d GPUs at %s an hour, %d workloads on each, each busy %s of the time, %s\n\n", *gpus, price,
			*tenants, use, mechanism)
		rows := [][]string{{"overhead", "cost of a workload-hour", "saving", "overhead from"}}
		for _, o := range priors {
			cells, err := costRange(fleet, o)
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
			a.printf("  The workloads need %.4g%% of a GPU: they do not fit on one, so that sharing saves less.\n",
				100*f.Needed)
		}
		a.published(fs, "asleekgeek-sharing", "printed $0.95, -73% and 180 recovered hours, not which kind; with its "+
			"inputs both kinds come to 180")
		return nil
	}
}

func costNodes(fs *flag.FlagSet) func(*costAnswer) error {
	gpu := moneyFlag(fs, "gpu-price", "2.24 USD", "`price` of a GPU node for an hour")
	cpu := moneyFlag(fs, "cpu-price", "0.08 USD", "`price` of a CPU node for an hour")
	before := fs.Int("before", 2, "`number` of GPU nodes without sharing")
	after := fs.Int("after", 1, "`number` of GPU nodes with sharing")
	cpuNodes := fs.Int("cpu-nodes", 2, "`number` of CPU nodes next to the shared GPU nodes")
	invest := moneyFlag(fs, "invest", "0.00 USD", "`amount` that the change costs once: adds the payback date")
	from := fs.String("from", "", "`DATE` of the change, e.g. 2026-03-01 (default: today)")
	return func(a *costAnswer) error {
		dedicated := cost.Composition{{Name: "GPU node", Count: *before, PricePerHour: *gpu}}
		shared := cost.Composition{{Name: "GPU node", Count: *after, PricePerHour: *gpu},
			{Name: "CPU node", Count: *cpuNodes, PricePerHour: *cpu, Auxiliary: true}}
		rows := [][]string{{"CPU nodes counted", "before/month", "after/month", "saved/year", "saving"}}
		for _, counting := range cost.Countings() {
			s, err := cost.CompareCompositions(dedicated, shared, counting)
			if err != nil {
				return err
			}
			rows = append(rows, []string{string(counting), s.Before.String(), s.After.String(), s.Annual.String(),
				s.Fraction.RoundPercent(1).String()})
		}
		a.printf("NODES: %d GPU nodes at %s an hour become %d and %d CPU nodes at %s\n\n", *before, gpu, *after, *cpuNodes,
			cpu)
		a.table(rows)
		if invest.Sign() != 0 {
			if err := payback(a, dedicated, shared, *invest, *from); err != nil {
				return err
			}
		}
		a.published(fs, "myitbasics-eks-sharing", "printed ~46%: it charges the CPU nodes to the shared side alone")
		return nil
	}
}

func costSLA(fs *flag.FlagSet) func(*costAnswer) error {
	saving := moneyFlag(fs, "saving", "1518.40 USD", "`amount` that sharing saves in a month")
	revenue := moneyFlag(fs, "revenue", "100000 USD", "`amount` of a month's revenue that depends on the latency")
	added := fs.Duration("added", 618*time.Millisecond, "`latency` that sharing adds")
	rate := 1 * cost.Percent
	fs.TextVar(&rate, "loss-per-100ms", rate, "`percent` of revenue lost for each 100 ms")
	return func(a *costAnswer) error {
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

// payback returns the time in which the saving, like for like, pays for an investment.
func payback(a *costAnswer, dedicated, shared cost.Composition, invest cost.Money, from string) error {
	start := time.Now().UTC()
	var err error
	if from != "" {
		if start, err = time.Parse(time.DateOnly, from); err != nil {
			return fmt.Errorf("-from: %q is no date (write e.g. 2026-03-01)", from)
		}
	}
	s, err := cost.CompareCompositions(dedicated, shared, cost.CountingAuxiliaryOnBoth)
	if err != nil {
		return err
	}
	at, err := cost.Payback(invest, s.Monthly, start)
	switch {
	case errors.Is(err, cost.ErrNoBreakEven):
		a.printf("\n  payback: never: the change saves nothing\n")
		return nil
	case err != nil:
		return err
	}
	a.printf("\n  payback: %s by %s, at %s a month (CPU nodes on both sides)\n", invest,
		at.Format(time.DateOnly), s.Monthly)
	return nil
}
