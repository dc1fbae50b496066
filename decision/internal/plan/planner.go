// SPDX-License-Identifier: Apache-2.0

// Package plan arranges a fleet on its pools. It enumerates the choices of each workload (filter and score), drops
// those predicted to miss an objective, and looks for the cheapest arrangement of all together by simulated annealing
// over destroy-and-repair (Shaw 1998; Ropke and Pisinger 2006), with exact packing of MIG instances. Package decision
// writes its answers for users.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/score"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Options tune Decide. The zero value is the documented default.
type Options struct {
	// Profiles are measurements of isolated workloads. The latencies of workloads that name one (profile) are predicted
	// from it, with their neighbours. nil = no evidence.
	Profiles *profile.Profiles
	// Predictor predicts from Profiles; nil means NewPredictor's.
	Predictor *predict.Predictor
	// Confidence is the least probability with which a decision keeps objectives, 0.5 to 0.999; 0 means DefaultConfidence.
	Confidence float64
	// Input is the fleet's file, as commands and advice in the answers name it; empty: they say "the fleet file".
	Input string
	// Headroom is the memory that layouts leave free; nil means DefaultHeadroom.
	Headroom *Headroom
	// Allow holds mechanisms that every pool may use as if their delivery were installed there, whatever mechanisms and
	// delivery the pool states. A GPU without hardware support for one still does not get it.
	Allow []sharing.Mechanism
	// Running is set for a cluster that runs: GPUs that are paid for in any case stay free where others have room, so that
	// a node may become empty, and the best arrangement is searched for less. Otherwise work takes GPUs that are paid for
	// wherever it runs faster so.
	Running bool

	ctx context.Context // of Decide
}

var errOptions = errors.New("decision: options")

// Prepare checks options and the fleet that they are for, and fills in the defaults.
func (o *Options) Prepare(ctx context.Context, f *fleet.Fleet) error {
	o.ctx = ctx
	if f == nil {
		return errors.New("decision: the fleet is nil")
	}
	if err := errors.Join(f.Validate(), problem.Under(errOptions, o.Check())); err != nil {
		return err
	}
	o.Confidence, o.Headroom = cmp.Or(o.Confidence, DefaultConfidence), cmp.Or(o.Headroom, &DefaultHeadroom)
	return nil
}

// Check returns every problem of the options in one error.
func (o *Options) Check() error {
	var l problem.List
	confidence := cmp.Or(o.Confidence, DefaultConfidence)
	l.If(!(confidence >= 0.5 && confidence <= 0.999), "confidence", "use 0.5 to 0.999", "%v is out of range", confidence)
	h := cmp.Or(o.Headroom, &DefaultHeadroom)
	l.If(!(h.Driver >= 0 && h.Driver < 1), "headroom.driver", "use 0 or more, below 1", "%v is out of range", h.Driver)
	l.If(!(h.Fragmentation >= 0 && h.Fragmentation <= 1), "headroom.fragmentation", "use 0 to 1", "%v is out of range",
		h.Fragmentation)
	for i, m := range o.Allow {
		switch m {
		case sharing.MechanismNone, sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismResearch:
			l.Addf(fmt.Sprintf("allow[%d]", i), "name one that is installed, such as hami", "nothing delivers %s", m)
		}
	}
	return l.Err()
}

// Err returns the error of the context of Decide.
func (o *Options) Err() error {
	if o.ctx == nil {
		return nil
	}
	return o.ctx.Err()
}

// Choice is a candidate that could be taken.
type Choice struct {
	GroupKey
	Slice   *filter.MIGSlice // of MIG
	Tenants int              // that the mechanism offers
	Fits    int              // that are like it and keep their objectives together
	Score   float64
	Unit    float64          // cost of a replica on a full GPU
	Longer  float64          // added cost of its work, which is slower than on the fastest GPU
	Answer  sharing.Answer   // whether it keeps its objectives there
	Smaller *filter.MIGSlice // of MIG: the largest that holds it and misses something
}

// Planner holds a fleet while it is being decided.
type Planner struct {
	Opt       Options
	Pools     []*score.CompiledPool
	Workloads []*score.CompiledWorkload
	Trust     *trustClasses
	Among     fleet.Trust                  // of workloads without a tenant
	Choices   [][]Choice                   // by workload, best first
	Banned    []map[GroupKey]filter.Reason // by workload: why a choice can't be taken
	Evidence  *evidence                    // nil without profiles
	Chosen    []*Choice
	// Wanted are the replicas to place of each workload. Those for which there is no room where the others are form parts:
	// workloads of their own after the Asked ones that the fleet has. part has the workload of each.
	Wanted    []int
	Asked     int
	part      []int
	on        []*sharing.GPU     // by workload: where figures without a stated GPU were measured
	Full      []map[GroupKey]int // by workload: pools without room for the others, with the GPUs wanted
	Groups    map[GroupKey]*Group
	Placed    []int // by workload: replicas
	alike     []int // by pool: the first pool with the same GPU
	estimates map[estimateKey]*estimate
	Seen      map[string]Prediction
	sites     []sites // by pool
	rounds    int     // of a search
	// Least is by pool the part of its isolated rate that work without objectives must keep there.
	Least []float64
}

// GroupKey names a group: the index of a pool and the mechanism that some of its GPUs run.
type GroupKey struct {
	Pool      int
	Mechanism sharing.Mechanism
}

// PlanFleet arranges a fleet that is valid, with so many rounds of a search where there is one.
func PlanFleet(f *fleet.Fleet, opt Options, rounds int) (*Planner, error) {
	pl, err := NewPlan(f, opt, rounds)
	if err != nil {
		return nil, err
	}
	return pl, pl.Plan(f.Trust)
}

// NewPlan is a fleet before it is arranged.
func NewPlan(f *fleet.Fleet, opt Options, rounds int) (*Planner, error) {
	pl := &Planner{Opt: opt, estimates: map[estimateKey]*estimate{}, Seen: map[string]Prediction{}, rounds: rounds}
	for i := range f.Pools {
		p, err := score.CompilePool(&f.Pools[i], opt.Allow...)
		if err != nil {
			return nil, err
		}
		pl.Pools = append(pl.Pools, p)
	}
	pl.Workloads, pl.Asked = compiled(f.Workloads), len(f.Workloads)
	for w, cw := range pl.Workloads {
		pl.part, pl.Wanted = append(pl.part, w), append(pl.Wanted, cw.Workload().ReplicaCount())
	}
	slices.SortFunc(pl.Pools, func(a, b *score.CompiledPool) int { return cmp.Compare(a.Pool.Name, b.Pool.Name) })
	for _, cp := range pl.Pools {
		pl.sites = append(pl.sites, newSites(cp))
	}
	pl.on = pl.figuresOn(f)
	if opt.Profiles != nil {
		var err error
		if pl.Evidence, err = newEvidence(f, pl.Workloads, opt); err != nil {
			return nil, err
		}
	}
	return pl, nil
}

// compiled returns the workloads in the order by which ties between arrangements are broken, the first preferred: those
// that run today, the larger before the smaller, and by names where demands are about the same.
func compiled(workloads []fleet.Workload) (out []*score.CompiledWorkload) {
	memory, busy := map[float64]int{}, map[float64]int{}
	for i := range workloads {
		w := score.CompileWorkload(&workloads[i])
		memory[float64(w.Demand().Memory.Total)], busy[w.Demand().Busy] = 0, 0
		out = append(out, w)
	}
	rank(memory)
	rank(busy)
	without := map[bool]int{true: 1}
	slices.SortFunc(out, func(a, b *score.CompiledWorkload) int {
		v, w := a.Workload(), b.Workload()
		return cmp.Or(without[v.Today == nil]-without[w.Today == nil], cmp.Compare(w.GPUCount(), v.GPUCount()),
			memory[float64(b.Demand().Memory.Total)]-memory[float64(a.Demand().Memory.Total)],
			busy[b.Demand().Busy]-busy[a.Demand().Busy], cmp.Compare(w.ReplicaCount(), v.ReplicaCount()),
			cmp.Compare(v.Kind, w.Kind), cmp.Compare(v.Tenant, w.Tenant), cmp.Compare(v.Name, w.Name))
	})
	return out
}

// rank numbers figures from the smallest, and gives those one number that lie within 4.2% of the next smaller: of equal
// workloads, figures that are 2% off either way must not decide which one gets the last GPU.
func rank(figures map[float64]int) {
	n, last := 0, 0.0
	for _, v := range slices.Sorted(maps.Keys(figures)) {
		if v > last*1.042 {
			n++
		}
		figures[v], last = n, v
	}
}

// Neighbours counts the replicas that could share a GPU of pool p with one of workload w's, both by index.
func (pl *Planner) Neighbours(w, p int) filter.Neighbours {
	return pl.Trust.Neighbours(w, pl.Workloads[w], pl.Pools[p].Pool.Name)
}

// evaluate collects the choices of each workload, best first.
func (pl *Planner) evaluate() {
	pl.Choices, pl.Banned = make([][]Choice, pl.Asked), make([]map[GroupKey]filter.Reason, pl.Asked)
	pl.unite()
	var c score.Scored
	for w, cw := range pl.Workloads {
		for p, cp := range pl.Pools {
			for _, m := range sharing.Mechanisms() {
				if score.Evaluate(cw, cp, pl.Neighbours(w, p), m, &c); c.Verdict == filter.VerdictPass {
					pl.Choices[w] = append(pl.Choices[w], Choice{GroupKey: GroupKey{p, c.Mechanism}, Slice: c.Slice(),
						Tenants: c.Tenants, Score: c.Score})
				}
			}
		}
		slices.SortFunc(pl.Choices[w], compareChoices)
	}
}

func compareChoices(a, b Choice) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.Pool, b.Pool))
}

// busiest is the largest number of tenants on one of the group's GPUs.
func (g *Group) busiest() int {
	n := 0
	for i := range g.Bins {
		n = max(n, g.Bins[i].n)
	}
	for i := range g.Sliced {
		n = max(n, len(g.Sliced[i].Members))
	}
	return n
}

// GroupKeys returns the keys of the groups there are, by pool and then by mechanism.
func (pl *Planner) GroupKeys() []GroupKey {
	return slices.SortedFunc(maps.Keys(pl.Groups), func(a, b GroupKey) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Mechanism, b.Mechanism))
	})
}

// Prepare fills in demands that are not stated: predictions from assumptions decide, and answers list the assumptions.
func (pl *Planner) Prepare() {
	for _, cp := range pl.Pools {
		same := func(o *score.CompiledPool) bool { return o.Target().GPU() == cp.Target().GPU() }
		pl.alike = append(pl.alike, slices.IndexFunc(pl.Pools, same))
	}
	for w, cw := range pl.Workloads {
		d := cw.Demand()
		// Without its isolated latency an objective can't be predicted, and the filter's facts of the kind decide.
		d.Predicted = true
		for k, limit := range seconds(cw.Workload().SLO) {
			d.Predicted = d.Predicted && (limit == 0 || seconds(cw.Workload().Solo)[k] > 0 || pl.Serves(cw.Workload()) ||
				cw.Workload().Service != nil)
		}
		d.Predicted = d.Predicted || pl.Named(w)
		if busy, ok := pl.busyMeasured(w); ok && cw.Workload().GPUBusy.IsZero() {
			d.Busy, d.BusyBasis = busy, filter.BusyFromLoad
		} else if d.BusyBasis == filter.BusyUnknown {
			d.Busy, d.BusyBasis = priorBusy, filter.BusyPrior
		}
		if d.BusyBasis == filter.BusyPrior && (pl.Serves(cw.Workload()) || cw.Workload().Service != nil) {
			d.BusyBasis = filter.BusyFromLoad
		}
	}
}
