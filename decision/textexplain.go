// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// explained is the column of the text after a heading of an explanation.
const explained = 14

// explain writes all that is known of one decision.
func (t *text) explain(d *Decision) {
	say := func(head, format string, args ...any) { t.put(2, explained, head, fmt.Sprintf(format, args...)) }
	t.put(0, explained, d.Workload, t.answer(d))
	each := ""
	if d.GPUs > 1 {
		each = fmt.Sprintf(" on each of %d GPUs", d.GPUs)
	}
	say("needs", "%s%s, %s", d.Memory, each, plaintext.Count(d.Replicas, "replica"))
	for _, c := range d.Consequences {
		metric, unit := c.named()
		say("expects", "%s %s%s (%s to %s), objective %s, kept: %s", metric, plaintext.Digits(c.Value), unit,
			plaintext.Digits(c.Low), plaintext.Digits(c.High), plaintext.Digits(c.Limit), c.Verdict)
	}
	for _, a := range d.Assumes {
		say("assumes", "%s: %s", a.What, a.Why)
	}
	if s := d.Measurement; s != nil {
		say("measure", "%s", s.Text)
		if s.MonthlyAtStake != "" {
			say("at stake", "%s %s a month", plaintext.Amount(s.MonthlyAtStake), d.Cost.Currency)
		}
		say("run", "%s", t.command(s))
	}
	if c := d.Cost; c != nil {
		say("costs", "%s %s an hour, a replica %s; on GPUs of their own %s", c.PerWorkloadHour, c.Currency, c.PerReplicaHour,
			c.ExclusiveHour)
	}
	if a := d.TradeOff; a != nil {
		say("accepts", "%s%s", a.Message, t.cites.Ref(a.Source))
	}
	if len(d.Isolation) > 0 {
		parts := make([]string, len(d.Isolation))
		for i, a := range d.Isolation {
			parts[i] = fmt.Sprintf("%s %s", a.Axis, a.Level)
		}
		say("isolation", "%s", strings.Join(parts, ", "))
	}
	t.predicted(d)
	for _, hit := range d.Traps {
		trap, _ := sharing.TrapByID(hit.ID)
		say("trap", "%s, %s: %s; remedy: %s%s", hit.ID, hit.Severity, hit.Message, trap.Remedy, t.cites.Ref(trap.Sources[0]))
	}
	for _, hit := range d.Accepts {
		say("bears", "%s, %s: %s", hit.ID, hit.Severity, hit.Message)
	}
	for i := range t.r.Pools {
		t.places(d, &t.r.Pools[i])
	}
	t.title("CANDIDATES, the chosen one first")
	for _, s := range d.NotChosen {
		t.put(2, 4, "", s)
	}
	for i := range d.Candidates {
		t.candidate(d.Candidates, i)
	}
}

func (t *text) predicted(d *Decision) {
	if p := d.Predicted; p != nil {
		tpot := ""
		if i, ok := p.Figures[profile.MetricTPOTP99.String()]; ok {
			tpot = fmt.Sprintf("; TPOT P99 %.3g ms (%.3g to %.3g)", i.Value, i.Low, i.High)
		}
		t.put(2, explained, "predicted", fmt.Sprintf("%.2f times slower than alone (%.2f to %.2f), %d on a GPU (%s)%s",
			p.Slowdown.Value, p.Slowdown.Low, p.Slowdown.High, p.Tenants, p.Basis, tpot))
	}
}

// places writes the GPUs of a pool that carry a workload, with the positions of its instances.
func (t *text) places(d *Decision, p *PoolResult) {
	for _, g := range p.Groups {
		for _, l := range g.Layouts {
			var parts []string
			there := false
			for _, in := range l.Instances {
				parts, there = append(parts, fmt.Sprintf("%s@%d %s", in.Profile, in.Start, in.Workload)),
					there || in.Workload == d.Workload
			}
			for _, tenant := range l.Tenants {
				parts, there = append(parts, fmt.Sprintf("%d x %s", tenant.Replicas, tenant.Workload)),
					there || tenant.Workload == d.Workload
			}
			if there {
				t.put(2, explained, "on", fmt.Sprintf("%s of %s: %s", plaintext.Count(l.GPUs, "GPU"), p.Pool,
					strings.Join(parts, " | ")))
			}
		}
	}
}

// deciding are the reasons that make a candidate's verdict; a pin is enough.
func (c *Candidate) deciding() []filter.ReasonText {
	if c.Verdict != filter.VerdictReject {
		return c.Reasons
	}
	var out []filter.ReasonText
	for _, r := range c.Reasons {
		if r.Code == codes.PinnedElsewhere {
			return []filter.ReasonText{r}
		}
		if r.Verdict == c.Verdict {
			out = append(out, r)
		}
	}
	return out
}

// candidate writes the candidate at k, with those that the same reasons rule out
// on the same pool; those follow the first of them.
func (t *text) candidate(cs []Candidate, k int) {
	c := &cs[k]
	reasons := c.deciding()
	same := func(o Candidate) bool {
		return o.Verdict == c.Verdict && o.Pool == c.Pool && slices.Equal(o.deciding(), reasons)
	}
	names := []string{choice(c.Mechanism, c.Profile)}
	if c.Verdict == filter.VerdictReject {
		if slices.IndexFunc(cs, same) < k {
			return
		}
		names = nil
		for _, o := range cs[k:] {
			if same(o) {
				names = append(names, choice(o.Mechanism, o.Profile))
			}
		}
	}
	line := strings.Join(names, ", ") + " on " + c.Pool
	if c.Verdict != filter.VerdictReject {
		line += fmt.Sprintf(": %d on a GPU", c.Tenants)
	}
	verdict := c.Verdict.String()
	if c.Chosen {
		verdict = "chosen"
	}
	t.put(2, 12, verdict, line)
	for _, reason := range reasons {
		t.put(2, 14, "", reason.Message+t.cites.Ref(reason.Source))
	}
}
