// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// Decide decides for the whole fleet. It validates the fleet first; the error names every problem. A workload that fits
// nowhere is not an error: it gets mechanism none with all reasons. The result depends only on the fleet's content, not
// on its order. When ctx ends, Decide returns ctx's error.
func Decide(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	f, chosen, err := ResolveReplicas(ctx, f, opt)
	if err != nil {
		return nil, err
	}
	r, err := decideStated(ctx, f, opt)
	if err == nil {
		r.Replicas = chosen
	}
	return r, err
}

// ResolveReplicas replaces replicas: auto by numbers, for callers that need them, such as manifests, and returns the
// choices. Each is the cheapest number for which Decide meets every objective, the smallest among equals: found for
// each workload in isolation, then varied by one in the whole fleet. A fleet without auto is returned unchanged. Decide
// calls ResolveReplicas itself.
func ResolveReplicas(ctx context.Context, f *Fleet, opt Options) (*Fleet, []ReplicaChoice, error) {
	if f == nil || !slices.ContainsFunc(f.Workloads, func(w Workload) bool { return w.Replicas.Auto }) {
		return f, nil, nil
	}
	if _, err := opt.prepare(ctx, f); err != nil {
		return nil, nil, err
	}
	out := *f
	out.Workloads = slices.Clone(f.Workloads)
	var found []ReplicaChoice
	var isolated []*replicaSearch
	for i := range out.Workloads {
		if !out.Workloads[i].Replicas.Auto {
			continue
		}
		s := &replicaSearch{ctx: ctx, opt: opt, fleet: f, at: i, tried: map[int]*replicaTrial{}}
		best, err := s.best()
		if err != nil {
			return nil, nil, err
		}
		out.Workloads[i].Replicas = Replicas{Max: best.replicas}
		isolated = append(isolated, s)
	}
	if err := withOthers(ctx, &out, opt, isolated); err != nil {
		return nil, nil, err
	}
	for _, s := range isolated {
		c, err := s.choice(out.Workloads[s.at].Replicas.Max)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b ReplicaChoice) int { return cmp.Compare(a.Workload, b.Workload) })
	return &out, found, nil
}

// triedTogether is the largest fleet in which one replica more and one less are tried with all workloads.
const triedTogether = 16

// withOthers tries one replica more and one less of each workload in the whole fleet: neighbours may leave room.
func withOthers(ctx context.Context, f *Fleet, opt Options, isolated []*replicaSearch) error {
	if len(f.Workloads) < 2 || len(f.Workloads) > triedTogether {
		return nil
	}
	best, err := tryFleet(ctx, f, opt)
	if err != nil {
		return err
	}
	for _, s := range isolated {
		r := &f.Workloads[s.at].Replicas
		for _, by := range [...]int{-1, 1} {
			was := r.Max
			if r.Max += by; r.Max < 1 {
				r.Max = was
				continue
			}
			t, err := tryFleet(ctx, f, opt)
			if err != nil {
				return err
			}
			if t.before(best) {
				best = t
				break // and not back again
			}
			r.Max = was
		}
	}
	return nil
}

// replicaTrial holds the outcome and cost of a fleet with a number of replicas.
type replicaTrial struct {
	replicas int
	missed   int // workloads that don't surely keep their objectives, or have no place
	unplaced int
	monthly  float64
	gpus     int
	result   *Result // nil where the input forbids that number
	why      string  // the first missed objective
}

func (t *replicaTrial) before(o *replicaTrial) bool {
	return cmp.Or(cmp.Compare(t.missed, o.missed), cmp.Compare(t.unplaced, o.unplaced), cmp.Compare(t.monthly, o.monthly),
		cmp.Compare(t.gpus, o.gpus), cmp.Compare(t.replicas, o.replicas)) < 0
}

// tryFleet decides a fleet without replicas: auto.
func tryFleet(ctx context.Context, f *Fleet, opt Options) (*replicaTrial, error) {
	t := &replicaTrial{}
	for i := range f.Workloads {
		t.replicas += f.Workloads[i].ReplicaCount()
	}
	if err := f.Validate(); err != nil { // such as more work than so few replicas have time for
		t.missed, t.unplaced, t.why = len(f.Workloads)+1, t.replicas, "they have no time for that many requests"
		return t, nil
	}
	r, err := decideStated(ctx, f, opt)
	if err != nil {
		return nil, err
	}
	t.result, t.gpus = r, r.Totals.GPUsAfter
	t.monthly, _ = strconv.ParseFloat(r.Totals.MonthlyAfter, 64)
	of := r.tally()
	t.unplaced = of.Wanted - of.Placed
	for i := range r.Decisions {
		d := &r.Decisions[i]
		missed := func(c Consequence) bool { return c.Verdict != sharing.AnswerYes }
		if at := slices.IndexFunc(d.Consequences, missed); at >= 0 || d.Unplaced > 0 {
			t.missed++
			why, _, _ := strings.Cut(d.Why, ";")
			t.why = cmp.Or(t.why, why)
		}
	}
	return t, nil
}

// replicaSearch looks for the number of replicas of one isolated workload on the fleet's pools.
type replicaSearch struct {
	ctx   context.Context
	opt   Options
	fleet *Fleet
	at    int
	tried map[int]*replicaTrial
}

// try decides the isolated workload with a number of replicas and a multiple of its load.
func (s *replicaSearch) try(n int, load float64) (*replicaTrial, error) {
	if t := s.tried[n]; t != nil && load == 1 {
		return t, nil
	}
	w := s.fleet.Workloads[s.at]
	l := *w.Load
	l.RequestsPerS *= load
	w.Load, w.Replicas, w.Today = &l, Replicas{Max: n}, nil
	f := *s.fleet
	f.Workloads, f.Today = []Workload{w}, nil
	t, err := tryFleet(s.ctx, &f, s.opt)
	if err == nil && load == 1 {
		s.tried[n] = t
	}
	return t, err
}

// mostPerGPU bounds the search: so many replicas on each GPU are more than any mechanism has clients.
const mostPerGPU = 64

// best grows the number until objectives are met, and on to searchedBeyond times that number, since more and smaller
// replicas may share fewer GPUs; then it tries the skipped numbers next to the best. It stops at searchedBeyond times
// the first number with too few GPUs.
func (s *replicaSearch) best() (best *replicaTrial, err error) {
	most := 0
	for i := range s.fleet.Pools {
		most += s.fleet.Pools[i].Count * mostPerGPU
	}
	first := 0 // the least that does
	look := func(n int) {
		var t *replicaTrial
		if t, err = s.try(n, 1); err != nil {
			return
		}
		if best == nil || t.before(best) {
			best = t
		}
		if t.missed == 0 && first == 0 {
			first = n
			most = min(most, searchedBeyond*n+searchedBeyond)
		}
		if t.result != nil && t.result.Decisions[0].MoreGPUs != nil {
			most = min(most, searchedBeyond*n)
		}
	}
	for n := 1; err == nil && n <= most; n += max(1, n/finest) {
		look(n)
	}
	if err != nil {
		return nil, err
	}
	for n, end := best.replicas-best.replicas/finest, best.replicas; err == nil && n < end; n++ {
		look(max(1, n))
	}
	return best, err
}

// searchedBeyond bounds the search, in multiples of the least number that does; up to finest every number is tried.
const searchedBeyond, finest = 4, 64

// choice reports the chosen number, the misses with less, and the load at which the first objective is missed.
func (s *replicaSearch) choice(n int) (c ReplicaChoice, err error) {
	t, err := s.try(n, 1)
	if err != nil {
		return c, err
	}
	w := &s.fleet.Workloads[s.at]
	c = ReplicaChoice{Workload: w.Name, Replicas: n, Breaks: t.why}
	if t.result != nil {
		for n := range t.result.Layout.Nodes() {
			for i := range n.Devices {
				c.PerGPU = max(c.PerGPU, n.Tenants(i))
			}
		}
	}
	if t.missed > 0 {
		return c, nil
	}
	if n > 1 {
		fewer, err := s.try(n-1, 1)
		if err != nil {
			return c, err
		}
		if fewer.missed > 0 {
			c.Fewer = fewer.why
		}
	}
	low, high := 1.0, 0.0
	for range 10 {
		at := low * 1.5
		if high > 0 {
			at = (low + high) / 2
		}
		more, err := s.try(n, at)
		switch {
		case err != nil:
			return c, err
		case more.missed > 0:
			high, c.Breaks = at, more.why
		case more.monthly > t.monthly || more.gpus > t.gpus:
			high, c.Breaks = at, fmt.Sprintf("it takes %d GPUs in the place of %d", more.gpus, t.gpus)
		default:
			low = at
		}
	}
	c.LoadPerS = round(low*w.Load.PeakPerS(), 3)
	return c, nil
}
