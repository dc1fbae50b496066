package guard

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/telemetry"
)

// idle finds tenants that hold a GPU without working.
func (g *Guard) idle(o *Observation, gpu int) (out []Proposal) {
	policy, warn := g.rules.Policy, noticeAfter(g.rules.Policy)
	for i := range g.tenants {
		t, s, seen := &g.tenants[i], &g.states[i], &o.Tenants[i]
		if t.GPU != gpu || t.Online() {
			continue // a server without requests waits for them
		}
		a, known := seen.Activity.Get()
		s.reaped = seen.Gone
		switch {
		case seen.Gone:
			g.forget(s)
			continue
		case !known || o.At-seen.At >= g.rules.Window:
			continue
		case a >= idleBelow:
			g.forget(s)
			continue
		case !s.idle:
			s.idle, s.idleSince, s.unseen = true, o.At-g.rules.Window, nil
		case o.At-s.idleSeen > 3*g.rules.Window/2:
			s.unseen = append(s.unseen, span{s.idleSeen, o.At - g.rules.Window})
		}
		s.idleSeen = o.At
		for_ := o.At - s.idleSince
		evidence := []string{fmt.Sprintf("%s has run nothing for %v", t.Name, for_.Round(time.Second))}
		p := Proposal{
			At: o.At, GPU: g.gpus[gpu].Index, Target: t.Name, Owner: t.Owner, Evidence: evidence,
			victim: -1, target: i, home: gpu,
			Checks: &Checks{ReadingAge: o.At - o.GPUs[gpu].At, Idle: for_, Watched: s.watched(o.At)},
		}
		switch {
		case !s.noticed && for_ >= warn && (!s.tried || o.At-s.triedAt >= warn):
			s.tried, s.triedAt = true, o.At
			p.Action = ActionNotice
			p.Effect = fmt.Sprintf("the owner has %v to use it, or to say that it is kept",
				policy.ReapAfter-warn)
			if !t.MayReap {
				p.Effect = "no more than a notice: the owner has not agreed in writing to lose the tenant's state"
			}
			p.Withheld = s.unwatched(o.At, warn)
			out = append(out, p)
		case s.noticed && t.MayReap && for_ >= policy.ReapAfter && o.At-s.noticedAt >= policy.ReapAfter-warn &&
			(!s.asked || o.At-s.askedAt >= g.rules.Cooldown):
			p.Action = ActionReap
			p.Effect = fmt.Sprintf("%.2f GPU come free; the owner agreed in writing and was told %v ago",
				t.Holds, (o.At - s.noticedAt).Round(time.Second))
			if p.Withheld = s.unwatched(o.At, policy.ReapAfter); !g.rules.reap {
				p.Withheld = "reaping is off (reap: true, in the configuration)"
			}
			if p.Withheld != "" {
				if p.Withheld == s.withheld {
					continue // it was said
				}
				s.withheld = p.Withheld
			}
			out = append(out, p)
		}
	}
	return out
}

// watchedPart is the least part of an idle time that must have been observed.
const watchedPart = 0.95

// unwatched returns the reason to conclude nothing from an idle time of which too little was
// observed; "" where enough was of the last stretch and of the whole.
func (s *tenantState) unwatched(at, last time.Duration) string {
	var lately time.Duration
	for _, u := range s.unseen {
		lately += max(0, u.to-max(u.from, at-last))
	}
	if float64(lately) > (1-watchedPart)*float64(last) || s.watched(at) < watchedPart {
		return fmt.Sprintf("less than %.0f%% of the idle time was observed", 100*watchedPart)
	}
	return ""
}

// watched returns the part of an idle time that was observed.
func (s *tenantState) watched(at time.Duration) float64 {
	var unseen time.Duration
	for _, u := range s.unseen {
		unseen += u.to - u.from
	}
	return 1 - float64(unseen)/float64(at-s.idleSince)
}

// idleBelow is the share of the GPU's time under which a tenant does nothing: NVML's resolution is one percent.
const idleBelow = 0.01

// noticeAfter returns the idle time after which a policy warns, half of that before it reaps where it does not say.
func noticeAfter(p telemetry.ReapPolicy) time.Duration {
	if len(p.WarnAfter) > 0 {
		return p.WarnAfter[0]
	}
	return p.ReapAfter / 2
}
