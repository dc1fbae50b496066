// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

func (pl *answers) result() (*Result, error) {
	r := &Result{Version: "v1", Confidence: pl.Opt.Confidence, Decisions: []Decision{},
		Pools: []PoolResult{}, Traps: []TrapHit{}}
	if err := pl.layout(r); err != nil {
		return nil, err
	}
	shares, err := pl.shares()
	if err != nil {
		return nil, err
	}
	for w := range pl.Workloads {
		d, err := pl.decision(w, shares[w])
		if err != nil {
			return nil, err
		}
		r.Decisions = append(r.Decisions, d)
	}
	slices.SortFunc(r.Decisions, func(a, b Decision) int { return cmp.Compare(a.Workload, b.Workload) })
	r.Assumes = append(pl.strangers(), pl.simulatedPredictor()...)
	r.Remarks = slices.Concat(pl.impossible(), pl.oddPools(), pl.configNotes())
	for p := range pl.Pools {
		r.Pools = append(r.Pools, pl.poolResult(r.Layout, p))
	}
	r.Traps = fleetTraps(r.Decisions)
	if err := pl.total(r); err != nil {
		return nil, err
	}
	r.cite()
	return r, nil
}

// cite collects the sources that the result names.
func (r *Result) cite() {
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if d.TradeOff != nil {
			r.Sources.Add(d.TradeOff.Source)
		}
		for _, a := range d.Isolation {
			r.Sources.Add(a.Source)
		}
		for _, c := range d.Candidates {
			for _, reason := range c.Reasons {
				r.Sources.Add(reason.Source)
			}
		}
	}
	for _, hit := range r.Traps {
		r.Sources.Add(hit.Sources...)
	}
}

// fleetTraps lists each trap once, with its workloads.
func fleetTraps(ds []Decision) []TrapHit {
	workloads := map[string][]string{}
	for _, d := range ds {
		for _, h := range d.Traps {
			workloads[h.ID] = append(workloads[h.ID], d.Workload)
		}
	}
	hits := []TrapHit{}
	for _, t := range sharing.Traps() {
		names := workloads[t.ID]
		if len(names) == 0 {
			continue
		}
		hits = append(hits, TrapHit{ID: t.ID, Severity: t.Severity, Message: fmt.Sprintf("%s: “%s” In truth: %s",
			plaintext.Some(names, 1, len(names)), t.Statement, t.Truth), Sources: t.Sources})
	}
	sortHits(hits)
	return hits
}

func (pl *answers) decision(w int, share workloadShare) (Decision, error) {
	cw := pl.Workloads[w]
	need := &cw.Demand().Memory
	d := Decision{Workload: cw.Workload().Name, Status: StatusNone, Mechanism: sharing.MechanismNone, From: fromFilters,
		Replicas: cw.Workload().ReplicaCount(), GPUs: cw.Workload().GPUCount(), Memory: need.Total.String(),
		Candidates: pl.candidates(w)}
	if need.Unknown {
		d.Memory = need.String()
	}
	c := pl.Chosen(w)
	provisional := pl.answer(w, &d, share)
	if c != nil {
		cp := pl.Pools[c.Pool]
		d.Pool, d.Mechanism, d.Profile = cp.Pool.Name, c.Mechanism, profileOf(c)
		for _, at := range pl.Places[w] {
			if len(pl.Places[w]) > 1 {
				d.Places = append(d.Places, Place{pl.Pools[at.Pool].Pool.Name, at.Mechanism, profileOf(at.Choice), at.Replicas})
			}
		}
		t := score.TraitOf(c.Mechanism)
		d.TradeOff = &filter.ReasonText{Code: codes.TradeOff, Message: t.TradeOff, Source: t.TradeOffSource,
			Verdict: filter.VerdictPass}
		for a := range sharing.AxisCount {
			p := cp.Target().Isolation(c.Mechanism, sharing.Axis(a))
			d.Isolation = append(d.Isolation, AxisLevel{p.Axis, p.Level, p.Text, p.Source})
		}
		d.NotChosen = pl.notChosen(w, &d)
	}
	pl.trapInput(w, share.fullest).findTraps(&d)
	if provisional {
		d.Measurement = pl.measurement(w, &d)
	}
	if c == nil || slices.ContainsFunc(pl.Places[w], func(at plan.Place) bool { return !pl.Pools[at.Pool].Priced }) {
		return d, nil
	}
	return d, pl.price(w, &d, pl.Pools[c.Pool].Price.Currency(), share)
}

// trapInput collects the facts that traps are found by.
func (pl *answers) trapInput(w, fullest int) *trapInput {
	cw := pl.Workloads[w]
	s := newTrapInput(cw, nil)
	s.tenants = fullest
	c := pl.Chosen(w)
	switch {
	case c != nil:
		s.p, s.chosen, s.profile = pl.Pools[c.Pool], c.Mechanism, profileOf(c)
	case cw.Workload().Pool != "":
		s.p = pl.Pools[slices.IndexFunc(pl.Pools, func(p *score.CompiledPool) bool {
			return p.Pool.Name == cw.Workload().Pool
		})]
	case len(pl.Pools) == 1:
		s.p = pl.Pools[0]
	}
	if s.p == nil {
		return s
	}
	s.filler = pl.filler(w, s.p)
	s.untrusted = pl.Neighbours(w, slices.Index(pl.Pools, s.p)).Untrusted > 0
	for o, other := range pl.Workloads {
		if c == nil || !slices.ContainsFunc(pl.Places[o], func(at plan.Place) bool { return at.GroupKey == c.GroupKey }) {
			continue
		}
		s.unequal = s.unequal || other.Workload().Kind != cw.Workload().Kind || other.Demand().Busy != cw.Demand().Busy
		uid, stated := other.Workload().UID.Get()
		s.uids = s.uids || stated && uid != cw.Workload().UID.Or(uid)
	}
	return s
}

// fillingBusy is the stated gpu_busy from which on a computation is taken to fill the GPU.
const fillingBusy = 0.9

// filler describes another workload of a pool with kernels that fill the GPU, by its profile or by the stated busy
// share of a computation; "" if there is none.
func (pl *answers) filler(w int, p *score.CompiledPool) string {
	for j, cw := range pl.Workloads {
		o := cw.Workload()
		if j == w || o.Pool != "" && o.Pool != p.Pool.Name {
			continue
		}
		if pl.Named(j) {
			if share, fills := predict.FillsGPU(pl.Evidence.Solos[j]); fills {
				return fmt.Sprintf("%s holds %.0f%% of the SMs while its kernels run", o.Name, 100*share)
			}
		} else if o.Kind == KindHPC && cw.Demand().BusyBasis == filter.BusyStated && cw.Demand().Busy >= fillingBusy {
			return fmt.Sprintf("%s computes %.0f%% of the time", o.Name, 100*cw.Demand().Busy)
		}
	}
	return ""
}

func (pl *answers) poolResult(of *layout.Cluster, p int) PoolResult {
	cp := pl.Pools[p]
	r := PoolResult{Pool: cp.Pool.Name, GPU: cp.Target().GPU().Name, GPUs: cp.Pool.Count, Groups: []GroupResult{}}
	for _, key := range pl.GroupKeys() {
		if key.Pool == p {
			r.Groups = append(r.Groups, GroupResult{Mechanism: key.Mechanism})
		}
	}
	for n := range of.Nodes() {
		for i := range n.Devices {
			if n.Pool != r.Pool || n.Tenants(i) == 0 {
				continue
			}
			at := slices.IndexFunc(r.Groups, func(g GroupResult) bool { return g.Mechanism == n.Devices[i].Mode })
			r.Groups[at].add(n, i)
		}
	}
	r.GPUsNeeded, r.SpotGPUs = pl.Used(p)
	r.SpotGPUs = min(r.SpotGPUs, pl.costs[p].Spot)
	return r
}

// add counts a device of the layout.
func (g *GroupResult) add(n *layout.Node, device int) {
	l := LayoutResult{GPUs: 1}
	d := &n.Devices[device]
	if layout.Sliced(d.Mode) {
		for _, in := range d.Instances {
			l.Instances = append(l.Instances, InstanceResult{Profile: in.Profile.Name, Start: int(in.Start),
				Size: in.Profile.PlacementUnits})
		}
	}
	for a := range n.On(device) {
		if a.Profile != nil {
			at := slices.IndexFunc(l.Instances, func(in InstanceResult) bool { return in.Start == int(a.Start) })
			l.Instances[at].Workload = a.Workload.Name
			l.Instances[at].Replicas++
			continue
		}
		at, found := slices.BinarySearchFunc(l.Tenants, a.Workload.Name, func(t TenantResult, name string) int {
			return cmp.Compare(t.Workload, name)
		})
		if !found {
			l.Tenants = slices.Insert(l.Tenants, at, TenantResult{Workload: a.Workload.Name})
		}
		l.Tenants[at].Replicas++
	}
	g.GPUs++
	for i := range g.Layouts {
		if same := &g.Layouts[i]; slices.Equal(same.Instances, l.Instances) && slices.Equal(same.Tenants, l.Tenants) {
			same.GPUs++
			return
		}
	}
	g.Layouts = append(g.Layouts, l)
}

// decideStated decides a fleet without replicas: auto.
func decideStated(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	planned, err := opt.prepare(ctx, f)
	if err != nil {
		return nil, err
	}
	n := plan.Rounds
	if opt.Running {
		n = 1
	}
	pl, err := plan.PlanFleet(f, planned, n)
	if err != nil {
		return nil, err
	}
	return (&answers{Planner: pl, fleet: f}).result()
}
