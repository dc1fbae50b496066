// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// Verdict is the outcome of a canary so far.
type Verdict string

// The verdicts.
const (
	KeepObserving Verdict = "keep observing"
	Promote       Verdict = "promote"
	TakeBack      Verdict = "take back"
	CannotTell    Verdict = "cannot tell" // at the deadline: no harm by the newcomer is shown
)

// Result is a verdict with its evidence and its bounds.
type Result struct {
	Verdict Verdict       `json:"verdict"`
	At      time.Duration `json:"at_ns"` // since the newcomer came
	// Done is true when no further snapshot is needed: the verdict is not promote, or the watch after promotion is over.
	Done   bool   `json:"done"`
	Reason string `json:"reason"`
	// Needs lists for each undecided objective the data that would decide it.
	Needs []string      `json:"needs,omitempty"`
	Block time.Duration `json:"block_ns"` // the current length of the test's blocks
	// WrongPromotion bounds the probability that this canary is promoted wrongly, WrongTakeBack that it is taken back
	// wrongly.
	WrongPromotion float64 `json:"wrong_promotion"`
	WrongTakeBack  float64 `json:"wrong_take_back"`

	Objectives []Evidence `json:"objectives"`
}

// Evidence is the evidence for and against one objective.
type Evidence struct {
	Tenant   string  `json:"tenant"`
	Metric   string  `json:"metric"`
	Quantile float64 `json:"quantile"`
	Limit    float64 `json:"limit,omitempty"` // the latest; 0 = not known yet
	// OverLeast and OverMost bound the share of observations beyond the limit.
	OverLeast float64 `json:"over_least"`
	OverMost  float64 `json:"over_most"`
	N         int     `json:"observations"`
	// Kept and Broken are the evidence for and against, as fractions of that needed for a verdict; 1 suffices.
	Kept   float64 `json:"kept"`
	Broken float64 `json:"broken"`
	// Sufficed is the time at which the evidence that it is met sufficed; 0 = not yet.
	Sufficed time.Duration `json:"sufficed_ns,omitempty"`
}

// Result returns the verdict with the evidence for it.
func (c *Canary) Result() Result {
	length := c.blockBins()
	r := Result{
		Verdict: c.verdict, Reason: c.reason, Done: c.done,
		At: time.Duration(c.bins) * binLength, Block: time.Duration(length) * binLength,
		WrongPromotion: c.plan.WrongPromotion, WrongTakeBack: c.plan.WrongTakeBack,
	}
	needKept, needBroken, needSlow := c.bars()
	for i := range c.tenants {
		t := &c.tenants[i]
		for k := range t.streams {
			s, o := &t.streams[k], &c.plan.Tenants[i].Objectives[k]
			b, all := s.in(length), s.sum(0)
			e := Evidence{
				Tenant: c.plan.Tenants[i].Name, Metric: o.Metric, Quantile: o.Quantile, Limit: cmp.Or(t.limits[k], o.Limit),
				N: int(all.N), Kept: max(0, b.kept/needKept), Sufficed: s.sufficed,
				Broken: max(0, b.broken/needBroken, s.verySlow()/needSlow),
			}
			e.OverLeast, e.OverMost = all.beyond()
			if why := c.blind(t, s, length); why != "" || e.Kept < 1 {
				r.Needs = append(r.Needs, c.need(&e, s, &b, why))
			}
			r.Objectives = append(r.Objectives, e)
		}
	}
	if c.verdict == KeepObserving {
		r.Reason = fmt.Sprintf("%d of %d objectives are not decided", len(r.Needs), len(r.Objectives))
	}
	if c.gone {
		r.Reason += "; the clock of the observations stops or goes back"
	}
	return r
}

// coverage is the least part of the time for which each tenant must have been observed before a promotion.
const coverage = 0.9

// blind returns the reason for which a stream's evidence does not count for promotion; "" = none.
func (c *Canary) blind(t *tenantState, s *stream, length int) string {
	if part := float64(t.unseen) / float64(max(1, len(s.Bins))); part > 1-coverage {
		return fmt.Sprintf("it could not be evaluated %.0f%% of the time (%s)", 100*part,
			cmp.Or(t.away, "nothing was observed then"))
	}
	if lately := s.sum(len(s.Bins) - 2*length); lately.N == 0 {
		return "nothing was observed lately"
	}
	return ""
}

// need describes the data that would decide an objective.
func (c *Canary) need(e *Evidence, s *stream, b *blocks, why string) string {
	text := fmt.Sprintf("%s %s: ", e.Tenant, e.Metric)
	length := time.Duration(b.length) * binLength
	switch over := s.share * (1 - dependence); {
	case why != "":
		return text + why
	case e.OverLeast <= over && e.OverMost > over:
		return text + fmt.Sprintf("a bucket of its page around its limit of %.4g holds %.0f%% of the observations: "+
			"add an edge at the limit", e.Limit, 100*(e.OverMost-e.OverLeast))
	case e.OverLeast > over:
		return text + fmt.Sprintf("%.3g%% lie beyond %.4g, where %.3g%% may: it is too near its limit", 100*e.OverLeast,
			e.Limit, 100*s.share)
	case b.n == 0 || e.Kept == 0:
		return text + fmt.Sprintf("it takes blocks of %v with %d observations, of which there are %d", length,
			minRequests, b.n)
	}
	return text + fmt.Sprintf("about %v more at this rate", time.Duration(math.Ceil(float64(b.n)*(1/e.Kept-1)))*length)
}

// String describes the result in a paragraph.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v  %s: %s\n", r.At, r.Verdict, r.Reason)
	for _, e := range r.Objectives {
		fmt.Fprintf(&b, "  %s %s P%.4g: limit %.4g, %.1f%% of %d beyond; %.0f%% of the evidence for promotion\n", e.Tenant,
			e.Metric, 100*e.Quantile, e.Limit, 100*e.OverMost, e.N, 100*min(1, e.Kept))
	}
	for _, n := range r.Needs {
		b.WriteString("  needs  " + n + "\n")
	}
	return b.String()
}
