package decision

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/internal/memo"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Relaxed is a fleet's answer at less confidence: more replicas find room, or the same cost a fifth less,
// and their objectives are less sure to be kept. Nothing of it is chosen.
type Relaxed struct {
	// Confidence is the probability with which the objectives would be kept, the highest of a few at which most find room.
	Confidence float64 `json:"confidence"`
	Placed     int     `json:"placed"` // replicas
	GPUs       int     `json:"gpus"`
	Monthly    string  `json:"monthly,omitempty"` // of those GPUs, an exact decimal
	Currency   string  `json:"currency,omitempty"`
	// Settle is the measurement that shows whether they are kept. It leaves MonthlyAtStake out.
	Settle Settle `json:"settle"`
}

// lowerConfidence lists the levels that are tried, in fleets up to relaxedUpTo workloads that took little to arrange.
var lowerConfidence = [...]float64{0.95, 0.9, 0.8}

const (
	relaxedUpTo = 16
	relaxedSeen = 600 // arrangements of a GPU
)

// muchCheaper is the part of an answer's cost at which less confidence, or a gamble, stands beside it.
const muchCheaper = 0.8

// relax finds what less confidence would give a fleet that runs short of GPUs, or
// that would cost a fifth less, and puts it beside the answers that it would change.
func (r *Result) relax(f *Fleet, opt Options) error {
	most, _ := r.placed()
	var best *Result
	lower := slices.DeleteFunc(slices.Clone(lowerConfidence[:]), func(c float64) bool { return c >= opt.Confidence })
	at, end := memo.Ahead(len(lower), func(i int) (*Result, error) { return decideAt(f, opt, lower[i]) })
	defer end()
	for i := range lower {
		less, err := at(i)
		if err != nil {
			return err
		}
		placed, unplaced := less.placed()
		if placed > most || placed == most && most > 0 && best == nil && less.bill() <= muchCheaper*r.bill() {
			best, most = less, placed
			if unplaced == 0 {
				break
			}
		}
	}
	if best == nil {
		return nil
	}
	x := &Relaxed{Confidence: best.Confidence, Placed: most, GPUs: best.Totals.GPUsAfter,
		Monthly: best.Totals.MonthlyAfter, Currency: best.Totals.Currency}
	r.Relaxed = x
	for i := range r.Decisions {
		d, o := &r.Decisions[i], &best.Decisions[i]
		if o.Placed == 0 {
			continue
		}
		a, err := best.place(o)
		now, err2 := r.place(d)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if d.Placed >= o.Placed && a.GPUs >= now.GPUs &&
			d.Pool == o.Pool && d.Mechanism == o.Mechanism && d.Profile == o.Profile {
			continue
		}
		a.If = fmt.Sprintf("%.4g%% confidence is enough", 100*x.Confidence)
		d.Relaxed = a
		if x.Settle.Workload == "" {
			x.Settle = best.trial(f, o)
		}
	}
	return nil
}

// assure answers with more confidence than was asked for where that places more
// replicas: what is surer to be kept is kept at less confidence too.
func (r *Result) assure(f *Fleet, opt Options) (*Result, error) {
	for _, confidence := range [...]float64{0.8, 0.9, 0.95, 0.97, 0.99} {
		placed, unplaced := r.placed()
		if unplaced == 0 {
			break
		}
		if confidence <= opt.Confidence {
			continue
		}
		surer, err := decideAt(f, opt, confidence)
		if err != nil {
			return nil, err
		}
		if n, _ := surer.placed(); n > placed {
			r = surer
		}
	}
	return r, nil
}

// decideAt decides a fleet at another confidence, with nothing beside the answers.
func decideAt(f *Fleet, opt Options, confidence float64) (*Result, error) {
	opt.Confidence = confidence
	pl, err := plan.PlanFleet(f, opt, 1)
	if err != nil {
		return nil, err
	}
	return (&answers{Planner: pl}).result()
}

// placed counts replicas.
func (r *Result) placed() (placed, unplaced int) {
	for i := range r.Decisions {
		placed, unplaced = placed+r.Decisions[i].Placed, unplaced+r.Decisions[i].Unplaced
	}
	return placed, unplaced
}

// bill is the cost of an answer.
func (r *Result) bill() float64 {
	return worth(r.Totals.MonthlyAfter, r.Totals.Currency, r.Totals.GPUsAfter)
}

// worth is a cost: money, or GPUs where there are no prices.
func worth(monthly, currency string, gpus int) float64 {
	if m, err := cost.ParseMoney(monthly + " " + currency); err == nil {
		return float64(m.Micros())
	}
	return float64(gpus)
}

// place returns a decision's place for a workload, as an alternative.
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
	var s sums
	hour := s.of(cost.ParseMoney(d.Cost.PerWorkloadHour + " " + d.Cost.Currency))
	month := s.of(cost.Monthly(hour))
	a.Monthly, a.Currency = month.Decimal(), month.Currency()
	return a, s.err
}

// trial is the measurement that shows whether a workload keeps its objectives where less confidence would put it.
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
	s.Measurement = fmt.Sprintf("run a replica of %s %s at its load; if it keeps up there, decide with %.4g%% "+
		"confidence%s", d.Workload, where, 100*r.Confidence, orLengths(wl))
	return s
}

// MoreGPUs is the number of GPUs of a pool that would have to be added for the unplaced replicas, with everything
// else as it stands: in whole nodes where the pool states gpus_per_node.
type MoreGPUs struct {
	Pool string `json:"pool"`
	GPUs int    `json:"gpus"`
}

// moreGPUs is the cheapest addition to one pool that places all replicas of w,
// nil where none are missing or more GPUs would not help.
func (pl *answers) moreGPUs(w int) *MoreGPUs {
	var best *MoreGPUs
	price := 0.0
	for key, want := range pl.Full[w] {
		cp := pl.Pools[key.Pool]
		m := MoreGPUs{cp.Pool.Name, cp.Paid(want, 0).GPUs() - cp.Pool.Count}
		rate := cp.Price // what is reserved is there already
		if pl.Workloads[w].Workload().Spot {
			rate = cp.Spot.PricePerGPUHour
		}
		total := float64(m.GPUs) * pl.Counts(rate)
		if best == nil || total < price || total == price &&
			(m.GPUs < best.GPUs || m.GPUs == best.GPUs && m.Pool < best.Pool) {
			best, price = &m, total
		}
	}
	return best
}
