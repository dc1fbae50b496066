package decision

import (
	"cmp"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// weigh computes what each choice leads to, drops those that miss an objective
// or do not fit with headroom, and orders the rest by what a replica costs.
func (pl *planner) weigh() {
	pl.gambles = make([][]choice, len(pl.workloads))
	for w := range pl.choices {
		kept := pl.choices[w][:0]
		sure := false
		for _, c := range pl.choices[w] {
			if pl.consider(w, &c) {
				kept = append(kept, c)
				sure = sure || c.answer == sharing.AnswerYes
			}
		}
		if sure && !pl.daring {
			kept = slices.DeleteFunc(kept, func(c choice) bool {
				unsure := c.answer != sharing.AnswerYes && pl.complete(w, c.pool, c.mechanism)
				if unsure {
					pl.missed(w, &c, pl.prospectsOf(site{groupKey: c.groupKey}, []member{{w, 1}}))
				}
				return unsure
			})
		}
		pl.choices[w] = kept
		slices.SortFunc(kept, func(a, b choice) int {
			return cmp.Or(cmp.Compare(a.unit, b.unit), compareChoices(a, b))
		})
	}
}

// consider fills in what a choice leads to, and says whether it can be taken.
func (pl *planner) consider(w int, c *choice) bool {
	cw, cp := pl.workloads[w], pl.pools[c.pool]
	price := pl.counts(pl.rate(w, cp))
	t := gate.TraitsOf(c.mechanism)
	one := []member{{w, 1}}
	known := pl.complete(w, c.pool, c.mechanism)
	accept := func(p prospects) bool {
		return p.answer == sharing.AnswerYes || !known && p.answer == sharing.AnswerUnknown && p.likely || pl.dares(p)
	}
	if t.Sliced {
		inside := gate.PerInstance(c.mechanism)
		need := pl.memoryOf(w, c.mechanism) * sharing.Bytes(inside)
		var last prospects
		var smaller *gate.MIGSlice
		all := cp.ground.Slices()
		for i := range all {
			s := &all[i]
			if m, ok := s.Memory(); !ok || m < need || s.PerGPU == 0 {
				continue
			}
			last = pl.prospectsOf(site{c.groupKey, s}, []member{{w, inside}})
			if accept(last) {
				c.slice, c.tenants = s, s.PerGPU*inside
				c.fits = c.tenants
				c.unit = price / float64(s.PerGPU*inside)
				c.answer, c.smaller = last.answer, smaller
				return true
			}
			if last.answer == sharing.AnswerUnknown {
				pl.gambles[w] = append(pl.gambles[w], *c)
			}
			smaller = s
		}
		c.smaller = smaller
		pl.missed(w, c, last)
		return false
	}
	need, usable := pl.memoryOf(w, c.mechanism), pl.usable(c.pool, c.mechanism)
	if c.mechanism == sharing.MechanismExclusive {
		usable = sharing.Bytes(float64(cp.memory) * (1 - pl.opt.Headroom.Driver))
	}
	if cp.memory > 0 && need > usable {
		pl.ban(w, c, gate.Reason{Code: gate.CodeGPUMemory, Verdict: gate.VerdictReject,
			Need: int64(need), Have: int64(usable)})
		return false
	}
	p := pl.prospectsOf(site{groupKey: c.groupKey}, one)
	if c.mechanism == sharing.MechanismExclusive {
		c.unit, c.answer, c.fits = price*float64(cw.workload.gpus()), p.answer, 1
		ok := p.answer == sharing.AnswerYes || p.answer == sharing.AnswerUnknown && p.likely || pl.dares(p)
		if !ok {
			pl.missed(w, c, p)
		}
		return ok
	}
	if !accept(p) {
		pl.missed(w, c, p)
		return false
	}
	c.answer = p.answer
	c.tenants = pl.seats(w, c)
	alone := &bin{limit: c.tenants}
	g := &group{pool: cp, mechanism: c.mechanism}
	most := pl.room(g, c.pool, alone, w, c, min(c.tenants, mostAlike))
	// Where replicas are fewer than would fit, others may fill the GPU.
	c.fits = max(1, most)
	c.unit = price / float64(c.fits)
	return true
}

// seats counts the tenants like w that a GPU takes whatever they do: those that the mechanism offers, within the
// limit of MPS clients.
func (pl *planner) seats(w int, c *choice) int {
	n := pl.pools[c.pool].ground.Seats(c.mechanism, 0)
	if gate.TraitsOf(c.mechanism).Clients {
		n = max(1, n/max(1, pl.workloads[w].demand.Processes))
	}
	return min(n, mostTogether)
}

// missed keeps why a choice was dropped: the objective that is missed by most.
func (pl *planner) missed(w int, c *choice, p prospects) {
	if len(p.outcomes) == 0 {
		return
	}
	pl.ban(w, c, pl.reasonOf(w, c, p))
	if p.answer == sharing.AnswerUnknown && c.slice == nil {
		pl.gambles[w] = append(pl.gambles[w], *c)
	}
}

// dares says whether a daring planner takes what has these prospects.
func (pl *planner) dares(p prospects) bool { return pl.daring && p.answer == sharing.AnswerUnknown }

// counts returns the weight of a GPU of the price: 1 where any pool has no price.
func (pl *planner) counts(price cost.Money) float64 {
	if slices.ContainsFunc(pl.pools, func(p *CompiledPool) bool { return !p.priced }) {
		return 1
	}
	return float64(price.Micros()) / 1e6
}

// room counts the replicas of w, at most limit, that can stand beside the members of b: by memory with headroom,
// trust, and everybody's objectives.
func (pl *planner) room(g *group, p int, b *bin, w int, c *choice, limit int) int {
	n := min(limit, min(c.tenants, b.limit)-b.n, mostTogether-b.n)
	if need := pl.memoryOf(w, g.mechanism); need > 0 && g.pool.memory > 0 {
		n = min(n, int((pl.usable(p, g.mechanism)-b.memory)/need))
	}
	// A KV cache of which nothing is known may take what a neighbour needs.
	if pl.workloads[w].demand.Memory.KVPrior && !pl.measured(w, p, g.mechanism) {
		n = min(n, 1-b.n)
	}
	if n <= 0 {
		return 0
	}
	for _, m := range b.members {
		if m.workload == w {
			continue
		}
		if gate.TraitsOf(g.mechanism).Trusting && !pl.trust.trusts(m.workload, w) {
			return 0
		}
		if gate.TraitsOf(g.mechanism).Clients && g.pool.pool.MPSProtocol != mps.ProtocolV3 && !pl.oneUser(m.workload, w) {
			return 0
		}
		// What was assumed of one workload must not decide about another.
		if !pl.complete(w, p, g.mechanism) || !pl.complete(m.workload, p, g.mechanism) {
			return 0
		}
	}
	for n > 0 && !pl.videoFits(b, w, n) {
		n--
	}
	fits := func(k int) bool {
		members := slices.Clone(b.members)
		found := false
		for i := range members {
			if members[i].workload == w {
				members[i].replicas += k
				found = true
			}
		}
		if !found {
			members = append(members, member{w, k})
		}
		r := pl.prospectsOf(site{groupKey: groupKey{p, g.mechanism}}, members)
		return r.answer == sharing.AnswerYes ||
			r.answer == sharing.AnswerUnknown && r.likely && !pl.complete(w, p, g.mechanism) || pl.dares(r)
	}
	low, high := 0, n // fits(low) holds, what lies above high does not
	for step := 1; low < high; {
		k := min(low+step, high)
		if fits(k) {
			low = k
			step *= 2
			continue
		}
		high = k - 1
		step = max(1, (high-low+1)/2)
	}
	return low
}

// videoFits says whether n more replicas of w leave the GPU's video engines
// enough: what all use together stays under nine tenths.
func (pl *planner) videoFits(b *bin, w, n int) bool {
	dec, enc := 0.0, 0.0
	add := func(w, n int) {
		if v := pl.workloads[w].workload.Video; v != nil {
			dec += v.NVDECBusy.Or(0) * float64(n)
			enc += v.NVENCBusy.Or(0) * float64(n)
		}
	}
	for _, m := range b.members {
		add(m.workload, m.replicas)
	}
	add(w, n)
	return max(dec, enc) <= 0.9 || len(b.members) == 0 && n == 1
}
