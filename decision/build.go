package decision

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// answers puts what was planned into words and figures.
type answers struct {
	*planner
	imaginary bool // nobody reads them but for place and price: they have no candidates and no alternatives
	mixes     map[groupKey]*mix
	asked     int // workloads, over how many replicas their load would do
}

func (pl *answers) result() (*Result, error) {
	r := &Result{Version: "v1", Confidence: pl.opt.Confidence, Search: pl.search, Decisions: []Decision{},
		Pools: []PoolResult{}, Traps: []TrapHit{}}
	pl.mixGroups()
	shares, err := pl.shares()
	if err != nil {
		return nil, err
	}
	for w := range pl.workloads {
		d, err := pl.decision(w, shares[w])
		if err != nil {
			return nil, err
		}
		r.Decisions = append(r.Decisions, d)
		switch d.From {
		case FromProfiles:
			r.From.Profiles++
		case FromSimulation:
			r.From.Simulations++
		case FromClosedForm:
			r.From.ClosedForms++
		}
	}
	slices.SortFunc(r.Decisions, func(a, b Decision) int { return cmp.Compare(a.Workload, b.Workload) })
	r.Assumes = append(pl.strangers(), pl.pretended()...)
	r.Remarks = append(pl.impossible(), pl.remarks()...)
	for p := range pl.pools {
		r.Pools = append(r.Pools, pl.poolResult(p))
	}
	r.Traps = fleetTraps(r.Decisions)
	if err := pl.bill(r); err != nil {
		return nil, err
	}
	r.cite()
	return r, nil
}

// cite gathers what the result names.
func (r *Result) cite() {
	seen := map[sharing.SourceID]bool{}
	add := func(id sharing.SourceID) {
		if !seen[id] {
			seen[id] = true
			r.Sources.Add(id)
		}
	}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if d.TradeOff != nil {
			add(d.TradeOff.Source)
		}
		if d.Risk != nil {
			add(d.Risk.Source)
		}
		for _, a := range d.Isolation {
			add(a.Source)
		}
		for _, c := range d.Candidates {
			for _, reason := range c.Reasons {
				add(reason.Source)
			}
		}
	}
	for _, hit := range r.Traps {
		r.Sources.Add(hit.Sources...)
	}
}

// fleetTraps is each trap once, with the workloads that walk into it.
func fleetTraps(ds []Decision) []TrapHit {
	who := map[string][]string{}
	for _, d := range ds {
		for _, h := range d.Traps {
			who[h.ID] = append(who[h.ID], d.Workload)
		}
	}
	hits := []TrapHit{}
	for _, t := range sharing.Traps() {
		names := who[t.ID]
		if len(names) == 0 {
			continue
		}
		list := names[0]
		if len(names) > 1 {
			list = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
		}
		hits = append(hits, TrapHit{ID: t.ID, Severity: t.Severity,
			Message: fmt.Sprintf("%s: “%s” In truth: %s", list, t.Statement, t.Truth), Sources: t.Sources})
	}
	sortHits(hits)
	return hits
}

func (pl *answers) decision(w int, share workloadShare) (Decision, error) {
	cw := pl.workloads[w]
	d := Decision{Workload: cw.workload.Name, Mechanism: sharing.MechanismNone, Replicas: cw.workload.replicas(),
		GPUs:   cw.workload.gpus(),
		Memory: memoryText(&cw.demand.Memory)}
	if !pl.imaginary {
		d.Candidates = pl.candidates(w)
	}
	c := pl.chosen[w]
	pl.answer(w, &d, share)
	if c != nil {
		cp := pl.pools[c.pool]
		d.Pool, d.Mechanism = cp.pool.Name, c.mechanism
		if c.slice != nil {
			d.Profile = c.slice.Profile.Name
		}
		t := traitOf(c.mechanism)
		d.TradeOff = &gate.ReasonText{Code: gate.CodeTradeOff, Message: t.tradeOff, Source: t.tradeOffSource,
			Verdict: gate.VerdictPass}
		d.Risk = riskOf(cw.arch.Class, c.mechanism)
		for a := range sharing.AxisCount {
			p := cp.ground.Isolation(c.mechanism, sharing.Axis(a))
			d.Isolation = append(d.Isolation, AxisLevel{p.Axis, p.Level, p.Text, p.Source})
		}
		d.NotChosen = pl.notChosen(w, d.Candidates)
	}
	if e := pl.evidence; e != nil && e.solos[w] != nil {
		if c == nil || e.gpus[w] == nil || e.gpus[w] == pl.pools[c.pool].ground.GPU() {
			d.BreakEven = pl.breakEven(w)
		}
	}
	pl.scene(w, share.fullest).findTraps(&d)
	if err := pl.provisional(w, &d, share); err != nil {
		return d, err
	}
	if c == nil || !pl.pools[c.pool].priced {
		return d, nil
	}
	var err error
	if d.Cost, err = pl.costOf(w, pl.pools[c.pool], share); err == nil && cw.workload.Revenue != nil {
		d.Impact, err = pl.impact(w, c, share, pl.pools[c.pool])
	}
	return d, err
}

// scene gathers what the trap detectors look at.
func (pl *answers) scene(w, fullest int) *trapScene {
	cw := pl.workloads[w]
	s := &trapScene{w: cw.workload, cw: cw, tenants: fullest}
	if f := cw.workload.Framework; f != nil {
		s.f = *f
	}
	if r := cw.workload.Request; r != nil {
		s.r = *r
	}
	c := pl.chosen[w]
	switch {
	case c != nil:
		s.p, s.chosen = pl.pools[c.pool], c.mechanism
		if c.slice != nil {
			s.profile = c.slice.Profile.Name
		}
	case cw.workload.Pool != "":
		for _, p := range pl.pools {
			if p.pool.Name == cw.workload.Pool {
				s.p = p
			}
		}
	case len(pl.pools) == 1:
		s.p = pl.pools[0]
	}
	if s.p == nil {
		return s
	}
	s.filler = pl.filler(w, s.p)
	s.untrusted = pl.trust.neighbours(w, cw, s.p.pool.Name).Untrusted > 0
	if c != nil {
		mix := pl.mixes[c.groupKey]
		s.unequal = mix.unequal
		s.uids = mix.uids && !cw.workload.UID.IsZero()
	}
	return s
}

// fillingBusy is the stated gpu_busy from which on a computation is taken to fill the GPU.
const fillingBusy = 0.9

// filler says which other workload that may run on a pool fills the GPU while its kernels run: by its profile, or
// where there is none by the busy share that is stated of a computation. "" is none.
func (pl *answers) filler(w int, p *CompiledPool) string {
	for j, cw := range pl.workloads {
		o := cw.workload
		if j == w || o.Pool != "" && o.Pool != p.pool.Name {
			continue
		}
		if pl.named(j) {
			if share, fills := predict.FillsGPU(pl.evidence.solos[j]); fills {
				return fmt.Sprintf("%s holds %.0f%% of the SMs while its kernels run", o.Name, 100*share)
			}
		} else if o.Kind == KindHPC && cw.demand.BusyBasis == gate.BusyStated && cw.demand.Busy >= fillingBusy {
			return fmt.Sprintf("%s computes %.0f%% of the time", o.Name, 100*cw.demand.Busy)
		}
	}
	return ""
}

// mix says how unlike the workloads of a group are.
type mix struct {
	first   *CompiledWorkload
	uid     Optional[int]
	unequal bool // in kind or load
	uids    bool // several user ids
}

func (pl *answers) mixGroups() {
	pl.mixes = map[groupKey]*mix{}
	for w, c := range pl.chosen {
		if c == nil {
			continue
		}
		cw, key := pl.workloads[w], c.groupKey
		m := pl.mixes[key]
		if m == nil {
			m = &mix{first: cw}
			pl.mixes[key] = m
		}
		m.unequal = m.unequal || cw.workload.Kind != m.first.workload.Kind || cw.demand.Busy != m.first.demand.Busy
		if uid := cw.workload.UID; !uid.IsZero() {
			m.uids = m.uids || !m.uid.IsZero() && m.uid != uid
			m.uid = uid
		}
	}
}

func (pl *answers) poolResult(p int) PoolResult {
	cp := pl.pools[p]
	r := PoolResult{Pool: cp.pool.Name, GPU: cp.ground.GPU().Name, GPUs: cp.pool.Count, Groups: []GroupResult{}}
	for _, key := range pl.groupKeys() {
		if key.pool != p {
			continue
		}
		g := pl.groups[key]
		gr := GroupResult{Mechanism: g.mechanism, GPUs: g.gpus(), LowerBound: pl.lowerBound(g), Layouts: pl.layouts(g)}
		if n := cp.pool.GPUsPerNode.Or(1); gr.GPUs%n != 0 && g.mechanism != sharing.MechanismExclusive {
			gr.Notes = append(gr.Notes, fmt.Sprintf("%s: no whole number of nodes of %d. The device plugin has one sharing "+
				"configuration a node, so give this group nodes of its own, or deliver by DRA", counted(gr.GPUs, "GPU"), n))
		}
		r.GPUsNeeded += gr.GPUs
		r.SpotGPUs += pl.spotGPUs(g)
		r.Groups = append(r.Groups, gr)
	}
	limit, _ := cp.spotOf()
	r.SpotGPUs = min(r.SpotGPUs, limit)
	r.Migration = pl.migrations[p]
	return r
}

func (pl *answers) layouts(g *group) []LayoutResult {
	out := []LayoutResult{}
	add := func(l LayoutResult) {
		if n := len(out); n > 0 && slices.Equal(out[n-1].Instances, l.Instances) &&
			slices.Equal(out[n-1].Tenants, l.Tenants) {
			out[n-1].GPUs += l.GPUs
			return
		}
		out = append(out, l)
	}
	for _, m := range g.wholes {
		w := pl.workloads[m.workload].workload
		add(LayoutResult{GPUs: m.replicas * w.gpus(), Tenants: []TenantResult{{w.Name, 1}}})
	}
	for i := range g.bins {
		l := LayoutResult{GPUs: 1}
		for _, m := range g.bins[i].members {
			l.Tenants = append(l.Tenants, TenantResult{pl.workloads[m.workload].workload.Name, m.replicas})
		}
		slices.SortFunc(l.Tenants, func(a, b TenantResult) int { return cmp.Compare(a.Workload, b.Workload) })
		add(l)
	}
	for i := range g.sliced {
		s := &g.sliced[i]
		l := LayoutResult{GPUs: 1}
		for k, m := range s.members {
			in := s.layout.Instances[k]
			l.Instances = append(l.Instances, InstanceResult{in.Profile.Name, in.Start, in.Size,
				pl.workloads[m.workload].workload.Name, m.replicas})
		}
		add(l)
	}
	return out
}

// lowerBound returns the number of GPUs that no packing of the group's members can go below.
func (pl *answers) lowerBound(g *group) int {
	if g.mechanism == sharing.MechanismExclusive {
		return g.whole
	}
	if gate.TraitsOf(g.mechanism).Sliced {
		return g.bound
	}
	memory, p := 0.0, slices.Index(pl.pools, g.pool)
	usable := float64(pl.usable(p, g.mechanism))
	for w, c := range pl.chosen {
		if c != nil && c.pool == p && c.mechanism == g.mechanism && usable > 0 {
			memory += float64(pl.placed[w]) * float64(pl.memoryOf(w, g.mechanism)) / usable
		}
	}
	return max(1, int(math.Ceil(memory-1e-9)))
}

// memoryText words what a replica needs on each GPU, as outputs say it.
func memoryText(n *gate.MemoryNeed) string {
	if n.Unknown {
		return n.String()
	}
	return n.Total.String()
}
