package capacity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/sharing"
)

// why says in words what speaks for the chosen arrangement against each other kind, and for its router.
func (s *search) why(ctx context.Context, r *Result) {
	c := r.Chosen
	done := map[Kind]bool{}
	if c == nil {
		text, about := s.whyNone(r)
		if r.Why = append(r.Why, text); about == nil {
			return
		}
		done[about.Kind] = true
	} else {
		done[c.Kind] = true
	}
	for i := range r.Arrangements {
		a := &r.Arrangements[i]
		if done[a.Kind] || a.Verdict == VerdictUnknown && slices.ContainsFunc(r.Arrangements,
			func(o Arrangement) bool { return o.Kind == a.Kind && o.Verdict == VerdictKept }) {
			continue
		}
		done[a.Kind] = true
		text := s.against(c, a)
		for k := range r.Arrangements {
			if o := &r.Arrangements[k]; o.Kind == a.Kind && o.Verdict == VerdictUnknown && a.Verdict == VerdictKept {
				text += "; " + s.unsure(o, a)
			}
		}
		r.Why = append(r.Why, text)
	}
	if c == nil {
		return
	}
	r.Why = append(r.Why, s.restsOn(c))
	s.whyRouter(ctx, r)
}

// restsOn names the sources of the costs of an arrangement's servers.
func (s *search) restsOn(a *Arrangement) string {
	var said []string
	by := map[string][]string{} // servers by what is said of them
	for i := range a.found.parts {
		l := &a.found.parts[i].layout
		for k := range l.servers {
			sv := &l.servers[k]
			step, prompt := s.comesFrom(sv, l.gpu, &sv.engine.Step), s.comesFrom(sv, l.gpu, &sv.engine.PrefillToken)
			text := fmt.Sprintf("a step is %s, a prompt's tokens are %s", step, prompt)
			if step == prompt {
				text = "a step and a prompt's tokens are " + step
			}
			if s.plan.Tenants[sv.tenants[0]].Configure == nil {
				text += ", " + sv.schedule
			}
			if by[text] == nil {
				said = append(said, text)
			}
			by[text] = append(by[text], sv.name)
		}
	}
	for i, text := range said {
		said[i] = strings.Join(by[text], " and ") + ": " + text
	}
	return fmt.Sprintf("what it rests on, %s: %s", a.GPU, strings.Join(said, "; "))
}

// comesFrom names the source of a cost of a server on a GPU.
func (s *search) comesFrom(sv *server, g *gpu, c *costs.Cost) string {
	of := s.plan.Tenants[sv.tenants[0]].Profiles
	switch {
	case c.Basis == sharing.BasisPrior:
		return "a prior (the roofline of its shape)"
	case len(of) == 0:
		return "as the plan has it" // by Tenant.Configure
	case c.Basis == sharing.BasisTransferred:
		if row, err := sharing.LookupGPU(s.profileGPU(&of[0])); err == nil && row != g.row {
			return "carried over from profiles of " + row.Name
		}
	}
	return "read from profiles"
}

// unsure says which figure of an arrangement leaves its verdict open, beside one of the
// same kind that is known to be kept.
func (s *search) unsure(a, beside *Arrangement) string {
	on := fmt.Sprintf("on %d", a.GPUs)
	if a.GPU != beside.GPU {
		on = fmt.Sprintf("on %s %s", count(a.GPUs), a.GPU)
	}
	seen := a.played.seen
	j := s.judge(highest(seen))
	if j.tenant < 0 {
		return fmt.Sprintf("%d may do", a.GPUs)
	}
	i, t := seen[j.tenant][j.metric], &s.plan.Tenants[j.tenant]
	if j.metric == shareMetric {
		return fmt.Sprintf("%s, between %.1f%% and %.1f%% of %s's requests keep their limits, %.1f%% must", on, 100*i.Low,
			100*i.High, t.Name, 100*t.Objectives.Share)
	}
	return fmt.Sprintf("%s, %s's %s lies between %s and %s, at most %s", on, t.Name, j.metric, milliseconds(i.Low),
		milliseconds(i.High), s.limit(j))
}

// against compares the chosen arrangement with another in words; c is not needed where that
// one is not known to be kept.
func (s *search) against(c, a *Arrangement) string {
	name := fmt.Sprintf("%s: %s %s for %v an hour", a.Kind, count(a.GPUs), a.GPU, a.CostPerHour)
	if a.Division != "" {
		name += " (" + a.Division + ")"
	}
	switch {
	case a.Verdict == VerdictMissed:
		return fmt.Sprintf("%s does not do: %s", a.Kind, a.FirstLimit)
	case a.Verdict == VerdictUnknown:
		if a.Tried > 0 {
			return fmt.Sprintf("%s: no number of %s up to %d is likely to do; %s, it may: to know, %s", a.Kind, a.GPU, a.Tried,
				a.found.nearest(), a.Settle)
		}
		return fmt.Sprintf("%s may do; to know, %s", name, a.Settle)
	}
	text := fmt.Sprintf("%s, against %v", name, c.CostPerHour)
	if a.CostPerHour.Micros() == c.CostPerHour.Micros() {
		text = name + ", no less"
		if mine, theirs := c.Headroom.Or(0), a.Headroom.Or(0); mine > theirs {
			text += fmt.Sprintf(", and known to be kept up to %gx the load where %s is up to %gx", theirs, c.Kind, mine)
		}
	}
	for i := range a.found.parts {
		if short := a.found.parts[i].short; short != "" {
			text += "; " + short
		}
	}
	if a.Kind == KindOwnGPU && a.GPUs == len(a.Servers) && a.GPUs > 1 {
		text += fmt.Sprintf("; each of its %d servers takes a GPU, busy %.0f%% of the time", a.GPUs, 100*a.Utilisation)
	}
	for _, e := range s.excluded {
		k := slices.IndexFunc(s.gpus, func(g *gpu) bool { return g.Name == e.GPU })
		if e.Kind == a.Kind.String() && k >= 0 && len(a.found.parts) == 1 &&
			s.gpus[k].PricePerHour.Micros() < a.found.parts[0].layout.gpu.PricePerHour.Micros() {
			text += fmt.Sprintf("; not on %s: %s", e.GPU, e.Reason)
		}
	}
	if c.Kind == KindMergedServer || c.Kind == KindAdapters {
		if mine, theirs := cacheTokens(c), cacheTokens(a); theirs > 0 && mine > theirs {
			text += fmt.Sprintf("; a copy of the weights for each tenant leaves %d tokens of KV cache on a GPU, one copy for "+
				"all %d", theirs, mine)
		}
	}
	return text
}

// cacheTokens is the KV cache of a GPU of an arrangement.
func cacheTokens(a *Arrangement) int {
	all := 0
	for i := range a.played.report.Services {
		for _, r := range a.played.report.Services[i].Replicas {
			all += r.KVCapacity
		}
	}
	return all / max(a.GPUs, 1)
}

// whyRouter plays the chosen GPUs with each policy that needs more of them.
func (s *search) whyRouter(ctx context.Context, r *Result) {
	c := r.Chosen
	own, _ := hits(c.played.report)
	for _, policy := range serving.RoutePolicies() {
		need, ok := c.ByRouter[policy]
		if !ok || need.GPUs <= c.GPUs && !need.More {
			continue
		}
		with := c.found
		with.router = policy
		p := s.playAt(ctx, &with, s.load)
		more := ""
		if need.More {
			more = "more than "
		}
		text := fmt.Sprintf("router: with %s it takes %s%d GPUs in place of %d", policy, more, need.GPUs, c.GPUs)
		if hit, any := hits(p.report); any || own > 0 {
			text += fmt.Sprintf(": %.0f%% of the prompts' tokens are then in the caches that they are sent to, with %s %.0f%%",
				100*hit, c.Router, 100*own)
		}
		if p.verdict != VerdictKept {
			text += fmt.Sprintf("; on %d GPUs %s", c.GPUs, s.words(p))
		}
		r.Why = append(r.Why, text)
	}
}

// whyNone gives the reason for choosing nothing, and the arrangement that it is about; nil where that says all.
func (s *search) whyNone(r *Result) (string, *Arrangement) {
	if len(r.Arrangements) == 0 {
		return "nothing of the plan can be arranged: see what is excluded", nil
	}
	var likely, nearest *Arrangement
	alone := 0
	for i := range r.Arrangements {
		a := &r.Arrangements[i]
		if a.Verdict == VerdictUnknown && (likely == nil || a.found.kept && !likely.found.kept) {
			likely = a
		}
		if nearest == nil || a.found.over < nearest.found.over {
			nearest = a
		}
		if s.alone(&a.found) != "" {
			alone++
		}
	}
	switch {
	case likely != nil && likely.Tried > 0:
		return "nothing is known to keep the objectives; " + s.against(nil, likely), likely
	case likely != nil:
		return fmt.Sprintf("nothing is known to keep the objectives; %s on %s %s may: %s", likely.Kind, count(likely.GPUs),
			likely.GPU, likely.Settle), likely
	case alone == len(r.Arrangements):
		return fmt.Sprintf("no GPU of the plan meets the objectives: even of requests that come one by one, %s",
			s.alone(&nearest.found)), nil
	}
	return fmt.Sprintf("nothing of the plan meets the objectives; nearest is %s: %s", nearest.Kind, nearest.FirstLimit),
		nearest
}
