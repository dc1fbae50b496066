package decision

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// proposed is the measurement that settles a provisional answer for workload w, with the money that hangs on it.
func (pl *answers) proposed(w int, d *Decision, share workloadShare) (*Settle, error) {
	s := pl.measurement(w, d)
	cp := pl.Pools[pl.Chosen[w].Pool]
	if pl.Chosen[w].Mechanism == sharing.MechanismExclusive || !cp.Priced {
		return s, nil
	}
	own, err := pl.ownGPUs(w)
	if own == nil || err != nil {
		return s, err
	}
	var sums sums
	month := sums.monthly(share.micros, cp.Price.Currency())
	stake := sums.of(own.Sub(month))
	if stake.Sign() < 0 {
		stake = sums.of(cost.Money{}.Sub(stake))
	}
	s.MonthlyAtStake = stake.Decimal()
	return s, sums.err
}

// ownGPUs is the price of a month of whole GPUs for the placed replicas of w, the cheapest that keep its objectives
// surely or else any; nil where no pool has so many, or it has no price.
func (pl *answers) ownGPUs(w int) (*cost.Money, error) {
	wl := pl.Workloads[w].Workload()
	gpus := pl.Placed[w] * wl.GPUCount()
	var best *plan.Choice
	for i := range pl.Choices[w] {
		c := &pl.Choices[w][i]
		if c.Mechanism != sharing.MechanismExclusive || gpus > pl.Pools[c.Pool].Pool.Count {
			continue
		}
		// They are in the order of their price.
		if best == nil || c.Answer == sharing.AnswerYes && best.Answer != sharing.AnswerYes {
			best = c
		}
	}
	if best == nil || !pl.Pools[best.Pool].Priced {
		return nil, nil
	}
	cp, spot := pl.Pools[best.Pool], 0
	if wl.Spot && cp.Pool.Spot != nil {
		spot = gpus
	}
	hour, err := pay(cp, cp.Paid(gpus, spot))
	if err != nil {
		return nil, err
	}
	var s sums
	month := s.monthly(hour.micros, cp.Price.Currency())
	return &month, s.err
}

// guessesBusy says whether how busy workload w keeps a GPU of its choice is assumed.
func (pl *answers) guessesBusy(w int, c *plan.Choice) bool {
	cw := pl.Workloads[w]
	return cw.Workload().GPUBusy.IsZero() && cw.Archetype.BusyPrior.IsZero() && !pl.Measured(w, c.Pool, c.Mechanism) &&
		pl.OutlookOf(w, c.Pool, c.Mechanism).Demand.Serving == nil
}

// guessesAlone lists the metrics with a limit whose value alone is assumed.
func (pl *answers) guessesAlone(w int, c *plan.Choice) []profile.Metric {
	var out []profile.Metric
	wl := pl.Workloads[w].Workload()
	if pl.OutlookOf(w, c.Pool, c.Mechanism).Demand.Serving != nil || pl.Measured(w, c.Pool, c.Mechanism) {
		return nil
	}
	for m := range wl.SLO.Limits() {
		if wl.Solo.At(m).IsZero() {
			out = append(out, m)
		}
	}
	return out
}

// measurement names the figures of one replica alone that settle a provisional answer, and where to state them.
func (pl *answers) measurement(w int, d *Decision) *Settle {
	cw, c := pl.Workloads[w], pl.Chosen[w]
	wl := cw.Workload()
	var what, keys []string
	for _, m := range pl.guessesAlone(w, c) {
		what = append(what, m.String())
	}
	if len(what) > 0 {
		keys = []string{"solo"}
	}
	if pl.guessesBusy(w, c) {
		what, keys = append(what, "SM activity"), append(keys, "gpu_busy")
	}
	if cw.Demand().Memory.Unknown {
		what, keys = append(what, "peak memory"), append(keys, "memory")
	}
	if len(what) == 0 { // computed, and too near to a limit to tell
		for m := range wl.SLO.Limits() {
			what = append(what, m.String())
		}
		keys = []string{"solo, and gpu_busy in the place of load" + orLengths(wl)}
	}
	file := cmp.Or(pl.Opt.Input, "the fleet file")
	s := settling(wl, what)
	s.Measurement = fmt.Sprintf("%s of a replica of %s alone on %s at its load; state it in %s as its %s",
		strings.Join(what, ", "), d.Workload, problem.A(pl.Pools[c.Pool].Ground().GPU().Name), file,
		strings.Join(keys, " and "))
	return &s
}
