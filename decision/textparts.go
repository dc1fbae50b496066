// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// text is a result for the template.
type text struct {
	*Result
	*tally
	opts  TextOptions
	cites *sharing.Citations
}

func (r *Result) names() []string {
	out := make([]string, len(r.Decisions))
	for i := range r.Decisions {
		out[i] = r.Decisions[i].Workload
	}
	return out
}

// Ref cites a source.
func (t *text) Ref(id sharing.SourceID) string { return t.cites.Ref(id) }

// Column is that of the texts next to the workloads' names, and Answers are theirs, one by one.
func (t *text) Column() int { return column(t.names()) }

func (t *text) Answers() (out []*answerText) {
	for i := range t.Decisions {
		out = append(out, &answerText{&t.Decisions[i], t})
	}
	return out
}

// Caught names the workloads that walk into a trap, and says how the first does.
func (t *text) Caught(id string) string {
	var names []string
	message := ""
	for i := range t.Decisions {
		d := &t.Decisions[i]
		if at := slices.IndexFunc(d.Traps, func(h TrapHit) bool { return h.ID == id }); at >= 0 {
			names, message = append(names, d.Workload), cmp.Or(message, d.Traps[at].Message)
		}
	}
	return plaintext.Some(names, 1, len(names)) + ": " + message
}

// answerText is a decision for the template.
type answerText struct {
	*Decision
	Of *text
}

// Chose is the number of replicas that was chosen for the workload, nil where it was stated.
func (a *answerText) Chose() *ReplicaChoice {
	i := slices.IndexFunc(a.Of.Result.Replicas, func(c ReplicaChoice) bool { return c.Workload == a.Workload })
	if i < 0 {
		return nil
	}
	return &a.Of.Result.Replicas[i]
}

// Risk is the worst that can come of the decision.
func (a *answerText) Risk() string {
	if len(a.Traps) > 0 && a.Traps[0].Severity >= sharing.SeverityHigh {
		return fmt.Sprintf("%s (%s)", a.Traps[0].ID, a.Traps[0].Severity)
	}
	risk := score.TraitOf(a.Mechanism).Risk
	if risk != "" && a.TradeOff != nil && !slices.Contains(a.Of.cites.IDs, a.TradeOff.Source) {
		risk += a.Of.Ref(a.TradeOff.Source)
	}
	return risk
}

// Custom reports whether Command is the front end's own for the proposed measurement; else that is put in words.
func (a *answerText) Custom() bool { return a.Of.opts.Command != nil }

func (a *answerText) Command() string { return a.Of.opts.Command(a.Measurement) }

// manyWorkloads is from where on workloads are grouped by equal answers.
const manyWorkloads = 21

// Many reports whether they are.
func (t *text) Many() bool { return len(t.Decisions) >= manyWorkloads }

// The layout shows at most so many pools, and tenants of a GPU; the rest is counted.
const (
	mostPoolLines = 16
	mostTenants   = 6
)

// planText is the layout for the template: the pools that are shown and those that are counted, in use, the names of
// the others, unused capacity, and the pools that HAMi must run on.
type planText struct {
	Column                 int
	Used, More             []*PoolResult
	Unused, Findings, HAMi []string
}

// Plan describes the layout, pool by pool.
func (t *text) Plan() (p planText) {
	var names []string
	for i := range t.Pools {
		pool := &t.Pools[i]
		if pool.GPUsNeeded == 0 {
			p.Unused = append(p.Unused, pool.Pool)
			continue
		}
		p.Used, names = append(p.Used, pool), append(names, pool.Pool)
		if slices.ContainsFunc(pool.Groups, func(g GroupResult) bool {
			return g.Mechanism == sharing.MechanismHAMi || g.Mechanism == sharing.MechanismHAMiWithMPS
		}) {
			p.HAMi = append(p.HAMi, pool.Pool)
		}
	}
	if len(p.Used) > mostPoolLines {
		slices.SortStableFunc(p.Used, func(a, b *PoolResult) int { return cmp.Compare(b.GPUsNeeded, a.GPUsNeeded) })
		p.Used, p.More = p.Used[:mostPoolLines-1], p.Used[mostPoolLines-1:]
	}
	if p.Findings = t.findings(); len(p.Findings)+len(p.Unused) > 0 {
		names = append(names, "unused")
	}
	p.Column = column(names)
	return p
}

// needed counts the GPUs in use.
func needed(pools []*PoolResult) (n int) {
	for _, p := range pools {
		n += p.GPUsNeeded
	}
	return n
}

// unusedTexts describes a finding of several nodes.
var unusedTexts = map[string]string{
	"empty-instances": "MIG instances that nobody holds",
	"whole-for-slice": "whole GPUs that their work uses in part",
	"free-shares":     "shares that nobody holds",
	"unasked-mode":    "GPUs in a mode that no workload asks for",
}

// findings sums up unused capacity by pool and kind, the most expensive first.
func (t *text) findings() (lines []string) {
	var all []layout.Finding
	var s sums
	for _, f := range t.Findings {
		k := slices.IndexFunc(all, func(o layout.Finding) bool { return o.Pool == f.Pool && o.Kind == f.Kind })
		if k < 0 {
			all = append(all, f)
			continue
		}
		all[k].GPUs += f.GPUs
		all[k].PerHour = s.of(all[k].PerHour.Add(f.PerHour))
	}
	slices.SortStableFunc(all, func(a, b layout.Finding) int {
		return cmp.Or(cmp.Compare(b.PerHour.Micros(), a.PerHour.Micros()), cmp.Compare(b.GPUs, a.GPUs))
	})
	for _, f := range all {
		line := fmt.Sprintf("%s: worth %s of %s", unusedTexts[f.Kind], plaintext.Count(f.GPUs, "GPU"), f.Pool)
		if month := s.of(cost.Monthly(f.PerHour)); f.PerHour.Sign() > 0 && s.err == nil {
			line += fmt.Sprintf(", %s a month", plaintext.Amount(month.Decimal()))
		}
		lines = append(lines, line)
	}
	return lines
}

// tenants lists a GPU's content, equal neighbours together, without positions.
func (l *LayoutResult) tenants() (texts []string) {
	var parts []TenantResult
	for _, in := range l.Instances {
		what := in.Profile + " " + in.Workload
		if k := len(parts) - 1; k >= 0 && parts[k].Workload == what {
			parts[k].Replicas++
			continue
		}
		parts = append(parts, TenantResult{what, 1})
	}
	for k, p := range append(parts, l.Tenants...) {
		if all := len(parts) + len(l.Tenants); k == mostTenants && all > mostTenants+1 {
			return append(texts, fmt.Sprintf("%d more", all-k))
		}
		if p.Replicas > 1 {
			p.Workload = fmt.Sprintf("%d x %s", p.Replicas, p.Workload)
		}
		texts = append(texts, p.Workload)
	}
	return texts
}

// mostGroups bounds the lines of a fleet of many workloads.
const mostGroups = 16

// alike is workloads that have the same answer.
type alike struct {
	Answer           string
	Status           Status
	List             []string
	Placed, Unplaced int
	Worst            *answerText // the one nearest to a limit
	Tight            bool        // it has one
}

// groups are those that the text shows, and the number of workloads of the others.
type groups struct {
	Shown []alike
	More  int
}

// Groups puts many workloads into groups of equal answers: by pool too where that gives few enough, otherwise by
// mechanism alone.
func (t *text) Groups() (g groups) {
	g.Shown = t.grouped((*Decision).Where)
	if len(g.Shown) > mostGroups {
		g.Shown = t.grouped(func(d *Decision) string { return d.Mechanism.String() })
	}
	if len(g.Shown) > mostGroups {
		for _, a := range g.Shown[mostGroups-1:] {
			g.More += len(a.List)
		}
		g.Shown = g.Shown[:mostGroups-1]
	}
	return g
}

func (t *text) grouped(by func(*Decision) string) (out []alike) {
	index := map[string]int{}
	for _, d := range t.Answers() {
		answer := by(d.Decision)
		if d.Status == StatusNone {
			answer = "nothing does"
		}
		key := fmt.Sprint(d.Status, answer)
		k, ok := index[key]
		if !ok {
			k, index[key] = len(out), len(out)
			out = append(out, alike{Answer: answer, Status: d.Status, Worst: d})
		}
		a := &out[k]
		a.List, a.Placed, a.Unplaced = append(a.List, d.Workload), a.Placed+d.Placed, a.Unplaced+d.Unplaced
		if tightness(d) > tightness(a.Worst) {
			a.Worst = d
		}
		a.Tight = tightness(a.Worst) > 0
	}
	slices.SortStableFunc(out, func(a, b alike) int {
		return cmp.Or(slices.Index(statuses, b.Status)-slices.Index(statuses, a.Status),
			-cmp.Compare(len(a.List), len(b.List)), strings.Compare(a.Answer, b.Answer))
	})
	return out
}

// tightness relates a decision's consequences to their limits: 1 = at one.
func tightness(d *answerText) float64 {
	if c := tightest(d.Consequences); c != nil {
		return max(0, c.High/c.Limit)
	}
	return 0
}

// holds reports whether a workload is on a layout's GPUs.
func holds(l *LayoutResult, workload string) bool {
	return slices.ContainsFunc(l.Instances, func(in InstanceResult) bool { return in.Workload == workload }) ||
		slices.ContainsFunc(l.Tenants, func(t TenantResult) bool { return t.Workload == workload })
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

// candidateText is candidates on a pool with the same verdict and reasons.
type candidateText struct {
	Verdict string
	Names   []string
	Pool    string
	Fits    *int // tenants of a GPU; nil where it is ruled out
	Reasons []filter.ReasonText
}

// Listed are the candidates, those together that the same reasons rule out on the same pool.
func (a *answerText) Listed() (out []*candidateText) {
	for i := range a.Candidates {
		c := &a.Candidates[i]
		one := &candidateText{Verdict: c.Verdict.String(), Pool: c.Pool, Reasons: c.deciding()}
		if c.Verdict != filter.VerdictReject {
			one.Fits = &c.Tenants
		}
		if c.Chosen {
			one.Verdict = "chosen"
		}
		if at := slices.IndexFunc(out, func(o *candidateText) bool {
			return o.Fits == nil && one.Fits == nil && o.Pool == one.Pool && slices.Equal(o.Reasons, one.Reasons)
		}); at >= 0 {
			one = out[at]
		} else {
			out = append(out, one)
		}
		one.Names = append(one.Names, choice(c.Mechanism, c.Profile))
	}
	return out
}

// column returns the first column of the text next to these names.
func column(names []string) int {
	at := 0
	for _, n := range names {
		at = max(at, utf8.RuneCountInString(n))
	}
	return min(at, 20) + 4
}
