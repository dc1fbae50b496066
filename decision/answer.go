// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// answer fills in status, placement and consequences, and reports whether the placement rests on assumptions.
func (pl *answers) answer(w int, d *Decision, share workloadShare) (provisional bool) {
	d.Placed = pl.Placed[w]
	d.Unplaced = d.Replicas - d.Placed
	d.MoreGPUs = pl.moreGPUs(w)
	if pl.Chosen(w) == nil {
		d.Why = pl.bound(w, d)
		return false
	}
	p, c := pl.Worst(w, false)
	pl.doubtLengths(w, &p)
	d.From = fromClosedForm
	d.Status = StatusDecided
	for _, at := range pl.Places[w] {
		for _, a := range pl.EstimateOf(w, at.Pool, at.Mechanism).Assumes {
			if !slices.Contains(d.Assumes, a) {
				d.Assumes = append(d.Assumes, a)
			}
		}
	}
	if !pl.Limited(w) {
		d.Assumes = slices.DeleteFunc(d.Assumes, func(a Assumption) bool { return a.Own })
	}
	if need := pl.Workloads[w].Demand(); need.NeverShares && !pl.Limited(w) && !need.Memory.Unknown {
		d.Assumes = nil // how busy it is changes nothing
	}
	d.Why = pl.why(w, c, p) + pl.missingShape(w, c) + pl.dearer(w, share)
	if len(p.Outcomes) > 0 {
		d.Consequences = consequencesOf(&pl.EstimateOf(w, c.Pool, c.Mechanism).Demand, &p.Outcomes[0])
	}
	if len(p.Outcomes) > 0 && p.Outcomes[0].Predicted != nil {
		by := p.Outcomes[0].Predicted
		d.From = fromProfiles
		if c.Mechanism != sharing.MechanismExclusive {
			d.Predicted = newPredicted(by, p.Tenants)
		}
		d.Consequences = nil
		for m, limit := range pl.Workloads[w].Workload().SLO.Limits() {
			if i, ok := by.Get(m); ok {
				d.Consequences = append(d.Consequences, consequence(codes.ObjectiveName(m)+" ms", i, 1e3*limit.Seconds()))
			}
		}
		d.Consequences = finishing(d.Consequences, &pl.EstimateOf(w, c.Pool, c.Mechanism).Demand, &p.Outcomes[0])
		if c := tightest(d.Consequences); c != nil {
			d.Why = c.words() + pl.dearer(w, share)
		}
	}
	if a, ok := pl.assumedLengths(w, d); ok {
		d.Assumes = append(d.Assumes, a)
	}
	open := func(a Assumption) bool { return !a.Own || a.Basis != sharing.BasisTransferred }
	if slices.ContainsFunc(d.Assumes, open) || p.Answer != sharing.AnswerYes {
		d.Status = StatusProvisional
	}
	provisional = d.Status == StatusProvisional
	if d.Unplaced > 0 {
		d.Status = StatusPartlyPlaced
	}
	return provisional
}

// farFromLimit is the ratio of a limit to an expected P99 above which the spread of lengths is not needed: their P99 is
// taken as three times the mean, and traces have up to eight times.
const farFromLimit = 3

// doubtLengths widens the interval of a time per output token by the doubt of how far lengths spread, where only their
// means are stated and its limit is near. The place does not depend on it.
func (pl *answers) doubtLengths(w int, p *plan.Prediction) {
	wl := pl.Workloads[w].Workload()
	if len(p.Outcomes) == 0 || p.Outcomes[0].Predicted != nil || !pl.Serves(wl) || !unstatedLengths(wl) {
		return
	}
	b, limit := &p.Outcomes[0].P99[predict.LatencyTPOT], time.Duration(wl.SLO.TPOTP99.Or(0)).Seconds()
	if limit > 0 && limit <= farFromLimit*b.Value && b.High <= limit {
		uneven, _ := pl.Worst(w, true)
		by := math.Log(uneven.Outcomes[0].P99[predict.LatencyTPOT].Value / b.Value)
		b.High = b.Value * math.Exp(math.Hypot(math.Log(b.High/b.Value), max(0, by)))
	}
}

// assumedLengths is the assumption on the spread of a model server's lengths where only their means are stated and a
// limit is near: of its first token or its answer, which long requests delay, or of its time per output token if that
// may miss it.
func (pl *answers) assumedLengths(w int, d *Decision) (a Assumption, ok bool) {
	wl := pl.Workloads[w].Workload()
	if wl.Service != nil || !unstatedLengths(wl) || d.From != fromClosedForm {
		return a, false
	}
	for _, c := range d.Consequences {
		name, _ := strings.CutSuffix(c.Metric, " P99 ms")
		near := c.Limit <= farFromLimit*c.Value
		if name == predict.LatencyName(predict.LatencyTPOT) {
			near = c.High > c.Limit
		}
		if near {
			return Assumption{Basis: sharing.BasisPrior, Why: "they are not stated, and its limit of " + name + " is near",
				What: fmt.Sprintf("the 99th percentiles of lengths of %s's requests are three times their means", wl.Name)}, true
		}
	}
	return a, false
}

// finishing adds the end of work with a deadline.
func finishing(list []Consequence, d *predict.Tenant, o *predict.Estimate) []Consequence {
	if d.Deadline == 0 {
		return list
	}
	end := o.Finish(d)
	hours := profile.Interval{Value: end.Value / 3600, Low: end.Low / 3600, High: end.High / 3600}
	return append(list, consequence("time to finish h", hours, d.Deadline/3600))
}

// consequence compares a figure with its limit, in the unit that ends its metric.
func consequence(metric string, i profile.Interval, limit float64) Consequence {
	return Consequence{metric, round(i.Value, 2), round(i.Low, 2), round(i.High, 2), round(limit, 2),
		i.Below(limit)}
}

// latencyOf is the place of a P99 in an outcome.
func latencyOf(m profile.Metric) int {
	switch m {
	case profile.MetricTTFTP99:
		return predict.LatencyTTFT
	case profile.MetricTPOTP50, profile.MetricTPOTP99:
		return predict.LatencyTPOT
	}
	return predict.LatencyE2E
}

// tightest returns the consequence closest to its limit, nil without any.
func tightest(list []Consequence) (c *Consequence) {
	for i := range list {
		if c == nil || list[i].High/list[i].Limit > c.High/c.Limit {
			c = &list[i]
		}
	}
	return c
}

// words compares the expected figure with its limit.
func (c *Consequence) words() string {
	verb, between := "meets", fmt.Sprintf(" (%s to %s)", plaintext.Digits(c.Low), plaintext.Digits(c.High))
	if c.High > c.Limit {
		verb = "may miss"
	}
	if c.Low == c.High {
		between = ", measured isolated,"
	}
	metric, unit := c.named()
	if verb += " " + metric; unit == " h" {
		verb = map[bool]string{true: "may be late: finishes in", false: "finishes in"}[c.High > c.Limit]
	}
	return fmt.Sprintf("%s %s%s%s of %s", verb, plaintext.Digits(c.Value), unit, between, plaintext.Digits(c.Limit))
}

// named returns the metric without its unit, and the unit.
func (c *Consequence) named() (metric, unit string) {
	at := strings.LastIndexByte(c.Metric, ' ')
	return c.Metric[:at], c.Metric[at:]
}

// bound gives the reason against a place: the number of missing GPUs, or the failure of an exclusive GPU, the least
// demanding choice.
func (pl *answers) bound(w int, d *Decision) string {
	if m := d.MoreGPUs; m != nil {
		text := fmt.Sprintf("no room: %s more in pool %s would do", plaintext.Count(m.GPUs, "GPU"), m.Pool)
		if c, of, why, notes := pl.Refused(w); c != nil { // an objective keeps it from a GPU in use
			cw := pl.Workloads[of]
			notes = append([]string{why.About(cw.Demand(), pl.Pools[c.Pool].Target()).Text().Message}, notes...)
			text += fmt.Sprintf("; it may share none by %s, because of %s: %s", c.Mechanism, cw.Workload().Name,
				strings.Join(notes, "; "))
		}
		return text
	}
	// The pool that its filters pass and that comes nearest: with the most memory, or the least latency or time.
	var found *filter.Reason
	pool := 0
	for p := range pl.Pools {
		why, ok := pl.Banned[w][plan.GroupKey{Pool: p, Mechanism: sharing.MechanismExclusive}]
		if !ok {
			continue
		}
		lacks := why.Code == codes.GPUMemory
		if found == nil || !lacks && found.Code == codes.GPUMemory || why.Code == found.Code &&
			why.Have > 0 && why.Have > found.Have == lacks {
			found, pool = &why, p
		}
	}
	if found != nil {
		text := fmt.Sprintf("exclusive on %s: %s", pl.Pools[pool].Pool.Name,
			found.About(pl.Workloads[w].Demand(), pl.Pools[pool].Target()).Text().Message)
		if o := pl.EstimateOf(w, pool, sharing.MechanismExclusive); o.Tokens.Value > 0 && found.Code != codes.GPUMemory {
			text += "; isolated TPOT " + o.Size
		}
		return text
	}
	rank := func(c *Candidate) int {
		switch {
		case slices.ContainsFunc(c.Reasons, func(r filter.ReasonText) bool {
			return r.Code == codes.PinnedElsewhere || r.Code == codes.NotAllowedInPool
		}):
			return 2
		case c.Mechanism != sharing.MechanismExclusive:
			return 1
		}
		return 0
	}
	best := slices.MinFunc(d.Candidates, func(a, b Candidate) int { return cmp.Compare(rank(&a), rank(&b)) })
	for _, r := range best.Reasons {
		if r.Verdict == best.Verdict {
			return fmt.Sprintf("%s on %s: %s", best.Mechanism, best.Pool, r.Message)
		}
	}
	return ""
}

// why gives the reason for a choice in numbers: the tightest objective, or the utilisation.
func (pl *answers) why(w int, c *plan.Choice, p plan.Prediction) string {
	text := "runs alone"
	if len(p.Outcomes) > 0 {
		at := pl.EstimateOf(w, c.Pool, c.Mechanism)
		d, o := &at.Demand, &p.Outcomes[0]
		tight := tightest(consequencesOf(d, o))
		switch {
		case tight != nil && d.Deadline > 0 && c.Mechanism != sharing.MechanismExclusive:
			text = rateText(o) + ", " + tight.words()
		case tight != nil:
			text = tight.words()
			for _, m := range pl.assumedLatencies(w, c) {
				if k := latencyOf(m); predict.LatencyName(k)+" P99 ms" == tight.Metric {
					text += fmt.Sprintf(", assumed to be %s when isolated", plaintext.Digits(1e3*d.Isolated[k]))
					if t := at.Tokens; k == predict.LatencyTPOT && t.Value > 0 {
						text += fmt.Sprintf(" (%s to %s by its size)", plan.About(1e3*t.Low), plan.About(1e3*t.High))
					}
					break
				}
			}
		case d.Online || d.Serving != nil:
			verb := "keeps up,"
			if o.Busy.High >= 1 {
				verb = "may not keep up:"
			}
			if text = verb + " under 1% busy"; o.Busy.High >= 0.01 {
				text = fmt.Sprintf("%s %.0f%% busy", verb, 100*o.Busy.Value)
				if o.Busy.High < 1 {
					text += fmt.Sprintf(" (%.0f to %.0f)", 100*o.Busy.Low, 100*o.Busy.High)
				}
			}
		case c.Mechanism != sharing.MechanismExclusive:
			text = rateText(o)
		}
	}
	return text
}

func rateText(o *predict.Estimate) string {
	return fmt.Sprintf("runs at %.0f%% of its isolated rate (%.0f to %.0f)", 100*o.Rate.Value, 100*o.Rate.Low,
		100*min(1, o.Rate.High))
}

// missingShape names the missing statements, if nothing else keeps a workload from having neighbours.
func (pl *answers) missingShape(w int, c *plan.Choice) string {
	cw := pl.Workloads[w]
	if c.Mechanism != sharing.MechanismExclusive || !cw.Demand().Memory.KVPrior || !cw.Shareable() ||
		pl.Measured(w, c.Pool, c.Mechanism) {
		return ""
	}
	missing := "kv_cache, or layers, kv_heads and head_dim"
	if !pl.Serves(cw.Workload()) {
		missing = "kv_cache"
	}
	return "; it may have neighbours once its model states " + missing
}

// dearer describes the extra cost of GPUs of its own for a workload, if that is a twentieth or more: for slowed work,
// the money that would end the slowdown.
func (pl *answers) dearer(w int, share workloadShare) string {
	cp := pl.Pools[pl.Chosen(w).Pool]
	own := pl.exclusiveMicros(w)
	if share.micros <= 0 || float64(own) < 1.05*float64(share.micros) {
		return ""
	}
	p, _ := pl.Worst(w, false)
	if len(p.Outcomes) > 0 && p.Outcomes[0].Rate.Value > 0 && p.Outcomes[0].Rate.Value < slowedRate {
		var s sums
		if more := s.monthly(own-share.micros, cp.Price.Currency()); s.err == nil {
			return fmt.Sprintf("; GPUs of its own would give 100%% for %s %s a month more", plaintext.Amount(more.Decimal()),
				more.Currency())
		}
	}
	return fmt.Sprintf("; exclusive costs %.1f times as much", float64(own)/float64(share.micros))
}

// slowedRate is the part of its isolated rate below which work is offered GPUs of its own.
const slowedRate = 0.9

func consequencesOf(d *predict.Tenant, o *predict.Estimate) []Consequence {
	var out []Consequence
	for k, limit := range d.Limits {
		if limit == 0 || o.P99[k].Value == 0 || math.IsInf(o.P99[k].High, 1) {
			continue
		}
		p := o.P99[k]
		ms := profile.Interval{Value: 1e3 * p.Value, Low: 1e3 * p.Low, High: 1e3 * p.High}
		out = append(out, consequence(predict.LatencyName(k)+" P99 ms", ms, 1e3*limit))
	}
	return finishing(out, d, o)
}
