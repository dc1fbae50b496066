// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
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

// impossible names the mechanisms that pools and workloads ask for and that hardware or delivery cannot give them.
func (pl *answers) impossible() (out []string) {
	for _, cp := range pl.Pools {
		for _, m := range cp.Pool.Mechanisms {
			if why := cp.Target().Denial(m); why.Verdict != filter.VerdictPass {
				out = append(out, fmt.Sprintf("pool %s asks for %s, which cannot be: %s", cp.Pool.Name, m, why))
			}
		}
	}
	denied := func(m sharing.Mechanism, pool, format string, args ...any) {
		if why := pl.denied(m, pool); why != "" {
			out = append(out, fmt.Sprintf(format, args...)+": "+why)
		}
	}
	for _, m := range pl.Opt.Allow {
		denied(m, "", "%s is to be allowed, and no pool can have it", m)
	}
	for _, cw := range pl.Workloads {
		if r := cw.Workload().Request; r != nil {
			denied(r.Mechanism, cw.Workload().Pool, "%s asks for %s, which no pool has", cw.Workload().Name, r.Mechanism)
		}
	}
	return out
}

// denied returns the reasons against a mechanism in all pools, or in the named one; "" if a pool can run it.
func (pl *answers) denied(m sharing.Mechanism, pool string) string {
	var whys []string
	for _, cp := range pl.Pools {
		if pool != "" && pool != cp.Pool.Name {
			continue
		}
		why := cp.Target().Denial(m)
		if why.Verdict == filter.VerdictPass {
			return ""
		}
		whys = append(whys, why.String())
	}
	slices.Sort(whys)
	return strings.Join(slices.Compact(whys), "; ")
}

// Predicted is a Predictor's estimate for one replica of a workload with its neighbours, with bounds at the requested
// confidence.
type Predicted struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Tenants   int               `json:"tenants"` // on the GPU of the prediction, the workload's slowest
	Basis     sharing.Basis     `json:"basis"`
	// Slowdown is relative to the isolated workload on a whole GPU.
	Slowdown profile.Interval            `json:"slowdown"`
	Figures  map[string]profile.Interval `json:"figures"` // by metric
	Notes    []string                    `json:"notes,omitempty"`
}

func newPredicted(p *predict.Prediction, tenants int) *Predicted {
	out := &Predicted{Mechanism: p.Mechanism, Tenants: tenants, Basis: p.Basis, Slowdown: rounded(p.Slowdown),
		Figures: map[string]profile.Interval{}, Notes: p.Notes}
	for m, i := range p.All() {
		out.Figures[m.String()] = rounded(i)
	}
	return out
}

func rounded(i profile.Interval) profile.Interval {
	return profile.Interval{Value: round(i.Value, 3), Low: round(i.Low, 3), High: round(i.High, 3)}
}

// simulatedPredictor returns the assumption of predictors that were calibrated on a simulation and not on a GPU.
func (pl *answers) simulatedPredictor() []Assumption {
	e := pl.Evidence
	if e == nil || !slices.ContainsFunc(e.Solos, func(s *profile.Solo) bool { return s != nil }) {
		return nil
	}
	for _, q := range e.Predictor.Parameters.Named() {
		if q.Basis == sharing.BasisSimulated {
			return []Assumption{{What: fmt.Sprintf("real GPUs are like the %s that the predictor was calibrated on",
				e.Predictor.GPU), Why: "calibrate it on a real one (cotenant measure -real)"}}
		}
	}
	return nil
}

// strangers states the assumption about workloads that name no tenant, where there are several and the fleet does
// not say.
func (pl *answers) strangers() []Assumption {
	var names []string
	for _, cw := range pl.Workloads {
		if cw.Workload().Tenant == "" {
			names = append(names, cw.Workload().Name)
		}
	}
	if pl.Among == "all" || len(names) < 2 {
		return nil
	}
	slices.Sort(names)
	return []Assumption{{What: fmt.Sprintf("%s are strangers to one another", plaintext.Some(names, 4, len(names))),
		Why: "state tenant, or trust: all"}}
}
