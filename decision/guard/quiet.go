package guard

import (
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/telemetry"
)

// idle finds tenants that hold a GPU without working.
func (g *Guard) idle(o *Observation, gpu int) (out []Proposal) {
	policy, warn := g.rules.Policy, noticeAfter(g.rules.Policy)
	for i := range g.tenants {
		t, s := &g.tenants[i], &g.states[i]
		if t.GPU != gpu || t.Online() {
			continue // a server without requests waits for them
		}
		s.reaped = o.Tenants[i].Gone
		if lead(g.tenants, i) != i {
			continue
		}
		seen := g.together(o, i)
		a, known := seen.Activity.Get()
		switch {
		case seen.Gone:
			g.forget(s)
			continue
		case !known || o.At-seen.At >= g.rules.Window:
			continue
		case a >= telemetry.IdleBelow:
			g.forget(s)
			continue
		case !s.idle:
			s.idle, s.idleSince, s.unseen = true, o.At-g.rules.Window, nil
		case o.At-s.idleSeen > 3*g.rules.Window/2:
			s.unseen = append(s.unseen, span{s.idleSeen, o.At - g.rules.Window})
			if u := s.unseen; len(u) > 1 && u[1].to < o.At-policy.ReapAfter { // only their length counts
				u[1].from -= u[0].to - u[0].from
				s.unseen = u[1:]
			}
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

// together joins what was seen of a tenant on all its GPUs: it does what the busiest part of it does, which is unknown
// where that of one is, and is gone where all are.
func (g *Guard) together(o *Observation, i int) TenantSeen {
	all := o.Tenants[i]
	for k := range g.tenants {
		seen := &o.Tenants[k]
		if k == i || lead(g.tenants, k) != i || seen.Gone {
			continue
		}
		a, known := seen.Activity.Get()
		b, both := all.Activity.Get()
		switch {
		case all.Gone:
			all = *seen
		case !known || !both:
			all.Activity = telemetry.Optional[float64]{}
		default:
			all.Activity = telemetry.Some(max(a, b))
		}
		if g.devices[g.tenants[k].GPU].blind {
			all.Activity = telemetry.Optional[float64]{}
		}
		all.At = min(all.At, seen.At)
	}
	return all
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

// noticeAfter returns the idle time after which a policy warns, half of that before it reaps where it does not say.
func noticeAfter(p telemetry.ReapPolicy) time.Duration {
	if len(p.WarnAfter) > 0 {
		return p.WarnAfter[0]
	}
	return p.ReapAfter / 2
}

// unsound returns the reason to conclude nothing of a GPU in this window; "" = none.
func (g *Guard) unsound(o *Observation, i int) string {
	seen, d := &o.GPUs[i], &g.devices[i]
	last := d.at
	d.at = max(last, seen.At)
	switch {
	case seen.Down != "":
		return "the GPU is down: " + seen.Down
	case o.At-seen.At >= g.rules.Window:
		return fmt.Sprintf("the newest reading is %v old", o.At-seen.At)
	case seen.At > o.At || seen.At < last:
		return "the readings' clock goes backwards"
	}
	util, known := seen.UtilPercent.Get()
	if known && (util < 0 || util > 100) {
		return fmt.Sprintf("a utilization of %v%%", util)
	}
	w, drawn := seen.Watts.Get()
	if drawn && known && util == 0 && w >= min(d.idleWatts.Or(math.Inf(1))+contextWatts, d.busyWatts.Or(math.Inf(1))) {
		return fmt.Sprintf("it draws %.0f W while it is said to run nothing", w)
	}
	sum := 0.0
	for k := range g.tenants {
		t := &o.Tenants[k]
		if g.tenants[k].GPU != i || t.Gone {
			continue
		}
		if t.At > o.At {
			return g.tenants[k].Name + "'s figures are of the future"
		}
		if a, ok := t.Activity.Get(); ok {
			sum += a
		}
		if _, served := t.TPOT.Get(); served && known && util == 0 && o.At-t.At < g.rules.Window {
			return g.tenants[k].Name + " serves while the GPU is said to run nothing"
		}
	}
	if known && sum-util/100 > 0.5 {
		return fmt.Sprintf("the tenants' shares add up to %.0f%% of the GPU, which is said to be busy %.0f%%", 100*sum, util)
	}
	return ""
}

// contextWatts bounds the power of a device above that of its quietest moment while nothing runs, in watts: a
// context that does nothing costs 26 to 50 W on boards with HBM (arXiv 2605.23918).
const contextWatts = 60

// idleRise bounds the mean power over a time that nobody saw, as a multiple of the idle device's, where nothing
// ran: at 75 W idle and 500 W busy, work for 2% of the time exceeds it.
const idleRise = 1.10

// see takes the device's readings, and where some were missing before, keeps
// idle times only if the energy counter shows that nothing ran meanwhile.
func (g *Guard) see(seen *GPUSeen, i int) {
	d := &g.devices[i]
	w, known := seen.Watts.Get()
	d.watts.add(orNaN(seen.Watts))
	d.util.add(orNaN(seen.UtilPercent))
	if util, ok := seen.UtilPercent.Get(); ok && util == 0 && known {
		d.idleWatts = telemetry.Some(min(w, d.idleWatts.Or(w)))
	} else if ok && known && util >= 10 {
		d.busyWatts = telemetry.Some(min(w, d.busyWatts.Or(w)))
	}
	joules, counted := seen.Joules.Get()
	if d.blind {
		before, ok := d.joules.Get()
		span := (seen.At - d.joulesAt).Seconds()
		ran := !ok || !counted || span <= 0 || joules < before || (joules-before)/span > idleRise*d.idleWatts.Or(0)
		for k := range g.tenants {
			s := &g.states[lead(g.tenants, k)]
			switch {
			case g.tenants[k].GPU != i:
			case ran:
				g.forget(s)
			case s.idle && s.idleSeen >= d.joulesAt: // the counter has watched since
				s.idleSeen = g.at - g.rules.Window
			}
		}
	}
	d.blind, d.joules, d.joulesAt = false, seen.Joules, seen.At
}

// forget drops what needs an unbroken observation.
func (g *Guard) forget(s *tenantState) {
	s.slow, s.clear, s.idle, s.noticed, s.tried, s.asked = 0, 0, false, false, false, false
}
