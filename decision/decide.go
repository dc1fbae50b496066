package decision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Options tune Decide. The zero value is the documented default.
type Options struct {
	// MaxPoolsListed is the number of pools up to which every mechanism on every pool stands among the candidates;
	// with more pools each mechanism is listed once, on the pool that was chosen or suits best. 0 means 16.
	MaxPoolsListed int
	// Profiles are measurements of workloads alone. Workloads that name one (profile) are predicted beside their
	// neighbours, and their objectives judged by that. nil = no evidence.
	Profiles *profile.Profiles
	// Predictor predicts from Profiles; nil means NewPredictor's.
	Predictor *predict.Predictor
	// Confidence is the least probability with which a decision keeps objectives, 0.5 to
	// 0.999; 0 means DefaultConfidence.
	Confidence float64
	// Input is the fleet's file, as commands and advice in the answers name it; empty: they say "the fleet file".
	Input string
	// Headroom is the memory that layouts leave free; nil means DefaultHeadroom.
	Headroom *Headroom
	// Brief leaves out of the answer what would be the case otherwise (with more GPUs, less confidence, another
	// delivery), and searches less for the best arrangement.
	Brief bool

	ctx context.Context // of Decide
}

// err says why deciding is to end.
func (o *Options) err() error {
	if o.ctx == nil {
		return nil
	}
	return o.ctx.Err()
}

// choice is a candidate that could be taken.
type choice struct {
	pool      int
	mechanism sharing.Mechanism
	slice     *gate.MIGSlice // of MIG
	tenants   int            // that the mechanism offers
	fits      int            // that are like it and keep their objectives together
	score     float64
	// preference is the score with what its pool's price adds, of 100; it orders candidates of different pools.
	preference float64
	unit       float64        // what a replica costs where its GPU is full
	answer     sharing.Answer // whether it keeps its objectives there
	smaller    *gate.MIGSlice // of MIG: the largest that holds it and misses something
}

// planner holds a fleet while it is being decided.
type planner struct {
	opt       Options
	pools     []*CompiledPool
	workloads []*CompiledWorkload
	trust     *trustClasses
	among     Trust       // of workloads without a tenant
	choices   [][]choice  // by workload, best first
	bonus     [][]float64 // by workload and pool, see poolBonus
	// listed has each workload's candidates as they are shown; with more pools than are listed it is empty, and
	// fallback has the best of each mechanism among those that do not pass.
	listed   [][]listing
	fallback []*[sharing.MechanismCount]standing
	banned   map[banKey]gate.Reason
	evidence *evidence // nil without profiles
	chosen   []*choice
	coming   []int            // workloads that are still to be arranged
	full     []map[banKey]int // by workload: pools that were full, with the GPUs wanted
	groups   map[groupKey]*group
	mixes    map[groupKey]*mix
	// migrations are by pool, nil where no layouts are given.
	migrations []*Migration
	placed     []int // by workload: replicas
	alike      []int // by pool: the first pool with the same GPU
	outlooks   map[outlookKey]*outlook
	seen       map[string]prospects
	simulated  int // arrangements of a GPU
	search     Search
	rounds     int        // of a search
	roomDoes   bool       // a search ends when all have room, whatever it costs
	asked      int        // workloads, over how many replicas their load would do
	imaginary  bool       // has no alternatives of its own
	daring     bool       // takes whatever may keep its objectives; see gamble
	gambles    [][]choice // by workload: choices that keep its objectives in part of what may be the case
}

type banKey struct {
	workload, pool int
	mechanism      sharing.Mechanism
}

type groupKey struct {
	pool      int
	mechanism sharing.Mechanism
}

// Decide answers for the whole fleet. The fleet is validated first; its error names every problem. A workload that
// fits nowhere is not an error: it gets mechanism none and all its reasons. The result depends on the fleet's
// content only, not on its order. When ctx ends it returns its error.
func Decide(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	opt.ctx = ctx
	if f == nil {
		return nil, errors.New("decision: the fleet is nil")
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if opt.Confidence == 0 {
		opt.Confidence = DefaultConfidence
	}
	if !(opt.Confidence >= 0.5 && opt.Confidence <= 0.999) {
		return nil, fmt.Errorf("decision: confidence %v is out of range; use 0.5 to 0.999", opt.Confidence)
	}
	if opt.Headroom == nil {
		opt.Headroom = &DefaultHeadroom
	}
	if opt.MaxPoolsListed <= 0 {
		opt.MaxPoolsListed = 16
	}
	n := rounds
	if opt.Brief {
		n = 1
	}
	pl, err := planFleet(f, opt, n)
	if err != nil {
		return nil, err
	}
	r, err := pl.result()
	if err != nil {
		return nil, err
	}
	if opt.Brief || len(f.Workloads) > relaxedUpTo || len(pl.seen) > relaxedSeen {
		return r, nil
	}
	if r, err = r.assure(f, opt); err != nil {
		return nil, err
	}
	if r.MoreGPUs, err = r.together(f, opt); err != nil {
		return nil, err
	}
	if err := pl.installing(f, r); err != nil {
		return nil, err
	}
	return r, r.relax(f, opt)
}

// planFleet arranges a fleet that is valid, with so many rounds of a search where there is one.
func planFleet(f *Fleet, opt Options, rounds int) (*planner, error) {
	pl, err := newPlan(f, opt, rounds)
	if err != nil {
		return nil, err
	}
	err = pl.plan(f.Trust)
	return pl, errors.Join(opt.err(), err)
}

// newPlan is a fleet before it is arranged.
func newPlan(f *Fleet, opt Options, rounds int) (*planner, error) {
	pl := newPlanner(opt)
	pl.rounds = rounds
	for i := range f.Pools {
		p, err := CompilePool(&f.Pools[i])
		if err != nil {
			return nil, err
		}
		pl.pools = append(pl.pools, p)
	}
	pl.workloads = compiled(f.Workloads)
	slices.SortFunc(pl.pools, func(a, b *CompiledPool) int { return cmp.Compare(a.pool.Name, b.pool.Name) })
	if opt.Profiles != nil {
		var err error
		if pl.evidence, err = newEvidence(f, pl.workloads, opt); err != nil {
			return nil, err
		}
	}
	return pl, nil
}

// compiled are workloads in an order that depends on what they ask for, and on names only between those that ask
// for the same: ties between arrangements are broken by it, and a name must not decide about one.
func compiled(workloads []Workload) []*CompiledWorkload {
	type keyed struct {
		key string
		cw  *CompiledWorkload
	}
	all := make([]keyed, len(workloads))
	for i := range workloads {
		nameless := workloads[i]
		nameless.Name = ""
		var key strings.Builder
		writeContent(&key, reflect.ValueOf(nameless))
		all[i] = keyed{key.String(), CompileWorkload(&workloads[i])}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.cw.workload.Name, b.cw.workload.Name))
	})
	out := make([]*CompiledWorkload, len(all))
	for i := range all {
		out[i] = all[i].cw
	}
	return out
}

// writeContent writes what a value holds, and what it points to.
func writeContent(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			writeContent(b, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			writeContent(b, v.Field(i))
			b.WriteByte('|')
		}
	default:
		fmt.Fprint(b, v) // maps in the order of their keys
	}
}

func newPlanner(opt Options) *planner {
	return &planner{opt: opt, banned: map[banKey]gate.Reason{},
		outlooks: map[outlookKey]*outlook{}, seen: map[string]prospects{}, rounds: rounds}
}

// plan finds what each workload could take and arranges the fleet.
func (pl *planner) plan(trust Trust) error {
	pl.prepare()
	pl.among, pl.trust = trust, classify(pl.workloads, trust)
	pl.evaluate()
	pl.weigh()
	return pl.arrange()
}

func (pl *planner) neighbours(w, p int) gate.Neighbours {
	return pl.trust.neighbours(w, pl.workloads[w], pl.pools[p].pool.Name)
}

// evaluate collects what each workload could take, best first, and what is to be said of it.
func (pl *planner) evaluate() {
	n := len(pl.workloads)
	pl.choices, pl.bonus = make([][]choice, n), make([][]float64, n)
	pl.listed, pl.fallback = make([][]listing, n), make([]*[sharing.MechanismCount]standing, n)
	seen := make([][sharing.MechanismCount]standing, len(pl.pools))
	var ev Evaluation
	for w, cw := range pl.workloads {
		each := make([]float64, len(pl.pools)) // price of a replica under the pool's best candidate, 0 = none
		for p, cp := range pl.pools {
			Evaluate(cw, cp, pl.neighbours(w, p), &ev)
			for i := range ev.Candidates {
				c := &ev.Candidates[i]
				seen[p][c.Mechanism] = standingOf(p, c)
				if c.Verdict == gate.VerdictPass {
					pl.choices[w] = append(pl.choices[w], choice{pool: p, mechanism: c.Mechanism, slice: c.Slice(),
						tenants: c.Tenants, score: c.Score})
					seen[p][c.Mechanism].severity = unranked
				}
			}
			if best := ev.foremost(); best != nil && cp.priced {
				each[p] = float64(pl.rate(w, cp).Micros()) / float64(best.Tenants)
			}
			if len(pl.pools) <= pl.opt.MaxPoolsListed {
				pl.list(w, p, &ev)
			}
		}
		pl.bonus[w] = poolBonus(each, cw.weights[CriterionCost])
		for i := range pl.choices[w] {
			c := &pl.choices[w][i]
			c.preference = pl.preferenceOf(w, c.pool, c.score)
		}
		slices.SortFunc(pl.choices[w], compareChoices)
		if len(pl.pools) > pl.opt.MaxPoolsListed {
			pl.fallback[w] = bestOf(seen, pl.bonus[w])
		}
	}
}

// poolBonus is the part that a pool's price adds to the scores of its candidates, the same for all of them, so that
// prices decide between pools and not between the mechanisms of one: 0 for the pool where a replica is dearest, up
// to the whole weight of the cost criterion.
func poolBonus(each []float64, weight float64) []float64 {
	bonus := make([]float64, len(each))
	dearest := slices.Max(each)
	for p, e := range each {
		if e > 0 && dearest > 0 {
			bonus[p] = 100 * weight * (1 - e/dearest)
		}
	}
	return bonus
}

// preferenceOf is a score on a pool and its price's bonus, brought back to a scale of 100.
func (pl *planner) preferenceOf(w, pool int, score float64) float64 {
	return (score + pl.bonus[w][pool]) / (1 + slices.Max(pl.bonus[w])/100)
}

func compareChoices(a, b choice) int {
	return cmp.Or(cmp.Compare(b.preference, a.preference), cmp.Compare(a.mechanism, b.mechanism),
		cmp.Compare(a.pool, b.pool))
}

// banLonely bans the choices of groups in which every GPU has one tenant, and
// says whether there were any that have another way.
func (pl *planner) banLonely() bool {
	found := false
	for _, key := range pl.groupKeys() {
		g := pl.groups[key]
		if key.mechanism == sharing.MechanismExclusive || g.busiest() > 1 {
			continue
		}
		for w, c := range pl.chosen {
			if c == nil || c.pool != key.pool || c.mechanism != key.mechanism || !pl.hasOther(w, c) {
				continue
			}
			pl.banned[banKey{w, c.pool, c.mechanism}] = gate.Reason{Code: gate.CodeAlone, Verdict: gate.VerdictReject}
			found = true
		}
	}
	return found
}

func (pl *planner) hasOther(w int, not *choice) bool {
	for i := range pl.choices[w] {
		c := &pl.choices[w][i]
		key := banKey{w, c.pool, c.mechanism}
		_, banned := pl.banned[key]
		if c != not && !banned && pl.full[w][key] == 0 {
			return true
		}
	}
	return false
}

// busiest is the largest number of tenants on one of the group's GPUs.
func (g *group) busiest() int {
	n := 0
	for i := range g.bins {
		n = max(n, g.bins[i].n)
	}
	for i := range g.sliced {
		n = max(n, len(g.sliced[i].members))
	}
	return n
}

func (pl *planner) groupKeys() []groupKey {
	keys := make([]groupKey, 0, len(pl.groups))
	for k := range pl.groups {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.mechanism, b.mechanism))
	})
	return keys
}

// prepare lets consequences decide where the gates would guess: what is not stated is assumed, and said so.
func (pl *planner) prepare() {
	for p, cp := range pl.pools {
		first := p
		for q := range p {
			if pl.pools[q].ground.GPU() == cp.ground.GPU() {
				first = q
				break
			}
		}
		pl.alike = append(pl.alike, first)
	}
	for w, cw := range pl.workloads {
		d := &cw.demand
		// Without its latency alone an objective can't be computed, and what the gates know of the kind decides.
		d.Predicted = true
		for k, limit := range seconds(cw.workload.SLO) {
			d.Predicted = d.Predicted && (limit == 0 || seconds(cw.workload.Solo)[k] > 0 || pl.serves(cw.workload))
		}
		d.Predicted = d.Predicted || pl.named(w)
		if busy, ok := pl.busyMeasured(w); ok && cw.workload.GPUBusy.IsZero() {
			d.Busy, d.BusyBasis = busy, gate.BusyFromLoad
		} else if d.BusyBasis == gate.BusyUnknown {
			d.Busy, d.BusyBasis = priorBusy, gate.BusyPrior
		}
		if d.BusyBasis == gate.BusyPrior && pl.serves(cw.workload) {
			d.BusyBasis = gate.BusyFromLoad
		}
	}
}
