package capacity

import (
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
)

// why says in words what speaks for the chosen arrangement against each other kind,
// and for its router.
func (s *search) why(ctx context.Context, r *Result) error {
	c := r.Chosen
	if c == nil {
		r.Why = append(r.Why, s.whyNone(r))
		return nil
	}
	done := map[Kind]bool{c.Kind: true}
	for i := range r.Arrangements {
		a := &r.Arrangements[i]
		if done[a.Kind] || a.Verdict == VerdictUnknown && slices.ContainsFunc(r.Arrangements, func(o Arrangement) bool { return o.Kind == a.Kind && o.Verdict == VerdictKept }) {
			continue
		}
		done[a.Kind] = true
		text := s.against(c, a)
		for k := range r.Arrangements {
			if o := &r.Arrangements[k]; o.Kind == a.Kind && o.Verdict == VerdictUnknown && a.Verdict == VerdictKept {
				text += "; " + s.unsure(o)
			}
		}
		r.Why = append(r.Why, text)
	}
	return s.whyRouter(ctx, r)
}

// unsure says which figure of an arrangement leaves its verdict open.
func (s *search) unsure(a *Arrangement) string {
	seen := s.seen(a.report, a.routes)
	j := s.judge(highest(seen))
	if j.tenant < 0 {
		return fmt.Sprintf("%d may do", a.GPUs)
	}
	i, t := seen[j.tenant][j.metric], &s.plan.Tenants[j.tenant]
	if j.metric == shareMetric {
		return fmt.Sprintf("on %d, between %.1f%% and %.1f%% of %s's requests keep their limits, %.1f%% must", a.GPUs, 100*i.Low, 100*i.High, t.Name, 100*t.Objectives.Share)
	}
	for _, l := range t.Objectives.Limits {
		if l.metric() == j.metric {
			return fmt.Sprintf("on %d, %s's %s lies between %s and %s, at most %v", a.GPUs, t.Name, j.metric, milliseconds(i.Low), milliseconds(i.High), l.Most)
		}
	}
	return fmt.Sprintf("%d may do", a.GPUs)
}

// against says why one arrangement is chosen before another.
func (s *search) against(c, a *Arrangement) string {
	name := fmt.Sprintf("%s: %s %s for %v an hour", a.Kind, count(a.GPUs), a.GPU, a.CostPerHour)
	if a.Division != "" {
		name += " (" + a.Division + ")"
	}
	switch {
	case a.Verdict == VerdictMissed:
		return fmt.Sprintf("%s does not do: %s", a.Kind, a.FirstLimit)
	case a.Verdict == VerdictUnknown:
		return fmt.Sprintf("%s may do; to know, %s", name, a.Settle)
	}
	text := fmt.Sprintf("%s, against %v", name, c.CostPerHour)
	if a.CostPerHour.Micros() == c.CostPerHour.Micros() {
		text = name + ", no less"
	}
	for i := range a.found.parts {
		if short := a.found.parts[i].short; short != "" {
			text += "; " + short
		}
	}
	if c.Kind == KindMergedServer || c.Kind == KindAdapters {
		if mine, theirs := cacheTokens(c), cacheTokens(a); theirs > 0 && mine > theirs {
			text += fmt.Sprintf("; a copy of the weights for each tenant leaves %d tokens of KV cache on a GPU, one copy for all %d", theirs, mine)
		}
	}
	return text
}

// cacheTokens is the KV cache of a GPU of an arrangement.
func cacheTokens(a *Arrangement) int {
	if a.report == nil {
		return 0
	}
	all := 0
	for i := range a.report.Services {
		for _, r := range a.report.Services[i].Replicas {
			all += r.KVCapacity
		}
	}
	return all / max(a.GPUs, 1)
}

// whyRouter plays the chosen GPUs with each policy that needs more of them.
func (s *search) whyRouter(ctx context.Context, r *Result) error {
	c := r.Chosen
	own, _ := hits(c.report)
	for _, policy := range predict.RoutePolicies() {
		need, ok := c.ByRouter[policy]
		if !ok || need.GPUs <= c.GPUs && !need.More {
			continue
		}
		with := c.found
		with.router = policy
		seen, j, report, err := s.playAt(ctx, &with, s.load)
		if err != nil {
			return err
		}
		more := ""
		if need.More {
			more = "more than "
		}
		text := fmt.Sprintf("router: with %s it takes %s%d GPUs in place of %d", policy, more, need.GPUs, c.GPUs)
		if hit, any := hits(report); any || own > 0 {
			text += fmt.Sprintf(": %.0f%% of the prompts' tokens are then in the caches that they are sent to, with %s %.0f%%", 100*hit, c.Router, 100*own)
		}
		if j.verdict != VerdictKept {
			text += fmt.Sprintf("; on %d GPUs %s", c.GPUs, s.words(j, seen))
		}
		r.Why = append(r.Why, text)
	}
	return nil
}

// whyNone says why nothing is chosen.
func (s *search) whyNone(r *Result) string {
	for i := range r.Arrangements {
		if a := &r.Arrangements[i]; a.Verdict == VerdictUnknown {
			return fmt.Sprintf("nothing is known to keep the objectives; %s on %s %s may: %s", a.Kind, count(a.GPUs), a.GPU, a.Settle)
		}
	}
	for i := range r.Arrangements {
		if why := s.alone(&r.Arrangements[i].found); why != "" {
			return fmt.Sprintf("no GPU of the plan meets the objectives: even of requests that come one by one, %s", why)
		}
	}
	if len(r.Arrangements) == 0 {
		return "nothing of the plan can be arranged: see what is excluded"
	}
	return "nothing of the plan meets the objectives: " + r.Arrangements[0].FirstLimit
}
