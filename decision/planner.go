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
	"github.com/cotenant/cotenant/internal/enum"
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

// prepare checks options and the fleet that they are for, and fills in the defaults.
func (o *Options) prepare(ctx context.Context, f *Fleet) error {
	o.ctx = ctx
	if f == nil {
		return errors.New("decision: the fleet is nil")
	}
	if err := f.Validate(); err != nil {
		return err
	}
	o.Confidence = cmp.Or(o.Confidence, DefaultConfidence)
	if !(o.Confidence >= 0.5 && o.Confidence <= 0.999) {
		return fmt.Errorf("decision: confidence %v is out of range; use 0.5 to 0.999", o.Confidence)
	}
	o.Headroom = cmp.Or(o.Headroom, &DefaultHeadroom)
	if o.MaxPoolsListed <= 0 {
		o.MaxPoolsListed = 16
	}
	return nil
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
	groupKey
	slice   *gate.MIGSlice // of MIG
	tenants int            // that the mechanism offers
	fits    int            // that are like it and keep their objectives together
	score   float64
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
	among     Trust                      // of workloads without a tenant
	choices   [][]choice                 // by workload, best first
	bonus     [][]float64                // by workload and pool, see poolBonus
	banned    []map[groupKey]gate.Reason // by workload: why a choice can't be taken
	evidence  *evidence                  // nil without profiles
	chosen    []*choice
	coming    []int              // workloads that are still to be arranged
	full      []map[groupKey]int // by workload: pools that were full, with the GPUs wanted
	groups    map[groupKey]*group
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
	daring     bool       // takes whatever may keep its objectives; see gamble
	gambles    [][]choice // by workload: choices that keep its objectives in part of what may be the case
}

type groupKey struct {
	pool      int
	mechanism sharing.Mechanism
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

// imagined is a workload alone in some pools, to be planned without its profile. Of its arrangements some count as
// simulated already: where all do, closed forms must.
func (pl *planner) imagined(wl *Workload, simulated int, pools ...*CompiledPool) *planner {
	mini := newPlanner(pl.opt)
	mini.opt.Profiles = nil
	mini.simulated = simulated
	mini.pools, mini.workloads = pools, []*CompiledWorkload{CompileWorkload(wl)}
	return mini
}

func newPlanner(opt Options) *planner {
	return &planner{opt: opt,
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

// evaluate collects what each workload could take, best first.
func (pl *planner) evaluate() {
	n := len(pl.workloads)
	pl.choices, pl.bonus = make([][]choice, n), make([][]float64, n)
	pl.banned = make([]map[groupKey]gate.Reason, n)
	var ev Evaluation
	for w, cw := range pl.workloads {
		each := make([]float64, len(pl.pools)) // price of a replica under the pool's best candidate, 0 = none
		for p, cp := range pl.pools {
			Evaluate(cw, cp, pl.neighbours(w, p), &ev)
			for i := range ev.Candidates {
				c := &ev.Candidates[i]
				if c.Verdict == gate.VerdictPass {
					pl.choices[w] = append(pl.choices[w], choice{groupKey: groupKey{p, c.Mechanism}, slice: c.Slice(),
						tenants: c.Tenants, score: c.Score})
				}
			}
			if best := ev.foremost(); best != nil && cp.priced {
				each[p] = float64(pl.rate(w, cp).Micros()) / float64(best.Tenants)
			}
		}
		pl.bonus[w] = poolBonus(each, cw.weights[CriterionCost])
		for i := range pl.choices[w] {
			c := &pl.choices[w][i]
			c.preference = pl.preferenceOf(w, c.pool, c.score)
		}
		slices.SortFunc(pl.choices[w], compareChoices)
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
			pl.ban(w, c, gate.Reason{Code: gate.CodeAlone, Verdict: gate.VerdictReject})
			found = true
		}
	}
	return found
}

func (pl *planner) hasOther(w int, not *choice) bool {
	for i := range pl.choices[w] {
		c := &pl.choices[w][i]
		key := c.groupKey
		_, banned := pl.banned[w][key]
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

// Search tells how an arrangement was found. The zero value is SearchBestFound.
type Search uint8

// The searches.
const (
	// SearchBestFound compares many arrangements; there may be a better one, and a
	// fleet that asks for more may, seldom, be answered better.
	SearchBestFound Search = iota
	// SearchAll compares every way to divide the workloads among pools and mechanisms, in small fleets.
	SearchAll
)

var searchNames = enum.Of[Search](ErrUnknownName, "search", "best-found", "all")
