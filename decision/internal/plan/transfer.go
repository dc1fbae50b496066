// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/score"
	"github.com/cotenant/cotenant/sharing"
)

// figuresOn returns by workload the GPU that figures without a stated one were measured on: the one of a fleet of one
// kind, of the pool that it is pinned to, or of all that it runs on today; nil where that is not known.
func (pl *Planner) figuresOn(f *fleet.Fleet) (out []*sharing.GPU) {
	var all []*sharing.GPU
	of, today := map[string]*sharing.GPU{}, map[string][]*sharing.GPU{}
	for _, cp := range pl.Pools {
		of[cp.Pool.Name] = cp.Target().GPU()
		all = append(all, cp.Target().GPU())
	}
	for i := 0; f.Today != nil && i < len(f.Today.Nodes); i++ {
		n := &f.Today.Nodes[i]
		for k := range n.Assignments {
			w := n.Assignments[k].Workload.Name
			today[w] = append(today[w], of[n.Pool])
		}
	}
	for _, cw := range pl.Workloads {
		on := today[cw.Workload().Name]
		if pin := of[cw.Workload().Pool]; pin != nil {
			on = []*sharing.GPU{pin}
		} else if len(on) == 0 {
			on = all
		}
		if slices.ContainsFunc(on, func(g *sharing.GPU) bool { return g != on[0] }) {
			on = []*sharing.GPU{nil}
		}
		out = append(out, on[0])
	}
	return out
}

// statedGPU returns the GPU that a workload's stated figures were measured on, by its name where it is stated.
func (pl *Planner) statedGPU(w int, name string) *sharing.GPU {
	if name == "" {
		return pl.on[w]
	}
	g, _ := sharing.LookupGPU(name) // the fleet was validated
	return g
}

// Limited reports whether a workload or a neighbour of it has an objective, which its figures decide about.
func (pl *Planner) Limited(w int) bool {
	limited := func(m Member) bool { return pl.Workloads[m.Workload].Workload().SLO != (profile.SLO{}) }
	if limited(Member{w, 1}) {
		return true
	}
	for _, part := range pl.Parts(w) {
		if c := pl.Chosen[part]; c != nil {
			for _, b := range pl.Groups[c.GroupKey].Bins {
				if has(b.Members, part) && slices.ContainsFunc(b.Members, limited) {
					return true
				}
			}
		}
	}
	return false
}

// statedOn transfers stated isolated latencies from one GPU to another.
func statedOn(w *fleet.Workload, from, to *sharing.GPU, width float64) (predict.Tenant, bool) {
	p, stated := &profile.SoloProfile{}, seconds(w.Solo)
	for k, at := range [...]*profile.Optional[float64]{&p.TTFT.P99, &p.TPOT.P99, &p.E2E.P99} {
		if stated[k] > 0 {
			*at = profile.Some(1e3 * stated[k])
		}
	}
	return predict.FromProfile(&profile.Solo{TimeSlicing: p}, from, to, true, width)
}

// workTime is the time of the GPU's part of work on GPU to over that on from: by bandwidth or by rate at the precision
// of the weights, whichever is the longer; 1 where they are not known.
func workTime(w *fleet.Workload, from, to *sharing.GPU) float64 {
	width := 2.0
	if w.Model != nil {
		width = w.Model.Width()
	}
	if from == nil {
		return 1
	}
	here, there := predict.MachineOf(from), predict.MachineOf(to)
	if min(here.Bandwidth, there.Bandwidth, here.FLOPs, there.FLOPs) <= 0 {
		return 1
	}
	return max(here.Bandwidth/there.Bandwidth, here.Rate(width)/there.Rate(width))
}

// toFinish fills in the added cost of a replica's work in each pool over the fleet's fastest GPU: work that ends takes
// longer on a slower one, and is compared by its cost to finish. All mechanisms of a pool have the same. What it is
// compared with depends on no constraint, so that an arrangement costs no more in a fleet that asks for less.
func (pl *Planner) toFinish(w int, choices []Choice) {
	wl := pl.Workloads[w].Workload()
	if wl.Load != nil || wl.Kind == fleet.KindOnlineInference || wl.Kind == fleet.KindNotebook {
		return
	}
	gpu := func(p *score.CompiledPool) *sharing.GPU { return p.Target().GPU() }
	fastest := gpu(slices.MaxFunc(pl.Pools, func(a, b *score.CompiledPool) int {
		x, y := predict.MachineOf(gpu(a)), predict.MachineOf(gpu(b))
		return cmp.Or(cmp.Compare(x.FLOPs, y.FLOPs), cmp.Compare(x.Bandwidth, y.Bandwidth))
	}))
	least := make([]float64, len(pl.Pools))
	for i := range choices {
		if c := &choices[i]; least[c.Pool] == 0 || c.Unit < least[c.Pool] {
			least[c.Pool] = c.Unit
		}
	}
	for i := range choices {
		c := &choices[i]
		by := workTime(wl, fastest, gpu(pl.Pools[c.Pool]))
		c.Longer = least[c.Pool] * max(0, by-1) * wl.GPUBusy.Or(pl.Workloads[w].Demand().Busy)
	}
}
