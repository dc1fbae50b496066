package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Relaxed is what a fleet that runs short of GPUs would get for less confidence:
// more replicas find room, and their objectives are less sure to be kept. Nothing
// of it is chosen.
type Relaxed struct {
	// Confidence is how sure the objectives would be kept, the highest of a few at
	// which most find room.
	Confidence float64 `json:"confidence"`
	Placed     int     `json:"placed"` // replicas
	GPUs       int     `json:"gpus"`
	Monthly    string  `json:"monthly,omitempty"` // of those GPUs, an exact decimal
	Currency   string  `json:"currency,omitempty"`
	// Settle is the measurement that shows whether they are kept. It leaves
	// MonthlyAtStake out.
	Settle Settle `json:"settle"`
}

// lowerConfidence is what is tried where GPUs run short, in fleets up to
// relaxedUpTo workloads that took little to arrange.
var lowerConfidence = [...]float64{0.95, 0.9, 0.8}

const (
	relaxedUpTo = 16
	relaxedSeen = 600 // arrangements of a GPU
)

// relax finds what less confidence would give a fleet that runs short of GPUs, and
// puts it beside the answers that it would change.
func (r *Result) relax(f *Fleet, opt Options) error {
	missing := func(r *Result) (placed, unplaced int) {
		for i := range r.Decisions {
			placed, unplaced = placed+r.Decisions[i].Placed, unplaced+r.Decisions[i].Unplaced
		}
		return placed, unplaced
	}
	most, unplaced := missing(r)
	var best *Result
	for _, confidence := range lowerConfidence {
		if unplaced == 0 {
			break
		}
		if confidence >= opt.Confidence {
			continue
		}
		opt.Confidence = confidence
		pl, err := planFleet(f, opt, 1)
		if err != nil {
			return err
		}
		less, err := pl.result()
		if err != nil {
			return err
		}
		if placed, left := missing(less); placed > most {
			best, most, unplaced = less, placed, left
		}
	}
	if best == nil {
		return nil
	}
	x := &Relaxed{Confidence: best.Confidence, Placed: most, GPUs: best.Totals.GPUsAfter, Monthly: best.Totals.MonthlyAfter, Currency: best.Totals.Currency}
	r.Relaxed = x
	for i := range r.Decisions {
		d, o := &r.Decisions[i], &best.Decisions[i]
		if o.Placed == 0 || d.Placed >= o.Placed && d.Pool == o.Pool && d.Mechanism == o.Mechanism && d.Profile == o.Profile {
			continue
		}
		a, err := best.place(o)
		if err != nil {
			return err
		}
		a.If = fmt.Sprintf("%.4g%% confidence is enough", 100*x.Confidence)
		d.Relaxed = a
		if x.Settle.Workload == "" && o.Placed > d.Placed {
			x.Settle = best.trial(f, o)
		}
	}
	return nil
}

// place is where a decision puts a workload, as an alternative.
func (r *Result) place(d *Decision) (*Alternative, error) {
	a := &Alternative{Pool: d.Pool, Mechanism: d.Mechanism, Profile: d.Profile, Unplaced: d.Unplaced}
	for _, p := range r.Pools {
		for _, g := range p.Groups {
			for _, l := range g.Layouts {
				if p.Pool == d.Pool && g.Mechanism == d.Mechanism &&
					(slices.ContainsFunc(l.Instances, func(in InstanceResult) bool { return in.Workload == d.Workload }) ||
						slices.ContainsFunc(l.Tenants, func(t TenantResult) bool { return t.Workload == d.Workload })) {
					a.GPUs += l.GPUs
				}
			}
		}
	}
	if d.Cost == nil {
		return a, nil
	}
	hour, err := cost.ParseMoney(d.Cost.PerWorkloadHour + " " + d.Cost.Currency)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	return a.priced(hour)
}

// trial is the measurement that shows whether a workload keeps its objectives
// where less confidence would put it.
func (r *Result) trial(f *Fleet, d *Decision) Settle {
	at := slices.IndexFunc(f.Workloads, func(w Workload) bool { return w.Name == d.Workload })
	wl := &f.Workloads[at]
	gpu := f.Pools[slices.IndexFunc(f.Pools, func(p Pool) bool { return p.Name == d.Pool })].GPU
	where := "under " + d.Mechanism.String() + " on " + problem.A(gpu) + ", beside its neighbours,"
	if d.Profile != "" {
		where = fmt.Sprintf("in a slice %s of %s", d.Profile, problem.A(gpu))
	} else if d.Mechanism == sharing.MechanismExclusive {
		where = "on " + problem.A(gpu)
	}
	var what []string
	for m := range wl.SLO.Limits() {
		what = append(what, m.String())
	}
	s := settling(wl, what)
	s.Measurement = fmt.Sprintf("run a replica of %s %s at its load; if it keeps up there, decide with %.4g%% confidence", d.Workload, where, 100*r.Confidence)
	return s
}
