// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
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
	limited := func(m Member) bool {
		wl := pl.Workloads[m.Workload].Workload()
		return wl.SLO != (profile.SLO{}) || wl.Job != nil
	}
	if limited(Member{w, 1}) {
		return true
	}
	return slices.ContainsFunc(pl.Places[w], func(p Place) bool {
		return !traits.Of(p.Mechanism).Sliced && slices.ContainsFunc(pl.Groups[p.GroupKey], func(g GPU) bool {
			return has(g.Members, w) && slices.ContainsFunc(g.Members, limited)
		})
	})
}

// statedOn transfers stated isolated latencies from one GPU to another.
func statedOn(w *fleet.Workload, from, to *sharing.GPU, width float64) (predict.Tenant, bool) {
	p, stated := &profile.SoloProfile{}, seconds(w.Solo)
	for k, at := range [...]*sharing.Optional[float64]{&p.TTFT.P99, &p.TPOT.P99, &p.E2E.P99} {
		if stated[k] > 0 {
			*at = sharing.Some(1e3 * stated[k])
		}
	}
	return predict.FromProfile(&profile.Solo{TimeSlicing: p}, from, to, true, width)
}

// workTimes is the time of the GPU's part of work on GPU to over that on from: the shorter and the longer of those by
// bandwidth and by rate at the precision of the weights; ok is false where they are not known.
func workTimes(w *fleet.Workload, from, to *sharing.GPU) (short, long float64, ok bool) {
	width := 2.0
	if w.Model != nil {
		width = w.Model.Width()
	}
	if from == nil {
		return 1, 1, false
	}
	here, there := predict.MachineOf(from), predict.MachineOf(to)
	if min(here.Bandwidth, there.Bandwidth, here.FLOPs, there.FLOPs) <= 0 {
		return 1, 1, from == to
	}
	bandwidth, rate := here.Bandwidth/there.Bandwidth, here.Rate(width)/there.Rate(width)
	return min(bandwidth, rate), max(bandwidth, rate), true
}

// busyOn is the busy share of a workload that is the fraction busy on GPU from and takes its time on GPU to.
func busyOn(w *fleet.Workload, busy float64, from, to *sharing.GPU) float64 {
	_, by, _ := workTimes(w, from, to)
	return busy * by / (busy*by + 1 - busy)
}

// busyGPU is the GPU that a workload's gpu_busy was measured on.
func (pl *Planner) busyGPU(w int) *sharing.GPU {
	wl := pl.Workloads[w].Workload()
	if on := pl.statedGPU(w, wl.BusyOn); on != nil || wl.Job == nil {
		return on
	}
	return pl.statedGPU(w, wl.Job.On)
}

// deadline fills in the time of a job on a pool's GPU, with bounds at the confidence of the plan. On another GPU than
// that of its figure, the busy part takes the longer of [workTimes], and at the lower bound the shorter.
func (pl *Planner) deadline(w, p int, o *estimate) {
	wl, gpu := pl.Workloads[w].Workload(), pl.Pools[p].Target().GPU()
	from := pl.statedGPU(w, wl.Job.On)
	takes := wl.Job.Duration.Seconds()
	least := takes
	if from == nil {
		o.assumeOwn(fmt.Sprintf("job.duration of %s was measured on %s", wl.Name, problem.A(gpu.Name)),
			"state on which GPU: job: {on: ..., ...}")
	} else if from != gpu {
		short, long, ok := workTimes(wl, from, gpu)
		busy := busyOn(wl, wl.GPUBusy.Or(pl.Workloads[w].Demand().Busy), pl.busyGPU(w), from)
		takes, least = takes*(1+busy*(long-1)), takes*(1+busy*(short-1))
		a := fleet.Assumption{Basis: sharing.BasisTransferred, Own: true,
			What: fmt.Sprintf("%s takes %s h isolated on %s", wl.Name, plaintext.Digits(takes/3600), problem.A(gpu.Name)),
			Why:  fmt.Sprintf("transferred from %s on %s", wl.Job.Duration, problem.A(from.Name))}
		if !ok {
			a.Why, a.Basis, a.Own = "its bandwidth or rate is not known; state job.duration on it", sharing.BasisUnknown, false
		}
		o.Assumes = append(o.Assumes, a)
	}
	o.Demand.Takes = predict.TimeOn(least, takes, from, gpu, pl.Opt.Confidence)
	o.Demand.Deadline = wl.Job.Deadline.Seconds()
}

// toFinish fills in the added cost of a replica's work in each pool over the fleet's fastest GPU: work that ends takes
// longer on a slower one, midway between the ratios of their bandwidths and of their rates, and is compared by its cost
// to finish. All mechanisms of a pool have the same. What it is compared with depends on no constraint, so that an
// arrangement costs no more in a fleet that asks for less.
func (pl *Planner) toFinish(w int, choices []Choice) {
	wl := pl.Workloads[w].Workload()
	if wl.Load != nil || wl.Kind == "online-inference" || wl.Kind == "notebook" {
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
		short, long, _ := workTimes(wl, fastest, gpu(pl.Pools[c.Pool]))
		c.Longer = least[c.Pool] * max(0, math.Sqrt(short*long)-1) * wl.GPUBusy.Or(pl.Workloads[w].Demand().Busy)
	}
}
