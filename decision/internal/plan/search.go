// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/mig"
)

// placement counts the replicas that have a place, by priority.
type placement [fleet.Priorities]int32

// compare is positive where p places more replicas of the highest priority in which they differ.
func (p *placement) compare(o *placement) int {
	for k := len(p) - 1; k >= 0; k-- {
		if c := cmp.Compare(p[k], o[k]); c != 0 {
			return c
		}
	}
	return 0
}

// worth is a number of replicas of which those of higher priorities count somewhat more.
func (p *placement) worth() (sum float64) {
	for k, n := range p {
		sum += float64(n) * (1 + float64(k)/fleet.Priorities)
	}
	return sum
}

// placementOf counts placed replicas, by workload, by their priorities.
func (pl *Planner) placementOf(placed []int) (p placement) {
	for w, n := range placed {
		p[pl.Workloads[w].Workload().Precedence()] += int32(n)
	}
	return p
}

// search looks for a better arrangement than the present one.
type search struct {
	pl        *Planner
	rng       *rand.Rand
	sites     map[GroupKey]*shared
	ways      [][]wayIn // by workload: where it could go
	costs     []pricing // by pool
	parts     []pricing // likewise, with each GPU by itself
	guide     []pricing // one of the two, by which places are priced
	whole     bool      // some pools are bought in whole nodes
	evaluated int
	visited   int
	moving    // of a fit
	total     placement
	short     bool    // the best arrangement lacks room for some
	scale     float64 // weight of the dearest GPU
	tries     int     // of a round
	fill      int     // the pool that workloads enter first, as far as it has room; -1: the cheapest

	members []Member // of filling, with their name
	name    []byte
	gone    []bool // of leave, by workload
	leavers []int
	now     arranged // of round
}

// wayIn is a place that a workload could take.
type wayIn struct {
	c    *Choice
	site *shared // nil for GPUs of its own
}

// mostPlaces is the number of places among which a workload's replicas are divided at most.
const mostPlaces = 4

// stake is a number of a workload's replicas in one place.
type stake struct {
	way int16 // into its ways
	n   int32 // 0: there is none, and none after it
}

// arranged holds the places of all workloads, with the figures by which arrangements are compared.
type arranged struct {
	stakes [][mostPlaces]stake // by workload
	placed []int               // by workload: replicas
	gpus   [][]*filling        // by site
	loads  []load              // by pool
	parts  []load              // by site: of its pool's load

	replicas placement
	cost     float64 // of the nodes
	guided   float64 // by the search's guide
	// Tie-breakers:
	whole  int // workloads of which all replicas are placed
	places int
	slow   int // grade
	score  float64
}

func (a *arranged) copyFrom(b *arranged) {
	a.stakes, a.placed = append(a.stakes[:0], b.stakes...), append(a.placed[:0], b.placed...)
	a.gpus = slices.Grow(a.gpus[:0], len(b.gpus))[:len(b.gpus)]
	for i := range b.gpus {
		a.gpus[i] = append(a.gpus[i][:0], b.gpus[i]...)
	}
	a.loads, a.parts = append(a.loads[:0], b.loads...), append(a.parts[:0], b.parts...)
	a.replicas, a.cost, a.guided = b.replicas, b.cost, b.guided
	a.whole, a.places, a.slow, a.score = b.whole, b.places, b.slow, b.score
}

// add records that n more replicas of a workload are in one of its places.
func (a *arranged) add(w, way, n int) {
	a.placed[w] += n
	for i := range a.stakes[w] {
		if st := &a.stakes[w][i]; st.n == 0 || int(st.way) == way {
			st.way, st.n = int16(way), st.n+int32(n)
			return
		}
	}
}

// used counts a workload's places.
func (a *arranged) used(w int) (n int) {
	for n < mostPlaces && a.stakes[w][n].n > 0 {
		n++
	}
	return n
}

// compare is positive where a is to be preferred: more replicas, then less money.
func (a *arranged) compare(b *arranged) int {
	return cmp.Or(a.replicas.compare(&b.replicas), compareCosts(b.cost, a.cost))
}

// seconds compares the tie-breakers: positive where a is to be preferred to b.
func (a *arranged) seconds(b *arranged) int {
	byScore := 0
	if math.Abs(a.score-b.score) >= 1e-6 {
		byScore = cmp.Compare(a.score, b.score)
	}
	return cmp.Or(cmp.Compare(a.whole, b.whole), cmp.Compare(b.places, a.places), cmp.Compare(b.slow, a.slow), byScore,
		slices.Compare(a.placed, b.placed))
}

// filling is the content of a shared GPU: replicas of some workloads, or their instances where it is sliced. Equal
// contents are one value, which caches how many replicas of each workload still fit.
type filling struct {
	GPU  // its members are replicas, or instances, by workload
	site *shared
	cut  []mig.Count // of sliced ones: their instances
	slow int         // grade
	room []int16     // by workload: how many more, -1 = not worked out
}

// shared are GPUs of one pool that a mechanism shares.
type shared struct {
	key       GroupKey
	sliced    bool
	each      int // replicas of a workload that an instance holds
	index     int // among the sites
	class     siteClass
	spans     bool // nodes depend on more than the number of GPUs: see span
	domain    int  // of trust of its first workload
	apart     bool // there are others
	empty     *filling
	fillings  map[string]*filling
	instances map[string]int // of a profile that still come to some others, by both
}

// moving holds the replicas and spans that placing one workload adds.
type moving struct {
	joins []join
	spans []span
}

// join is replicas, or instances, that come to a GPU.
type join struct{ gpu, n int }

// entry tunes how a workload takes a way.
type entry struct {
	salt    uint64 // leaves out some GPUs; 0 = none
	commit  bool   // the replicas take their places
	endless bool   // the pool has GPUs without end
}
