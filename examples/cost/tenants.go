package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

// span is a range of figures; Low and High may be equal.
type span[T comparable] struct{ Low, High T }

func (s span[T]) String() string {
	if s.Low == s.High {
		return fmt.Sprint(s.Low)
	}
	return fmt.Sprintf("%v to %v", s.Low, s.High)
}

// costs are those of a workload under a range of overheads.
type costs struct {
	overhead, saving span[cost.PPM]
	hour             span[cost.Money]
}

func costsOf(fleet cost.SharedFleet, o sharing.Overhead) (c costs, err error) {
	var ok bool
	if c.overhead.Low, c.overhead.High, ok = cost.OverheadRange(o); !ok {
		return c, fmt.Errorf("%v to %v is no range of overheads", o.Low, o.High)
	}
	fleet.Overhead = c.overhead.Low
	low, lowErr := fleet.Figures()
	fleet.Overhead = c.overhead.High
	high, err := fleet.Figures()
	c.hour = span[cost.Money]{low.PerWorkloadHour, high.PerWorkloadHour}
	c.saving = span[cost.PPM]{high.Saving.Fraction, low.Saving.Fraction}
	return c, errors.Join(lowErr, err)
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

// priorsOf lists what the sources say a mechanism costs, and last the bracket to plan with where it is none of these.
func priorsOf(m sharing.Mechanism) []sharing.Overhead {
	info := sharing.InfoFor(m)
	priors := slices.Clone(info.Overheads)
	if plan := info.Overhead; plan.Known && !slices.Contains(priors, plan) {
		plan.Text = "to plan with: " + plan.Text
		priors = append(priors, plan)
	}
	return priors
}

func tenants(fs *flag.FlagSet) func(*answer) error {
	gpus := fs.Int("gpus", 10, "`number` of GPUs")
	price := moneyFlag(fs, "price", "3.50 USD", "`price` of a GPU for an hour")
	tenants := fs.Int("tenants", 4, "workloads that share each GPU; the article does not print its `number`, 4 is the "+
		"only one that fits")
	use := ppmFlag(fs, "utilisation", 25*cost.Percent, "how much of a GPU one workload keeps busy, in `percent`")
	mechanism := sharing.MechanismTimeSlicing
	fs.TextVar(&mechanism, "mechanism", mechanism, "`mechanism` whose published overheads to use")
	overhead := ppmFlag(fs, "overhead", 0, "your own figure in `percent`, in place of the published ones")
	return func(a *answer) error {
		if err := checkMechanism(mechanism, *tenants); err != nil {
			return err
		}
		fleet := cost.SharedFleet{GPUs: *gpus, PricePerGPUHour: *price, Tenants: *tenants, Utilisation: use.Float(),
			Overhead: *overhead}
		f, err := fleet.Figures()
		if err != nil {
			return err
		}
		priors := priorsOf(mechanism)
		if given(fs, "overhead") {
			priors = []sharing.Overhead{{Known: true, Low: overhead.Float(), High: overhead.Float(),
				Text: "given with -overhead"}}
		}
		rows := [][]string{{"overhead", "cost of a workload-hour", "saving", "overhead from"}}
		for _, o := range priors {
			c, err := costsOf(fleet, o)
			if err != nil {
				return err
			}
			from := o.Text
			if o.Source != "" {
				from = fmt.Sprintf("%s, %s: %s", o.Source, o.Basis, o.Text)
			}
			a.sources.Add(o.Source)
			rows = append(rows, []string{c.overhead.String(), c.hour.String(), c.saving.String(), from})
		}
		a.printf("TENANTS: %d GPUs at %s an hour, %d workloads on each, each busy %s of the time, %s\n\n", *gpus, price,
			*tenants, use, mechanism)
		if len(priors) > 0 {
			a.table(rows)
			a.printf("\n")
		}
		a.printf("  capacity-hours, need not be bought:  %.1f GPU-hours a day\n", f.CapacityHours)
		a.printf("  utilisation-hours, more work done:   %.1f GPU-hours a day\n", f.UtilisationHours)
		if need := *use * cost.PPM(*tenants); need > cost.Whole {
			a.printf("  The workloads need %s of a GPU: they do not fit on one, and sharing saves less than this.\n", need)
		}
		switch {
		case len(priors) == 0:
			a.printf("  No source gives an overhead for %s; measure it and give -overhead.\n", mechanism)
		case !given(fs):
			a.printf("  %s printed $0.95, -73%% and 180 recovered hours, not which kind; with its inputs both kinds "+
				"come to 180.\n", asleekgeekArticle)
		}
		return nil
	}
}
