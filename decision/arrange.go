package decision

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// Workloads are arranged a few at a time: all ways to divide a few among pools
// and mechanisms are compared, beside what stands already.
const (
	fewWorkloads = 5 // together, in fleets up to
	fewUpTo      = 40
	pairsUpTo    = 200
	mostCompared = 14 // choices of a workload that are compared, cheapest first
	mostAlike    = 64
	mostTogether = 64 // tenants of a GPU without slices
	dropped      = 1e15
)

// choice is workload w's choice of a group, or nil.
func (pl *planner) choice(w int, key groupKey) *choice {
	for i := range pl.choices[w] {
		if c := &pl.choices[w][i]; c.pool == key.pool && c.mechanism == key.mechanism {
			return c
		}
	}
	return nil
}

// open says whether a choice may still be taken.
func (pl *planner) open(w int, c *choice) bool {
	_, banned := pl.banned[banKey{w, c.pool, c.mechanism}]
	return !banned
}

// arrange gives each workload the pool and mechanism with which the fleet costs
// least, a few workloads at a time, those with the fewest ways out first.
func (pl *planner) arrange() error {
	order := pl.order()
	few := 1
	switch n := len(order); {
	case n <= fewUpTo:
		few = fewWorkloads
	case n <= pairsUpTo:
		few = 2
	}
	for {
		pl.chosen = make([]*choice, len(pl.workloads))
		pl.placed = make([]int, len(pl.workloads))
		pl.full = make([]map[banKey]int, len(pl.workloads))
		pl.groups = map[groupKey]*group{}
		for at := 0; at < len(order); at += few {
			to := min(at+few, len(order))
			pl.coming = order[to:]
			if err := pl.settle(order[at:to]); err != nil {
				return err
			}
		}
		if pl.banLonely() {
			continue
		}
		if pl.evidence == nil {
			break
		}
		if again, err := pl.judge(); err != nil {
			return err
		} else if !again {
			break
		}
	}
	for _, key := range pl.groupKeys() {
		if g := pl.groups[key]; gate.TraitsOf(g.mechanism).Sliced {
			if err := g.repackSlices(); err != nil {
				return fmt.Errorf("decision: pool %q: %w", g.pool.pool.Name, err)
			}
		}
	}
	return pl.migrate()
}

func (pl *planner) order() []int {
	order := make([]int, len(pl.workloads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(pl.choices[a]), len(pl.choices[b])),
			cmp.Compare(pl.workloads[b].workload.gpus(), pl.workloads[a].workload.gpus()),
			cmp.Compare(pl.workloads[b].demand.Memory.Total, pl.workloads[a].demand.Memory.Total), cmp.Compare(a, b))
	})
	return order
}

// way is the best way found to place a set of workloads.
type way struct {
	cost  float64
	gpus  int // of one pool
	spot  int // of them those that may be spot
	score float64
	last  int // index of the part that was added
	sub   int // its workloads
}

func (a way) better(b way) bool {
	if math.Abs(a.cost-b.cost) > 1e-9*max(1, math.Abs(b.cost)) {
		return a.cost < b.cost
	}
	return a.score > b.score+1e-9
}

var nowhere = way{cost: math.Inf(1)}

// settle places a few workloads: over all ways to divide them among pools and
// mechanisms it takes the cheapest, the better score among equals. What finds
// no room is placed in part.
func (pl *planner) settle(ws []int) error {
	full := 1<<len(ws) - 1
	perPool := map[int][]groupKey{}
	for _, w := range ws {
		n := 0
		for k := range pl.choices[w] {
			c := &pl.choices[w][k]
			if !pl.open(w, c) || n >= mostCompared && c.mechanism != sharing.MechanismExclusive {
				continue
			}
			n++
			key := groupKey{c.pool, c.mechanism}
			if !slices.Contains(perPool[c.pool], key) {
				perPool[c.pool] = append(perPool[c.pool], key)
			}
		}
	}
	// Within a pool: the fewest GPUs for each set of workloads.
	type poolPlan struct {
		pool  int
		keys  []groupKey
		packs []map[int]packed
		ways  [][]way // by number of mechanisms considered, by set
	}
	var plans []poolPlan
	pools := make([]int, 0, len(perPool))
	for p := range perPool {
		pools = append(pools, p)
	}
	slices.Sort(pools)
	for _, p := range pools {
		pp := poolPlan{pool: p, keys: perPool[p]}
		slices.SortFunc(pp.keys, func(a, b groupKey) int { return cmp.Compare(a.mechanism, b.mechanism) })
		used, usedSpot := pl.used(p)
		already := pl.costOfGPUs(p, used, usedSpot)
		prev := make([]way, full+1)
		for s := 1; s <= full; s++ {
			prev[s] = nowhere
		}
		pp.ways = append(pp.ways, prev)
		for k, key := range pp.keys {
			packs := map[int]packed{}
			next := slices.Clone(prev)
			for s := 1; s <= full; s++ {
				for sub := s; sub > 0; sub = (sub - 1) & s {
					if math.IsInf(prev[s&^sub].cost, 1) {
						continue
					}
					pk, ok := packs[sub]
					if !ok {
						pk = pl.packSet(key, ws, sub)
						packs[sub] = pk
					}
					if pk.err != nil {
						return pk.err
					}
					if pk.group == nil {
						continue
					}
					before := 0
					if g := pl.groups[key]; g != nil {
						before = g.gpus()
					}
					v := way{gpus: prev[s&^sub].gpus + pk.gpus - before, spot: prev[s&^sub].spot + pl.spotGPUs(pk.group) - pl.spotGPUs(pl.groups[key]),
						score: prev[s&^sub].score, last: k, sub: sub}
					v.cost = pl.costOfGPUs(p, used+v.gpus, usedSpot+v.spot) - already
					for i, w := range ws {
						if sub>>i&1 == 1 {
							v.score += pl.choice(w, key).score * float64(pl.workloads[w].workload.replicas())
							if key.mechanism != sharing.MechanismExclusive && pk.group.lonely(w) {
								v.score += pl.lonelyWorth(w, key)
							}
							if gate.TraitsOf(key.mechanism).Turns && pl.waits(w) {
								v.score -= turnsCost
							}
						}
					}
					if used+v.gpus <= pl.pools[p].pool.Count && v.better(next[s]) {
						next[s] = v
					}
				}
			}
			pp.packs = append(pp.packs, packs)
			pp.ways = append(pp.ways, next)
			prev = next
		}
		plans = append(plans, pp)
	}
	// Across pools: the cheapest way for each set; leaving a workload out costs
	// more than anything.
	all := make([][]way, len(plans)+1)
	all[0] = make([]way, full+1)
	for s := 1; s <= full; s++ {
		v := way{}
		for i, w := range ws {
			if s>>i&1 == 1 {
				v.cost += dropped * float64(pl.workloads[w].workload.replicas())
			}
		}
		all[0][s] = v
	}
	for k, pp := range plans {
		last := pp.ways[len(pp.ways)-1]
		all[k+1] = slices.Clone(all[k])
		for s := 1; s <= full; s++ {
			all[k+1][s].sub = 0
			for sub := s; sub > 0; sub = (sub - 1) & s {
				in := last[sub]
				if math.IsInf(in.cost, 1) {
					continue
				}
				v := way{cost: all[k][s&^sub].cost + in.cost, score: all[k][s&^sub].score + in.score, sub: sub}
				if v.better(all[k+1][s]) {
					all[k+1][s] = v
				}
			}
		}
	}
	take := func(set int) error {
		for k := len(plans) - 1; k >= 0; k-- {
			sub := all[k+1][set].sub
			set &^= sub
			pp := plans[k]
			for m := len(pp.keys); sub > 0 && m > 0; m-- {
				v := pp.ways[m][sub]
				if pp.ways[m-1][sub] == v {
					continue
				}
				key := pp.keys[v.last]
				pl.groups[key] = pp.packs[v.last][v.sub].group
				for i, w := range ws {
					if v.sub>>i&1 == 1 {
						pl.chosen[w] = pl.choice(w, key)
						pl.placed[w] = pl.workloads[w].workload.replicas()
					}
				}
				sub &^= v.sub
			}
		}
		for _, w := range ws {
			if pl.chosen[w] == nil {
				if err := pl.inPart(w); err != nil {
					return err
				}
			}
		}
		return nil
	}
	last := all[len(plans)]
	if last[full].cost < dropped {
		return take(full)
	}
	return pl.scarce(ws, func(set int) bool { return last[set].cost < dropped }, take)
}

// lonelyCosts keeps workloads that meet nobody from a mechanism that shares,
// where a GPU of their own costs the same.
const lonelyCosts = 1e6

// lonelyWorth is what it counts for that a workload meets nobody yet where GPUs
// are shared: against it, unless workloads that come later may join it.
func (pl *planner) lonelyWorth(w int, key groupKey) float64 {
	for _, other := range pl.coming {
		if c := pl.choice(other, key); c != nil && pl.open(other, c) && (gate.TraitsOf(key.mechanism).Sliced || pl.mayPair(w, other)) {
			return lonelyCosts
		}
	}
	return -lonelyCosts
}

// turnsCost keeps servers with latency objectives from taking turns where another
// mechanism costs the same: a turn lasts milliseconds.
const turnsCost = 1e4

// waits says whether somebody waits for a workload's answers.
func (pl *planner) waits(w int) bool {
	cw := pl.workloads[w]
	return cw.arch.LatencyBound && cw.workload.SLO != (predict.SLO{})
}

// lonely says whether a workload shares none of the group's GPUs.
func (g *group) lonely(w int) bool {
	for i := range g.sliced {
		if s := &g.sliced[i]; len(s.members) > 1 && slices.ContainsFunc(s.members, func(m member) bool { return m.workload == w }) {
			return false
		}
	}
	for i := range g.bins {
		if b := &g.bins[i]; b.n > 1 && slices.ContainsFunc(b.members, func(m member) bool { return m.workload == w }) {
			return false
		}
	}
	return true
}

// packSet packs the workloads of a set into a group; the zero packed where one
// of them has no such choice.
func (pl *planner) packSet(key groupKey, ws []int, set int) packed {
	who := make([]member, 0, bits.OnesCount(uint(set)))
	for i, w := range ws {
		if set>>i&1 == 0 {
			continue
		}
		c := pl.choice(w, key)
		if c == nil || !pl.open(w, c) {
			return packed{}
		}
		who = append(who, member{w, pl.workloads[w].workload.replicas()})
	}
	return pl.pack(key, pl.groups[key], who)
}

// inPart places as many replicas of a workload as the pools have room for, on
// the choice that takes most of them, the cheapest among equals.
func (pl *planner) inPart(w int) error {
	replicas := pl.workloads[w].workload.replicas()
	var best *choice
	var bestPack packed
	most := 0
	for i := range pl.choices[w] {
		c := &pl.choices[w][i]
		if !pl.open(w, c) {
			continue
		}
		key := groupKey{c.pool, c.mechanism}
		others := 0
		for k, g := range pl.groups {
			if k.pool == c.pool && k != key {
				others += g.gpus()
			}
		}
		var err error
		var at packed
		low, high := 0, replicas
		for low < high {
			n := (low + high + 1) / 2
			pk := pl.pack(key, pl.groups[key], []member{{w, n}})
			if pk.err != nil {
				err = pk.err
				break
			}
			if others+pk.gpus <= pl.pools[c.pool].pool.Count {
				low, at = n, pk
			} else {
				high = n - 1
			}
		}
		if err != nil {
			return err
		}
		if low > most {
			best, bestPack, most = c, at, low
		}
		if pl.full[w] == nil {
			pl.full[w] = map[banKey]int{}
		}
		if pk := pl.pack(key, pl.groups[key], []member{{w, replicas}}); pk.err == nil && others+pk.gpus > pl.pools[c.pool].pool.Count {
			pl.full[w][banKey{w, c.pool, c.mechanism}] = others + pk.gpus
		}
	}
	if best != nil {
		pl.chosen[w], pl.placed[w] = best, most
		pl.groups[groupKey{best.pool, best.mechanism}] = bestPack.group
	}
	return nil
}
