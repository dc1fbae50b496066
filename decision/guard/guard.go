// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// New returns a guard without observations. It copies the tenants.
func New(r Rules, c Config) (*Guard, error) {
	if r.reap = c.Reap; c.Policy.ReapAfter > 0 {
		r.Policy = c.Policy
	}
	g := &Guard{
		rules: r, gpus: c.GPUs, tenants: slices.Clone(c.Tenants), profiles: c.Profiles, predictor: c.Predictor,
		states: make([]tenantState, len(c.Tenants)), devices: make([]deviceState, len(c.GPUs)),
		others: map[otherKey]*history{},
	}
	for i := range g.devices {
		g.devices[i] = deviceState{lastAct: never, at: -1}
	}
	for i := range g.tenants {
		if t := &g.tenants[i]; t.GPU < 0 || t.GPU >= len(g.gpus) {
			return nil, fmt.Errorf("guard: tenants[%d].gpu: %d is none of %d GPUs", i, t.GPU, len(g.gpus))
		}
		g.lead = append(g.lead, lead(g.tenants, i))
	}
	if g.predictor == nil {
		p := predict.NewPredictor()
		g.predictor = &p
	}
	if g.profiles == nil {
		var err error
		if g.profiles, err = profile.NewProfiles(); err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
	}
	return g, nil
}

// Step takes a window's observation and returns the proposals, usually none. Carry out a proposal only if Withheld is
// empty, and then call Done.
func (g *Guard) Step(o Observation) []Proposal {
	g.window++
	g.acted = slices.DeleteFunc(g.acted, func(at time.Duration) bool { return o.At-at >= time.Hour })
	if g.at > 0 && o.At-g.at > 3*g.rules.Window/2 { // windows are missing
		for i := range g.devices {
			g.devices[i].blind = true
		}
	}
	g.at = o.At
	g.remember(&o)
	var out []Proposal
	for i := range g.gpus {
		if why := g.unsound(&o, i); why == "" {
			g.see(&o.GPUs[i], i)
			continue
		}
		g.devices[i].blind = true
		for k := range g.tenants {
			if g.tenants[k].GPU == i {
				g.states[k].slow, g.states[k].clear = 0, 0
			}
		}
	}
	for i := range g.gpus {
		if !g.devices[i].blind {
			out = append(out, g.slow(&o, i)...)
			out = append(out, g.idle(&o, i)...)
		}
	}
	kept := out[:0]
	for _, p := range out {
		if g.hold(&p) {
			for k := range g.tenants {
				if p.target >= 0 && g.lead[k] == g.lead[p.target] {
					p.Pods = append(p.Pods, o.Tenants[k].Pods...)
				}
			}
			slices.Sort(p.Pods)
			p.Pods = slices.Compact(p.Pods)
			kept = append(kept, p)
		}
	}
	return kept
}

// remember adds the window to the histories.
func (g *Guard) remember(o *Observation) {
	for i := range g.tenants {
		s, seen := &g.states[i], &o.Tenants[i]
		activity, ok := seen.Activity.Get()
		switch {
		case ok:
			s.measured = true
		case !seen.Gone && s.measured:
			activity = math.NaN()
		case !seen.Gone:
			activity = 1 // its presence is all that is ever known
		}
		s.activity.add(activity)
		s.load.add(orNaN(seen.Load))
	}
	for i := range o.GPUs {
		for _, p := range o.GPUs[i].Others {
			key := otherKey{i, p.PID}
			h := g.others[key]
			if h == nil {
				h = &history{}
				// It was not there before.
				for range min(g.window-1, historyKept-1) {
					h.add(0)
				}
				g.others[key] = h
			}
			h.add(p.Activity)
		}
	}
	for key := range g.others {
		if !slices.ContainsFunc(o.GPUs[key.gpu].Others, func(p ProcessSeen) bool { return p.PID == key.pid }) {
			delete(g.others, key)
		}
	}
}

// slow evaluates the latencies of a GPU's tenants.
func (g *Guard) slow(o *Observation, gpu int) (out []Proposal) {
	for i := range g.tenants {
		t, s, seen := &g.tenants[i], &g.states[i], &o.Tenants[i]
		if t.GPU != gpu || !t.online() || seen.Gone {
			continue
		}
		v, ok := seen.TPOT.Get()
		if !ok || o.At-seen.At >= g.rules.Window || !(v > 0) || math.IsInf(v, 0) {
			s.slow, s.clear = 0, 0
			continue
		}
		expect, basis, known := g.expected(i)
		if len(s.learnt) < g.rules.Learn && (!known || v <= expect.High) {
			s.learnt = append(s.learnt, v)
		}
		if !known {
			continue
		}
		limit := expect.High * (1 + g.rules.Margin)
		beyond := v > limit // beyond the expected latency, not only the objective
		if t.LimitMS > 0 {
			limit = min(limit, t.LimitMS)
		}
		if v <= limit {
			s.slow = 0
			s.clear++
			if s.clear >= g.rules.Clear {
				s.alarm, s.proposed = false, ""
			}
			continue
		}
		s.clear = 0
		s.slow++
		if s.slow < g.rules.Slow || s.alarm && s.proposed != ActionKeep && s.slow%g.rules.Clear != 0 {
			continue
		}
		evidence := fmt.Sprintf("%s: TPOT %s over %d windows; %s at most %s",
			t.Name, ms(v), s.slow, basis, ms(expect.High))
		if t.LimitMS > 0 && v > t.LimitMS {
			evidence += ", objective " + ms(t.LimitMS)
		}
		p := g.blame(o, i, evidence)
		if p.Action == ActionKeep && (!beyond || s.alarm || g.lead[i] != i) || s.alarm && p.Action == s.proposed &&
			!p.Action.acts() {
			continue // it was expected, or it or its cause was reported already
		}
		s.alarm, s.proposed = true, p.Action
		out = append(out, p)
	}
	return out
}

// hold withholds an  Action for which it is too early or which is one too many. It
// returns false where the same was withheld for the same reason before.
func (g *Guard) hold(p *Proposal) bool {
	if !p.Action.acts() || p.Withheld != "" {
		return true
	}
	d := &g.devices[p.GPU]
	why := ""
	switch {
	// Idle holdings do not disturb each other: only cures need to be seen to work.
	case p.Action != ActionReap && p.At-d.lastAct < g.rules.Cooldown:
		why = fmt.Sprintf("cool-down: something was done on this GPU less than %v ago", g.rules.Cooldown)
	case len(g.acted) >= g.rules.Budget:
		why = fmt.Sprintf("budget: %d actions in the last hour", g.rules.Budget)
	default:
		g.acted = append(g.acted, p.At)
		if p.Action != ActionReap {
			d.lastAct = p.At
		} else if s := g.target(p); s != nil && s.idle != nil {
			s.idle.asked = p.At
		}
	}
	p.Withheld = why
	if s := g.target(p); s != nil {
		why, s.withheld = s.withheld, why
		return p.Withheld == "" || p.Withheld != why
	}
	return true
}

// target returns the state of the tenant of a proposal; nil for none.
func (g *Guard) target(p *Proposal) *tenantState {
	if p.target < 0 {
		return nil
	}
	return &g.states[p.target]
}

// Done records that a proposal was carried out.
func (g *Guard) Done(p *Proposal) {
	s := g.target(p)
	switch {
	case s == nil:
	case p.Action == ActionNotice && s.idle != nil:
		s.idle.noticed = p.At
	case p.Action == ActionReap:
		s.reaped = true
	case p.Action == ActionCap:
		s.capped = p.Percent / 100
	case p.Action == ActionMove:
		g.tenants[p.target].GPU = *p.To
	}
}
