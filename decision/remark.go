package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// dearestHour is the price of a GPU-hour in dollars, euros and pounds from where on
// it is likely to be another time's: the dearest on any cloud's list are below 20.
const dearestHour = 100_000_000

// remarks say what is odd about the prices of the pools, and what follows from it:
// they are taken as they are stated.
func (pl *answers) remarks() (out []string) {
	for _, cp := range pl.Pools {
		p := cp.Pool
		say := func(format string, args ...any) {
			out = append(out, "pool "+p.Name+": "+fmt.Sprintf(format, args...))
		}
		odd := func(what string, price cost.Money) {
			switch c := price.Currency(); {
			case price.Sign() == 0 && what == "":
				say("its GPUs cost nothing, so using fewer of them saves nothing: state what they cost you, or leave all prices " +
					"out to use the fewest GPUs")
			case price.Sign() == 0:
				say("its %sGPUs cost nothing, so using fewer of them saves nothing", what)
			case price.Micros() > dearestHour && slices.Contains([]string{"USD", "EUR", "GBP"}, c):
				say("%s for an hour of a %sGPU: is it the price of a node, or of a month?", short(price), what)
			}
		}
		if cp.Priced {
			odd("", cp.Price)
		}
		for _, t := range []struct {
			name   string
			tariff *Tariff
		}{{"reserved", p.Reserved}, {"spot", p.Spot}} {
			if t.tariff == nil {
				continue
			}
			price := t.tariff.PricePerGPUHour
			odd(t.name+" ", price)
			switch {
			case !cp.Priced:
				say("has a %s price and none on demand (price_per_gpu_hour): it is not used", t.name)
			case price.Micros() < cp.Price.Micros():
			case t.name == "spot":
				say("spot costs %s, on demand %s: nothing is bought as spot", short(price), short(cp.Price))
			case price.Micros() > cp.Price.Micros():
				say("reserved GPUs cost %s, on demand %s: they are used first, because they are paid for in any case",
					short(price), short(cp.Price))
			}
		}
	}
	return out
}

// short is an amount rounded for the eye.
func short(m cost.Money) string { return cents(m.Decimal()) + " " + m.Currency() }

// strangers states the assumption about workloads that name no tenant, where there are several and the fleet does
// not say.
func (pl *answers) strangers() []Assumption {
	var names []string
	for _, cw := range pl.Workloads {
		if cw.Workload().Tenant == "" {
			names = append(names, cw.Workload().Name)
		}
	}
	if pl.Among == TrustAll || len(names) < 2 {
		return nil
	}
	slices.Sort(names)
	return []Assumption{{What: fmt.Sprintf("%s are strangers to one another", plaintext.Some(names, 4, len(names))),
		Why: "state tenant, or trust: all"}}
}
