package decision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

// result puts what was planned into words and figures.
func (pl *planner) result() (*Result, error) {
	r := &Result{Version: "v1", Decisions: []Decision{}, Pools: []PoolResult{}, Traps: []TrapHit{}}
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
	}
	for p := range pl.pools {
		r.Pools = append(r.Pools, pl.poolResult(p))
	}
	r.Traps = fleetTraps(r.Decisions)
	if err := pl.totals(r); err != nil {
		return nil, err
	}
	return r, nil
}

// fleetTraps is each trap once, with the workloads that walk into it.
func fleetTraps(ds []Decision) []TrapHit {
	who := map[string][]string{}
	severity := map[string]sharing.Severity{}
	for _, d := range ds {
		for _, h := range d.Traps {
			who[h.ID] = append(who[h.ID], d.Workload)
			severity[h.ID] = h.Severity
		}
	}
	hits := []TrapHit{}
	for id, names := range who {
		t, _ := sharing.TrapByID(id)
		list := names[0]
		if len(names) > 1 {
			list = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
		}
		hits = append(hits, TrapHit{ID: id, Severity: severity[id], Message: fmt.Sprintf("%s: “%s” In truth: %s", list, t.Statement, t.Truth)})
	}
	sortHits(hits)
	return hits
}

func (pl *planner) decision(w int, share workloadShare) (Decision, error) {
	cw := pl.workloads[w]
	d := Decision{Workload: cw.workload.Name, Mechanism: sharing.None, Replicas: cw.workload.replicas(), GPUs: cw.workload.gpus(),
		Memory: cw.need.Total.String(), Candidates: pl.candidates(w)}
	c := pl.chosen[w]
	if c != nil {
		cp := pl.pools[c.pool]
		d.Pool, d.Mechanism = cp.pool.Name, c.mechanism
		d.Profile = cp.Profile(&Scored{profile: c.profile})
		t := &traits[c.mechanism]
		d.TradeOff = &ReasonText{Code: "trade-off", Message: t.tradeOff, Source: t.tradeOffSource, Verdict: Pass}
		d.Risk = riskOf(cw.arch.Class, c.mechanism)
		for a := range sharing.AxisCount {
			p := &cp.isolation[c.mechanism][a]
			d.Isolation = append(d.Isolation, AxisLevel{p.Axis, p.Level, p.Text, p.Source})
		}
		d.NotChosen = notChosen(d.Candidates)
	}
	if e := pl.evidence; e != nil && e.solos[w] != nil {
		d.Predicted = e.predicted[w]
		d.BreakEven = e.breakEven(w)
	}
	d.Traps = pl.scene(w, share.fullest).traps()
	if c == nil || !pl.pools[c.pool].priced {
		return d, nil
	}
	var err error
	if d.Cost, err = pl.costOf(cw, pl.pools[c.pool], share); err == nil && cw.workload.Revenue != nil {
		d.Impact, err = pl.impact(cw, c, share, pl.pools[c.pool])
	}
	return d, err
}

// notChosen compares the choice with the next ones: what each would have done
// better, and what worse.
func notChosen(cs []Candidate) []string {
	var chosen *Candidate
	for i := range cs {
		if cs[i].Chosen {
			chosen = &cs[i]
		}
	}
	var out []string
	for i := range cs {
		c := &cs[i]
		if chosen == nil || c.Verdict != Pass || c.Chosen || len(out) == 2 {
			continue
		}
		better, worse, up, down := -1, -1, 0.0, 0.0
		for k := range c.Parts {
			diff := c.Parts[k].Weighted - chosen.Parts[k].Weighted
			if diff > up {
				better, up = k, diff
			}
			if diff < down {
				worse, down = k, diff
			}
		}
		text := fmt.Sprintf("%s on %s scores %.1f against %.1f", c.Mechanism, c.Pool, c.Preference, chosen.Preference)
		var how []string
		if worse >= 0 {
			how = append(how, fmt.Sprintf("worse in %s", c.Parts[worse].Criterion))
		}
		if c.Preference-c.Score < chosen.Preference-chosen.Score-0.01 {
			how = append(how, "dearer for a replica")
		}
		if better >= 0 {
			how = append(how, fmt.Sprintf("better in %s", c.Parts[better].Criterion))
		}
		if len(how) > 0 {
			text += ": " + strings.Join(how, ", ")
		}
		out = append(out, text)
	}
	return out
}

// candidates evaluates workload w again, this time into words.
func (pl *planner) candidates(w int) []Candidate {
	if len(pl.pools) > pl.opt.MaxPoolsListed {
		return pl.bestCandidates(w)
	}
	out := make([]Candidate, 0, len(pl.pools)*(sharing.MechanismCount-1))
	var ev Evaluation
	for p, cp := range pl.pools {
		Evaluate(pl.workloads[w], cp, pl.neighbours(w, p), &ev)
		for i := range ev.Candidates {
			pl.annotate(w, p, &ev.Candidates[i])
			out = append(out, pl.words(w, p, &ev.Candidates[i]))
			out = pl.smallerProfiles(out, w, p, &ev.Candidates[i])
		}
	}
	return sortCandidates(out)
}

// smallerProfiles appends the MIG profiles that would pack more densely than
// the candidate's and do not do, each with its reason.
func (pl *planner) smallerProfiles(out []Candidate, w, p int, s *Scored) []Candidate {
	if s.Mechanism != sharing.MIG || s.profile < 0 {
		return out
	}
	cw, cp := pl.workloads[w], pl.pools[p]
	for i := range cp.profiles[:s.profile] {
		r := Reason{Code: CodeSliceTooSmall, Mechanism: s.Mechanism, Verdict: Reject, A: int64(cw.need.Total), B: int64(i)}
		if o := &cp.profiles[i]; o.memory >= cw.need.Total {
			r = Reason{Code: CodeSliceSaturated, Mechanism: s.Mechanism, Verdict: Reject, A: permille(cw.busy), B: int64(i)}
		} else if o.memory == 0 {
			continue
		}
		out = append(out, Candidate{Pool: cp.pool.Name, Mechanism: s.Mechanism, Profile: cp.profiles[i].profile.Name, Verdict: Reject,
			Tenants: 1, Reasons: []ReasonText{r.Text(cw, cp)}})
	}
	return out
}

// bestCandidates lists each mechanism once: the chosen candidate, or the best.
func (pl *planner) bestCandidates(w int) []Candidate {
	var best [sharing.MechanismCount - 1]Scored
	var at [sharing.MechanismCount - 1]int
	rank := func(p int, s *Scored) (int, float64) {
		if pl.took(w, p, s.Mechanism) {
			return -1, 0
		}
		return s.Verdict.severity(), -s.Score - pl.bonus[w][p]
	}
	var ev Evaluation
	for p, cp := range pl.pools {
		Evaluate(pl.workloads[w], cp, pl.neighbours(w, p), &ev)
		for i := range ev.Candidates {
			s := &ev.Candidates[i]
			pl.annotate(w, p, s)
			if p > 0 {
				verdict, preference := rank(p, s)
				bestVerdict, bestPreference := rank(at[i], &best[i])
				if cmp.Or(cmp.Compare(verdict, bestVerdict), cmp.Compare(preference, bestPreference)) >= 0 && !(best[i].pinned() && !s.pinned()) {
					continue
				}
			}
			best[i], at[i] = *s, p
		}
	}
	out := make([]Candidate, len(best))
	for i := range best {
		out[i] = pl.words(w, at[i], &best[i])
	}
	return sortCandidates(out)
}

func (s *Scored) pinned() bool {
	return s.n > 0 && s.reasons[0].Code == CodePinnedElsewhere
}

// took says that workload w was given this candidate.
func (pl *planner) took(w, p int, m sharing.Mechanism) bool {
	c := pl.chosen[w]
	return c != nil && c.pool == p && c.mechanism == m
}

func sortCandidates(out []Candidate) []Candidate {
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(-cmpBool(a.Chosen, b.Chosen), cmp.Compare(a.Verdict.severity(), b.Verdict.severity()),
			cmp.Compare(b.Preference, a.Preference), cmpBool(a.pinned(), b.pinned()), cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.Pool, b.Pool))
	})
	return out
}

// pinned says that the workload's pin alone rules the candidate out.
func (c *Candidate) pinned() bool {
	return len(c.Reasons) > 0 && c.Reasons[0].Code == reasons[CodePinnedElsewhere].name
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// annotate adds what only the fleet as a whole shows: a pool that was full,
// neighbours that never came.
func (pl *planner) annotate(w, p int, s *Scored) {
	key := banKey{w, p, s.Mechanism}
	if need := pl.full[w][key]; need > 0 && s.Verdict == Pass {
		s.add(Reject, CodePoolFull, int64(need), int64(pl.pools[p].pool.Count))
	}
	if r := pl.banned[key]; r.Code != CodeNone {
		s.add(r.Verdict, r.Code, r.A, r.B)
	}
}

func (pl *planner) words(w, p int, s *Scored) Candidate {
	cw, cp := pl.workloads[w], pl.pools[p]
	c := Candidate{Pool: cp.pool.Name, Mechanism: s.Mechanism, Profile: cp.Profile(s), Verdict: s.Verdict, Chosen: pl.took(w, p, s.Mechanism),
		Tenants: s.Tenants, Reasons: make([]ReasonText, 0, max(1, int(s.n)))}
	if c.Chosen {
		c.Tenants = pl.chosen[w].tenants // a prediction may have allowed fewer
	}
	if s.Verdict != Reject {
		c.Score, c.Preference = round(s.Score, 2), round(s.Score+pl.bonus[w][p], 2)
		c.Parts = make([]ScorePart, 0, CriterionCount)
		for i := range CriterionCount {
			c.Parts = append(c.Parts, ScorePart{Criterion(i), round(s.Raw[i], 4), round(s.Normalised[i], 4), round(cw.weights[i], 4), round(s.Weighted[i], 4)})
		}
	}
	for _, r := range s.Reasons() {
		c.Reasons = append(c.Reasons, r.Text(cw, cp))
	}
	if len(c.Reasons) == 0 {
		c.Reasons = append(c.Reasons, ReasonText{"fits", "no gate speaks against it", "A12", Pass})
	}
	return c
}

func round(f float64, decimals int) float64 {
	p := math.Pow10(decimals)
	return math.Round(f*p) / p
}

// scene gathers what the trap detectors look at.
func (pl *planner) scene(w, fullest int) *trapScene {
	cw := pl.workloads[w]
	s := &trapScene{w: cw.workload, cw: cw, tenants: fullest}
	c := pl.chosen[w]
	switch {
	case c != nil:
		s.p, s.chosen = pl.pools[c.pool], c.mechanism
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
	s.untrusted = pl.trust.neighbours(w, cw, s.p.pool.Name).Untrusted > 0
	if c != nil {
		mix := pl.mixes[groupKey{c.pool, c.mechanism}]
		s.unequal = mix.unequal
		s.uids = mix.uids && cw.workload.UID != nil
	}
	return s
}

// mix says how unlike the workloads of a group are.
type mix struct {
	first   *CompiledWorkload
	uid     *int
	unequal bool // in kind or load
	uids    bool // several user ids
}

func (pl *planner) mixGroups() {
	pl.mixes = map[groupKey]*mix{}
	for w, c := range pl.chosen {
		if c == nil {
			continue
		}
		cw, key := pl.workloads[w], groupKey{c.pool, c.mechanism}
		m := pl.mixes[key]
		if m == nil {
			m = &mix{first: cw}
			pl.mixes[key] = m
		}
		m.unequal = m.unequal || cw.workload.Kind != m.first.workload.Kind || cw.busy != m.first.busy
		if uid := cw.workload.UID; uid != nil {
			m.uids = m.uids || m.uid != nil && *m.uid != *uid
			m.uid = uid
		}
	}
}

// workloadShare is what a workload takes of its pool's GPUs.
type workloadShare struct {
	micros  int64 // of its GPUs' price for an hour
	fullest int   // tenants on the fullest of its GPUs
}

// shares divides each GPU's price among those on it, to the last micro-unit:
// by tenants where they share without slices, by placement units under MIG.
func (pl *planner) shares() ([]workloadShare, error) {
	out := make([]workloadShare, len(pl.workloads))
	for _, key := range pl.groupKeys() {
		g := pl.groups[key]
		price := g.pool.price
		for _, m := range g.wholes {
			gpus := pl.workloads[m.workload].workload.gpus() * m.replicas
			total, err := price.Mul(int64(gpus))
			if err != nil {
				return nil, fmt.Errorf("decision: %w", err)
			}
			out[m.workload].micros += total.Micros()
			out[m.workload].fullest = 1
		}
		for i := range g.bins {
			divide(out, price, g.bins[i].members, nil)
		}
		for i := range g.sliced {
			s := &g.sliced[i]
			units := make([]int, len(s.members))
			for k := range s.members {
				units[k] = s.layout.Instances[k].Size
			}
			divide(out, price, s.members, units)
		}
	}
	return out, nil
}

// divide gives each member its share of one GPU's price by weight (replicas
// where there are no units); what rounding leaves goes to the first members.
func divide(out []workloadShare, price cost.Money, members []member, units []int) {
	weight, tenants := 0, 0
	at := func(k int) int {
		if units != nil {
			return units[k]
		}
		return members[k].replicas
	}
	for k := range members {
		weight += at(k)
		tenants += members[k].replicas
	}
	left := price.Micros()
	for k, m := range members {
		part := int64(0)
		if weight > 0 {
			part = mulDiv(price.Micros(), int64(at(k)), int64(weight))
		}
		out[m.workload].micros += part
		left -= part
		out[m.workload].fullest = max(out[m.workload].fullest, tenants)
	}
	for k := 0; left > 0 && len(members) > 0; k, left = (k+1)%len(members), left-1 {
		out[members[k].workload].micros++
	}
}

// mulDiv is a*b/c rounded down; prices are at most 1e12 micro-units and
// weights at most 1e5, so the product fits.
func mulDiv(a, b, c int64) int64 { return a * b / c }

func (pl *planner) costOf(cw *CompiledWorkload, p *CompiledPool, share workloadShare) (*CostResult, error) {
	replicas, gpus := int64(cw.workload.replicas()), int64(cw.workload.gpus())
	alone, err := p.price.Mul(replicas * gpus)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	hour, err := cost.FromMicros(share.micros, p.price.Currency())
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	each, err := hour.MulFrac(1, replicas)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	return &CostResult{PerWorkloadHour: hour.Decimal(), PerReplicaHour: each.Decimal(), ExclusiveHour: alone.Decimal(),
		Currency: p.price.Currency(), SavingPercent: savingPercent(alone, hour)}, nil
}

func savingPercent(before, after cost.Money) float64 {
	if before.Micros() == 0 {
		return 0
	}
	return round(100*(1-float64(after.Micros())/float64(before.Micros())), 1)
}

// impact compares what neighbours' latency may lose with what sharing saves.
func (pl *planner) impact(cw *CompiledWorkload, c *choice, share workloadShare, p *CompiledPool) (*Impact, error) {
	solo := cw.solo[2]
	if solo == 0 {
		return nil, nil
	}
	expected, _, _ := slowdownBy(c.mechanism, max(1, share.fullest), cw.busy)
	added := solo * (expected - 1)
	rev := cw.workload.Revenue
	percent := min(100, added/0.1*rev.LossPercentPer100m)
	fraction, err := cost.PPMFromFloat(percent / 100)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	loss, err := rev.Monthly.Times(fraction)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	alone := p.price.Micros() * int64(cw.workload.replicas()) * int64(cw.workload.gpus())
	hourly, err := cost.FromMicros(alone-share.micros, p.price.Currency())
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	saving, err := cost.Monthly(hourly)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	net, err := saving.Sub(loss)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	return &Impact{AddedLatencyMS: round(added*1000, 3), LossPercent: round(percent, 3), MonthlyLoss: loss.Decimal(),
		MonthlySaving: saving.Decimal(), Net: net.Decimal(), Currency: loss.Currency(),
		Basis: "prior: expected slowdown by neighbours times the end-to-end P99 measured alone; measure it beside them"}, nil
}

func (pl *planner) poolResult(p int) PoolResult {
	cp := pl.pools[p]
	r := PoolResult{Pool: cp.pool.Name, GPU: cp.gpu.Name, GPUs: cp.pool.Count, Groups: []GroupResult{}}
	for _, key := range pl.groupKeys() {
		if key.pool != p {
			continue
		}
		g := pl.groups[key]
		gr := GroupResult{Mechanism: g.mechanism, GPUs: g.gpus(), LowerBound: pl.lowerBound(g), Layouts: pl.layouts(g)}
		if n := cp.pool.GPUsPerNode; n > 0 && gr.GPUs%n != 0 && g.mechanism != sharing.Exclusive {
			gr.Notes = append(gr.Notes, fmt.Sprintf("%d GPUs are no whole number of nodes of %d: the device plugin has one sharing configuration a node, so give this group nodes of its own, or deliver by DRA", gr.GPUs, n))
		}
		r.GPUsNeeded += gr.GPUs
		r.Groups = append(r.Groups, gr)
	}
	r.Migration = pl.migrations[p]
	return r
}

func (pl *planner) layouts(g *group) []LayoutResult {
	out := []LayoutResult{}
	add := func(l LayoutResult) {
		if n := len(out); n > 0 && slices.Equal(out[n-1].Instances, l.Instances) && slices.Equal(out[n-1].Tenants, l.Tenants) {
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
		add(l)
	}
	for i := range g.sliced {
		s := &g.sliced[i]
		l := LayoutResult{GPUs: 1}
		for k, m := range s.members {
			in := s.layout.Instances[k]
			l.Instances = append(l.Instances, InstanceResult{in.Profile.Name, in.Start, in.Size, pl.workloads[m.workload].workload.Name, m.replicas})
		}
		add(l)
	}
	return out
}

// lowerBound is what no packing of the group's members can go below.
func (pl *planner) lowerBound(g *group) int {
	if g.mechanism == sharing.Exclusive {
		return g.whole
	}
	if traits[g.mechanism].sliced {
		return g.bound
	}
	t := &traits[g.mechanism]
	memory, busy, seats := 0.0, 0.0, 0.0
	for w, c := range pl.chosen {
		if c == nil || pl.pools[c.pool] != g.pool || c.mechanism != g.mechanism {
			continue
		}
		it, n := itemOf(w, pl.workloads[w], c), float64(pl.workloads[w].workload.replicas())
		if g.pool.memory > 0 {
			memory += n * float64(it.memory) / float64(g.pool.memory)
		}
		busy += n * it.busy / t.capacity
		seats += n / float64(max(1, it.tenants))
	}
	return int(math.Ceil(max(memory, busy, seats) - 1e-9))
}

func (pl *planner) totals(r *Result) error {
	t := &r.Totals
	t.HoursPerMonth, t.WorkloadsTotal = cost.HoursPerMonth, len(pl.workloads)
	before, after, currency := int64(0), int64(0), ""
	for p, cp := range pl.pools {
		if cp.priced {
			currency = cp.price.Currency()
		} else if r.Pools[p].GPUsNeeded > 0 {
			t.UnpricedPools = append(t.UnpricedPools, cp.pool.Name)
		}
	}
	for w, c := range pl.chosen {
		if c == nil {
			t.Unplaced++
			continue
		}
		n := pl.workloads[w].workload.replicas() * pl.workloads[w].workload.gpus()
		t.GPUsBefore += n
		before += pl.pools[c.pool].price.Micros() * int64(n)
	}
	for p := range r.Pools {
		t.GPUsAfter += r.Pools[p].GPUsNeeded
		after += pl.pools[p].price.Micros() * int64(r.Pools[p].GPUsNeeded)
	}
	t.CapacityHours = 24 * float64(t.GPUsBefore-t.GPUsAfter)
	if len(t.UnpricedPools) > 0 || currency == "" {
		return nil
	}
	monthly := func(micros int64) (cost.Money, error) {
		m, err := cost.FromMicros(micros, currency)
		if err != nil {
			return m, err
		}
		return cost.Monthly(m)
	}
	b, err := monthly(before)
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	a, err := monthly(after)
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	saving, err := b.Sub(a)
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	percent := savingPercent(b, a)
	t.MonthlyBefore, t.MonthlyAfter, t.MonthlySaving, t.SavingPercent, t.Currency = b.Decimal(), a.Decimal(), saving.Decimal(), &percent, currency
	return nil
}
