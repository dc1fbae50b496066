// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// dearestHour is the price of a GPU-hour in dollars, euros and pounds, in micro-units, from where on it is likely to be
// another time's: the dearest on any cloud's list are below 20.
const dearestHour = 100_000_000

// configNotes are those of the models' configs, each once.
func (pl *answers) configNotes() (out []string) {
	for _, cw := range pl.Workloads {
		out = append(out, cw.Workload().ConfigNotes()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// oddPools remarks on nodes and prices that nobody can mean. They are taken as they are stated.
func (pl *answers) oddPools() (out []string) {
	var counted []string
	for p, cp := range pl.Pools {
		if pl.CountsGPUs(p) {
			counted = append(counted, cp.Pool.Name)
		}
	}
	if len(counted) > 0 {
		out = append(out, fmt.Sprintf("%s: no gpus_per_node: GPUs are counted; a node has one sharing mode and one trust "+
			"domain", plaintext.Some(counted, 4, len(counted))))
	}
	for _, cp := range pl.Pools {
		say := func(format string, args ...any) {
			out = append(out, "pool "+cp.Pool.Name+": "+fmt.Sprintf(format, args...))
		}
		if n, each := cp.Pool.Count, cp.Pool.GPUsPerNode.Or(1); n%each != 0 {
			say("its GPUs (%d) are no whole nodes of %d (gpus_per_node): the last node is paid for whole", n, each)
		}
		for i, t := range []*fleet.Pricing{{PricePerGPUHour: cp.Price}, cp.Pool.Reserved, cp.Pool.Spot} {
			if t == nil || i == 0 && !cp.Priced {
				continue
			}
			name, price := [...]string{"", "reserved ", "spot "}[i], t.PricePerGPUHour
			stated := plaintext.Amount(price.Decimal()) + " " + price.Currency()
			switch {
			case price.Sign() == 0:
				say("its %sGPUs cost nothing, so using fewer of them saves nothing: state what they cost you, or leave all "+
					"prices out to use the fewest GPUs", name)
			case price.Micros() > dearestHour && slices.Contains([]string{"USD", "EUR", "GBP"}, price.Currency()):
				say("%s for an hour of a %sGPU: is it the price of a node, or of a month?", stated, name)
			}
			switch dearer := price.Micros() - cp.Price.Micros(); {
			case !cp.Priced:
				say("has a %sprice and none on demand (price_per_gpu_hour): it is not used", name)
			case i == 1 && dearer > 0:
				say("reserved GPUs cost %s, more than on demand: they are used first, being paid for in any case", stated)
			case i == 2 && dearer >= 0:
				say("spot costs %s, no less than on demand: nothing is bought as spot", stated)
			}
		}
	}
	return out
}
