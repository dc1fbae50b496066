package decision

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Fleets of which not every division is compared are arranged from many starts,
// and the best is improved: a few workloads at a time leave their places and come
// back in another order. What asks for more hardly ever finds a better place by
// that, but nothing proves it.
const (
	improvedUpTo = 40 // workloads
	starts       = 24
	leaving      = 5   // workloads, at most
	patience     = 500 // tries in a row that find nothing better
	mostTries    = 4000
	mostPacked   = 60_000 // times that a group is packed: a second or two
)

// arranged is where all workloads stand, and what that is worth.
type arranged struct {
	chosen []*choice
	placed []int
	groups map[groupKey]*group

	replicas, whole int
	cost, score     float64
}

// stand is where workloads stand now.
func (pl *planner) stand() *arranged {
	s := &arranged{chosen: slices.Clone(pl.chosen), placed: slices.Clone(pl.placed), groups: maps.Clone(pl.groups)}
	for w, n := range pl.placed {
		s.replicas += n
		if n == pl.workloads[w].workload.replicas() {
			s.whole++
		}
		c := pl.chosen[w]
		if c == nil {
			continue
		}
		s.score += c.score * float64(n)
		if c.mechanism != sharing.MechanismExclusive && pl.groups[groupKey{c.pool, c.mechanism}].lonely(w) {
			s.score -= lonelyCosts
		}
		if gate.TraitsOf(c.mechanism).Turns && pl.waits(w) {
			s.score -= turnsCost
		}
	}
	for p := range pl.pools {
		gpus, spot := pl.used(p)
		s.cost += pl.costOfGPUs(p, gpus, spot)
	}
	return s
}

// back puts workloads where they stood.
func (pl *planner) back(s *arranged) {
	pl.chosen, pl.placed, pl.groups = slices.Clone(s.chosen), slices.Clone(s.placed), maps.Clone(s.groups)
}

// compare is positive where s is to be preferred: more replicas, then less money.
func (s *arranged) compare(t *arranged) int {
	byCost := 0
	if cheaper(s.cost, t.cost) {
		byCost = 1
	} else if cheaper(t.cost, s.cost) {
		byCost = -1
	}
	return cmp.Or(cmp.Compare(s.replicas, t.replicas), byCost)
}

// better says whether s is to be preferred, among equals by workloads that are
// whole and by score.
func (s *arranged) better(t *arranged) bool {
	byScore := 0
	if d := s.score - t.score; d > 1e-6 {
		byScore = 1
	} else if d < -1e-6 {
		byScore = -1
	}
	return cmp.Or(s.compare(t), cmp.Compare(s.whole, t.whole), byScore) > 0
}

// improve looks for a better arrangement than the present one, and takes it.
func (pl *planner) improve() error {
	rng := rand.New(rand.NewPCG(1, 2)) // same input, same answer
	best := pl.stand()
	pl.coming = nil
	until := pl.packed + mostPacked
	for range starts {
		if pl.packed > until {
			break
		}
		pl.clear()
		if err := pl.enter(rng.Perm(len(pl.workloads))); err != nil {
			return err
		}
		if s := pl.stand(); s.better(best) {
			best = s
		}
	}
	pl.back(best)
	at := best
	for tries, idle := 0, 0; idle < patience && tries < mostTries && pl.packed < until; tries++ {
		ws := pl.some(rng, 1+rng.IntN(leaving))
		for _, w := range ws {
			pl.lift(w)
			pl.chosen[w], pl.placed[w] = nil, 0
		}
		if rng.IntN(2) == 0 {
			ws = pl.lacking() // those that had no place may go first
		}
		rng.Shuffle(len(ws), func(i, j int) { ws[i], ws[j] = ws[j], ws[i] })
		if err := pl.enter(append(ws, pl.lacking()...)); err != nil {
			return err
		}
		now := pl.stand()
		idle++
		switch {
		case now.better(best):
			best, at, idle = now, now, 0
		case at.compare(now) > 0:
			pl.back(at)
		default: // as good: from there other ways may be open
			at = now
		}
	}
	pl.back(best)
	pl.full = make([]map[banKey]int, len(pl.workloads)) // as it was on the way
	return pl.enter(pl.lacking())
}

// enter places workloads one after another, each where most of its replicas find
// room, at the least cost.
func (pl *planner) enter(ws []int) error {
	for _, w := range ws {
		if err := pl.inPart(w); err != nil {
			return err
		}
	}
	return nil
}

// lacking are the workloads that have not all their replicas placed.
func (pl *planner) lacking() (ws []int) {
	for w := range pl.workloads {
		if pl.placed[w] < pl.workloads[w].workload.replicas() && len(pl.choices[w]) > 0 {
			ws = append(ws, w)
		}
	}
	return ws
}

// some are up to n workloads that may take each other's place: all of a GPU's, or
// one, which lacks replicas more likely, and such as could go where it could.
func (pl *planner) some(rng *rand.Rand, n int) []int {
	if n > 1 && rng.IntN(2) == 0 {
		if ws := pl.oneGPU(rng, n); len(ws) > 0 {
			return ws
		}
	}
	first := rng.IntN(len(pl.workloads))
	if lacking := pl.lacking(); len(lacking) > 0 && rng.IntN(2) == 0 {
		first = lacking[rng.IntN(len(lacking))]
	}
	ws := []int{first}
	for _, w := range rng.Perm(len(pl.workloads)) {
		if len(ws) == n {
			break
		}
		if w != first && slices.ContainsFunc(pl.choices[w], func(c choice) bool {
			return slices.ContainsFunc(pl.choices[first], func(d choice) bool { return c.pool == d.pool })
		}) {
			ws = append(ws, w)
		}
	}
	return ws
}

// oneGPU are up to n of the workloads of a GPU that is shared.
func (pl *planner) oneGPU(rng *rand.Rand, n int) (ws []int) {
	var on [][]member
	for _, key := range pl.groupKeys() {
		g := pl.groups[key]
		for i := range g.bins {
			on = append(on, g.bins[i].members)
		}
		for i := range g.sliced {
			on = append(on, g.sliced[i].members)
		}
	}
	if len(on) == 0 {
		return nil
	}
	for _, m := range on[rng.IntN(len(on))] {
		if len(ws) < n && !slices.Contains(ws, m.workload) {
			ws = append(ws, m.workload)
		}
	}
	return ws
}
