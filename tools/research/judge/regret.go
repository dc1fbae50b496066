// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// regretLimits are the limits of the median time per output token of the fleets that
// Regret decides, in multiples of what it is alone.
var regretLimits = []float64{1.3, 1.6, 2}

// Choice sums up one way to place mixes, by measurement.
type Choice struct {
	Name string `json:"name"`
	GPUs int    `json:"gpus"`
	// Kept and Missed count tenants by whether they kept their limit; Unmeasured those
	// of whose neighbours together nothing was measured.
	Kept       int `json:"kept"`
	Missed     int `json:"missed"`
	Unmeasured int `json:"unmeasured"`
	// ExtraGPUs are those beyond the fewest that are measured to keep every limit, of fleets of which all was measured and
	// that the choice keeps.
	ExtraGPUs int `json:"extra_gpus"`
}

// Regrets lists the ways to place mixes: the best by measurement, Decide, then the rules of thumb.
type Regrets struct {
	Mixes   int      `json:"mixes"` // measured under time-slicing and MPS
	Fleets  int      `json:"fleets"`
	Choices []Choice `json:"choices"`
}

// Regret decides mixes that were measured under time-slicing and under MPS as fleets of as many GPUs as tenants,
// with limits on the median time per output token, and counts by what was measured which limits are kept and which
// GPUs used. A GPU for each keeps every limit.
func Regret(ctx context.Context, mixes []predict.Mix) (*Regrets, error) {
	measured := map[string][]bool{} // by mix, mechanism and limit: kept, by tenant in the order of names
	out := &Regrets{}
	for _, name := range []string{"best by measurement", "decide", "MPS for all", "time-slicing for all",
		"never sharing"} {
		out.Choices = append(out.Choices, Choice{Name: name})
	}
	key := func(m *predict.Mix, who []int, mechanism sharing.Mechanism, times float64) string {
		var names []string
		for _, i := range who {
			names = append(names, fmt.Sprint(m.Group[i].Server, m.Group[i].Load))
		}
		slices.Sort(names)
		return fmt.Sprint(m.Series, names, mechanism, times)
	}
	for i := range mixes {
		for _, times := range regretLimits {
			if a, ok := question(&mixes[i], profile.MetricTPOTP50, times); ok {
				all := everybody(len(a.kept))
				measured[key(a.mix, all, a.mix.Rows[0].Mechanism, times)] = byName(a.mix, all, a.kept)
			}
		}
	}
	seen := map[string]bool{}
	for i := range mixes {
		m := &mixes[i]
		all := everybody(len(m.Rows))
		name := key(m, all, sharing.MechanismNone, 0)
		under := m.Rows[0].Mechanism
		if under != sharing.MechanismTimeSlicing || seen[name] || measured[key(m, all, sharing.MechanismMPS, 2)] == nil {
			continue
		}
		seen[name] = true
		out.Mixes++
		profiles, err := soloProfiles(m)
		if err != nil {
			return nil, err
		}
		for _, times := range regretLimits {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			a, ok := question(m, profile.MetricTPOTP50, times)
			if !ok {
				continue
			}
			out.Fleets++
			// kept says for each of who whether it keeps its limit beside the others; not ok
			// where they were never measured so.
			kept := func(mechanism sharing.Mechanism, who []int) (kept []bool, ok bool) {
				if len(who) == 1 || mechanism == sharing.MechanismExclusive {
					return slices.Repeat([]bool{true}, len(who)), true
				}
				kept, ok = measured[key(m, who, mechanism, times)]
				return kept, ok
			}
			together := func(m sharing.Mechanism) []shared { return []shared{{m, all}} }
			gpus, err := a.arrange(ctx, profiles)
			if err != nil {
				return nil, err
			}
			own := make([]shared, len(all))
			for i := range own {
				own[i] = shared{sharing.MechanismExclusive, all[i : i+1]}
			}
			best := fewest(len(all), kept)
			for c, way := range [][]shared{best, gpus, together(sharing.MechanismMPS),
				together(sharing.MechanismTimeSlicing), own} {
				to := &out.Choices[c]
				to.GPUs += len(way)
				lost, told := false, true
				for _, g := range way {
					k, ok := kept(g.mechanism, g.who)
					if !ok {
						to.Unmeasured += len(g.who)
						told = false
					}
					for _, yes := range k {
						if yes {
							to.Kept++
						} else {
							to.Missed++
							lost = true
						}
					}
				}
				if !lost && told {
					to.ExtraGPUs += len(way) - len(best)
				}
			}
		}
	}
	return out, nil
}

// shared is a GPU with its tenants.
type shared struct {
	mechanism sharing.Mechanism
	who       []int
}

// fewest places n tenants on the fewest GPUs that are measured to keep all their limits, by dynamic programming over
// sets of tenants.
func fewest(n int, kept func(sharing.Mechanism, []int) ([]bool, bool)) []shared {
	best := make([][]shared, 1<<n)
	for set := 1; set < len(best); set++ {
		for part := set; part > 0; part = (part - 1) & set {
			if part&(set&-set) == 0 || best[set] != nil && len(best[set&^part]) >= len(best[set])-1 {
				continue
			}
			var who []int
			for i := range n {
				if part>>i&1 == 1 {
					who = append(who, i)
				}
			}
			for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
				if k, ok := kept(m, who); ok && !slices.Contains(k, false) {
					best[set] = append(slices.Clone(best[set&^part]), shared{m, who})
				}
			}
		}
	}
	return best[len(best)-1]
}

func everybody(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// byName orders what is said of tenants as the names in a key are.
func byName(m *predict.Mix, who []int, kept []bool) []bool {
	order := slices.Clone(who)
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(fmt.Sprint(m.Group[a].Server, m.Group[a].Load), fmt.Sprint(m.Group[b].Server, m.Group[b].Load))
	})
	out := make([]bool, len(who))
	for i, k := range order {
		out[i] = kept[k]
	}
	return out
}

// arrange returns the GPUs on which Decide puts the tenants of a mix.
func (a *ask) arrange(ctx context.Context, profiles *profile.Profiles) ([]shared, error) {
	slo := make([]profile.SLO, len(a.limits))
	for i, limit := range a.limits {
		*slo[i].At(a.metric) = sharing.Some(limit)
	}
	f, err := fleetOf(a.mix, slo, len(slo), sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismExclusive)
	if err != nil {
		return nil, err
	}
	r, err := decision.Decide(ctx, f, decision.Options{Profiles: profiles, Predictor: a.mix.Predictor})
	if err != nil {
		return nil, err
	}
	var out []shared
	for _, g := range r.Pools[0].Groups {
		for _, l := range g.Layouts {
			for range l.GPUs {
				s := shared{mechanism: g.Mechanism}
				for _, t := range l.Tenants {
					var n int
					if _, err := fmt.Sscanf(t.Workload, tenantName, &n); err != nil {
						return nil, err
					}
					s.who = append(s.who, n-1)
				}
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// WriteText writes the regrets as a table.
func (r *Regrets) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d mixes measured under time-slicing and MPS, %d fleets with limits of %v times alone\n\n",
		r.Mixes, r.Fleets, regretLimits)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tGPUs\tkept\tmissed\tunmeasured\tGPUs too many")
	for _, c := range r.Choices {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\n", c.Name, c.GPUs, c.Kept, c.Missed, c.Unmeasured, c.ExtraGPUs)
	}
	return tw.Flush()
}
