// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// idleTime is an unbroken time in which a tenant ran nothing.
type idleTime struct {
	since, seen time.Duration // up to when it was seen
	unseen      []span        // the parts of it without an observation
	// When a notice was last proposed, when one was carried out, and when reaping was last proposed; never = not yet.
	tried, noticed, asked time.Duration
}

// idle finds tenants that hold a GPU without working.
func (g *Guard) idle(o *Observation, gpu int) (out []Proposal) {
	for i := range g.tenants {
		t, s := &g.tenants[i], &g.states[i]
		if t.GPU != gpu || t.online() {
			continue // a server without requests waits for them
		}
		s.reaped = o.Tenants[i].Gone
		if g.lead[i] != i {
			continue
		}
		seen := g.together(o, i)
		a, known := seen.Activity.Get()
		switch {
		case seen.Gone || known && o.At-seen.At < g.rules.Window && a >= telemetry.IdleBelow:
			g.forget(s)
			continue
		case !known || o.At-seen.At >= g.rules.Window:
			continue
		case s.idle == nil:
			s.idle = &idleTime{since: o.At - g.rules.Window, tried: never, noticed: never, asked: never}
		case o.At-s.idle.seen > 3*g.rules.Window/2:
			s.idle.unseen = append(s.idle.unseen, span{s.idle.seen, o.At - g.rules.Window})
			if u := s.idle.unseen; len(u) > 1 && u[1].to < o.At-g.rules.Policy.ReapAfter { // only their length counts
				u[1].from -= u[0].to - u[0].from
				s.idle.unseen = u[1:]
			}
		}
		s.idle.seen = o.At
		long := o.At - s.idle.since
		p := Proposal{
			At: o.At, GPU: gpu, Target: t.Name, Owner: t.Owner, victim: -1, target: i,
			Evidence: []string{fmt.Sprintf("%s has run nothing for %v", t.Name, long.Round(time.Second))},
		}
		if g.reap(&p, t, s, long) {
			out = append(out, p)
		}
	}
	return out
}

// reap completes the proposal of a notice or of a reaping after so long an idle time, and answers whether it is time
// for one.
func (g *Guard) reap(p *Proposal, t *Tenant, s *tenantState, long time.Duration) bool {
	policy, idle := g.rules.Policy, s.idle
	warn := cmp.Or(policy.WarnAfter, policy.ReapAfter/2)
	if idle.noticed == never {
		if long < warn || p.At-idle.tried < warn {
			return false
		}
		idle.tried = p.At
		p.Action, p.Withheld = ActionNotice, idle.unwatched(p.At, warn)
		p.Effect = fmt.Sprintf("the owner has %v to use it, or to report that it is kept", policy.ReapAfter-warn)
		if !t.MayReap {
			p.Effect = "no more than a notice: the owner has not agreed in writing to lose the tenant's state"
		}
		return true
	}
	if !t.MayReap || long < policy.ReapAfter || p.At-idle.noticed < policy.ReapAfter-warn ||
		p.At-idle.asked < g.rules.Cooldown {
		return false
	}
	p.Action, p.Withheld = ActionReap, idle.unwatched(p.At, policy.ReapAfter)
	p.Effect = fmt.Sprintf("%.2f GPU come free; the owner agreed in writing and got a notice %v ago",
		t.Holds, (p.At - idle.noticed).Round(time.Second))
	if !g.rules.reap {
		p.Withheld = "reaping is off (reap: true, in the configuration)"
	}
	repeated := p.Withheld != "" && p.Withheld == s.withheld
	if p.Withheld != "" {
		s.withheld = p.Withheld
	}
	return !repeated
}

// together joins the observations of a tenant on all its GPUs: it is as active as its busiest part, which is unknown
// where the activity of one part is, and it is gone where all parts are.
func (g *Guard) together(o *Observation, i int) TenantSeen {
	all := o.Tenants[i]
	for k := range g.tenants {
		seen := &o.Tenants[k]
		if k == i || g.lead[k] != i || seen.Gone {
			continue
		}
		a, known := seen.Activity.Get()
		b, both := all.Activity.Get()
		switch {
		case all.Gone:
			all = *seen
		case !known || !both:
			all.Activity = sharing.Optional[float64]{}
		default:
			all.Activity = sharing.Some(max(a, b))
		}
		if g.devices[g.tenants[k].GPU].blind {
			all.Activity = sharing.Optional[float64]{}
		}
		all.At = min(all.At, seen.At)
	}
	return all
}

// watchedPart is the least part of an idle time that must have been observed.
const watchedPart = 0.95

// unwatched returns the reason to conclude nothing from an idle time of which too little was
// observed; "" where enough was of the last stretch and of the whole.
func (s *idleTime) unwatched(at, last time.Duration) string {
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
func (s *idleTime) watched(at time.Duration) float64 {
	var unseen time.Duration
	for _, u := range s.unseen {
		unseen += u.to - u.from
	}
	return 1 - float64(unseen)/float64(at-s.since)
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
		return fmt.Sprintf("it draws %.0f W while it reports that nothing runs", w)
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
			return g.tenants[k].Name + " serves while the GPU reports that nothing runs"
		}
	}
	if known && sum-util/100 > 0.5 {
		return fmt.Sprintf("the tenants' shares add up to %.0f%% of the GPU, which reports to be busy %.0f%%", 100*sum, util)
	}
	return ""
}

// contextWatts bounds the power of a device above that of its quietest moment while nothing runs, in watts: a
// context that does nothing costs 26 to 50 W on boards with HBM (arXiv 2605.23918).
const contextWatts = 60

// idleRise bounds the mean power over a time without observations, as a multiple of the idle device's, where nothing
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
		d.idleWatts = sharing.Some(min(w, d.idleWatts.Or(w)))
	} else if ok && known && util >= 10 {
		d.busyWatts = sharing.Some(min(w, d.busyWatts.Or(w)))
	}
	joules, counted := seen.Joules.Get()
	if d.blind {
		before, ok := d.joules.Get()
		span := (seen.At - d.joulesAt).Seconds()
		ran := !ok || !counted || span <= 0 || joules < before || (joules-before)/span > idleRise*d.idleWatts.Or(0)
		for k := range g.tenants {
			s := &g.states[g.lead[k]]
			switch {
			case g.tenants[k].GPU != i:
			case ran:
				g.forget(s)
			case s.idle != nil && s.idle.seen >= d.joulesAt: // the counter has watched since
				s.idle.seen = g.at - g.rules.Window
			}
		}
	}
	d.blind, d.joules, d.joulesAt = false, seen.Joules, seen.At
}

// forget drops the state that needs an unbroken observation.
func (g *Guard) forget(s *tenantState) { s.slow, s.clear, s.idle = 0, 0, nil }
