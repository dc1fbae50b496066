// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// attempts bounds the decisions around workloads that cannot move, and rounds the targets that are tried for one
// decision.
const attempts, rounds = 16, 8

// Make plans a change of the fleet's placement. A plan without steps has the reason in Why. Workloads without a present
// placement are new and get places, as MIG instances if they request a profile; new workloads without a place are in
// Stays with the reason, and [Plan.Waits] names them. Options and errors are those of [decision.Decide]; a fleet
// without state (Today) is an error.
func Make(ctx context.Context, f *decision.Fleet, opts decision.Options) (*Plan, error) {
	return plan(ctx, f, opts, nil)
}

// Admit places new workloads and waiting replicas on free devices, and moves running ones only if necessary
// ([Plan.Disturbs] reports it). Use it to find out whether new workloads fit. Options and errors are those of Make.
func Admit(ctx context.Context, f *decision.Fleet, opts decision.Options) (*Plan, error) {
	p, err := plan(ctx, f, opts, func(c *cluster) {
		for w := range c.runs {
			if c.running(w) == c.wants[w] && c.stays[w] == "" {
				c.stays[w] = "it runs, and the question is what comes"
			}
		}
	})
	if err != nil || p.Changes() && len(p.Waits()) == 0 {
		return p, err
	}
	more, err := Make(ctx, f, opts)
	if err == nil && p.Changes() && len(more.Waits()) >= len(p.Waits()) {
		return p, nil
	}
	return more, err
}

// plan makes a plan in which workloads that cannot move stay; hold may add to them.
func plan(ctx context.Context, f *decision.Fleet, opts decision.Options, hold func(*cluster)) (*Plan, error) {
	f, _, err := decision.ResolveReplicas(ctx, f, opts)
	if err != nil {
		return nil, err
	}
	c, err := read(ctx, f, opts)
	if err != nil {
		return nil, err
	}
	if hold != nil {
		hold(c)
	}
	lost := ""
	for range attempts {
		p, again, err := c.attempt(ctx)
		if err == nil && len(again) == 0 && !p.Changes() {
			p.Why = cmp.Or(lost, p.Why)
		}
		if err != nil || len(again) == 0 {
			return p, err
		}
		lost = cmp.Or(lost, c.keep(again))
	}
	return c.leave("no order of steps was found in which every replica keeps a device"), nil
}

// keep records more workloads that have to stay. lost names an arriving workload that has no place, if any.
func (c *cluster) keep(again map[string]string) (lost string) {
	for _, w := range sortedKeys(again) {
		switch {
		case c.of[w].Today == nil:
			c.stays[w] = "it has no place: " + again[w]
			lost = cmp.Or(lost, w+" has no place: "+again[w])
		case c.running(w) > 0 && c.wants[w] > c.running(w):
			c.wants[w] = c.running(w) // those that wait go on waiting
		default:
			c.stays[w] = again[w]
		}
	}
	return lost
}

// attempt plans with the workloads that may move. again names workloads that have to stay as well, for another attempt.
func (c *cluster) attempt(ctx context.Context) (p *Plan, again map[string]string, err error) {
	rest, asking := c.residual(c.fixedNodes())
	free := 0
	for w := range c.bounds {
		if c.stays[w] == "" {
			free++
		}
	}
	if len(rest.Workloads)+len(asking)+free == 0 {
		held := 0
		for w := range c.stays {
			if c.held[w] {
				held++
			}
		}
		why := fmt.Sprintf("%s can't be moved, and more must be known of %s", plaintext.Count(held, "workload"),
			plaintext.Count(len(c.stays)-held, "other"))
		if held == len(c.stays) {
			why = "all that runs stays where it is, for the reasons listed"
		} else if held == 0 {
			why = "nothing that runs may be moved before more is known of it"
		}
		return c.leave(why), nil, nil
	}
	if len(rest.Pools) == 0 && len(rest.Workloads) > 0 {
		return c.leave("every node holds something that stays where it is, and has no device free"), nil, nil
	}
	r := &decision.Result{}
	if len(rest.Workloads) > 0 {
		if r, err = decision.Decide(ctx, rest, c.opts); err != nil {
			return nil, nil, err
		}
	}
	again = map[string]string{}
	bound := false
	for i := range r.Decisions {
		switch d := &r.Decisions[i]; {
		case d.Unplaced > 0 && d.Placed > 0: // Why is of the replicas that have a place
			again[d.Workload] = fmt.Sprintf("only %d of %d replicas find room", d.Placed, d.Placed+d.Unplaced)
		case d.Unplaced > 0 && c.of[d.Workload].Today == nil:
			again[d.Workload] = d.Why
		case d.Unplaced > 0:
			again[d.Workload] = "nothing better has room for all of its replicas: " + d.Why
		case d.Status != decision.StatusProvisional || c.of[d.Workload].Today == nil:
		case c.bound(d.Workload, NotEnough+reason(d)):
			bound = true
		default:
			again[d.Workload] = NotEnough + reason(d)
		}
	}
	if len(again) > 0 {
		return nil, again, nil
	}
	if bound {
		return c.attempt(ctx)
	}
	// Workloads that cannot move are left in place, and the decision for the others remains valid.
	for round := range rounds {
		s, lost := c.target(r, asking)
		if len(lost) > 0 {
			return nil, lost, nil
		}
		if p, again, err = c.propose(s, r, round == rounds-1); err != nil || len(again) == 0 {
			return p, nil, err
		}
		for w := range again {
			if c.of[w].Today == nil || c.wants[w] > c.running(w) {
				return nil, again, nil
			}
		}
		c.keep(again)
	}
	return p, nil, nil
}

// propose plans the way to a target, part by part. again names workloads for which it is none; with last set parts with
// such are left out instead.
func (c *cluster) propose(s *search, r *decision.Result, last bool) (p *Plan, again map[string]string, err error) {
	all := c.parts(s.layout)
	again, err = c.worse(s, all)
	if err != nil {
		return nil, nil, err
	}
	steps, stuck := s.ordered(all)
	if len(stuck) > 0 && len(again) == 0 {
		s.reach(all, steps, stuck)
		all = c.parts(s.layout)
		steps, _ = s.ordered(all)
	}
	for _, one := range all {
		if slices.ContainsFunc(one.workloads, func(w string) bool { return again[w] != "" }) {
			delete(steps, one)
		}
	}
	if len(again) > 0 && !last {
		return nil, again, nil
	}
	for w := range stuck {
		c.stays[w] = cmp.Or(c.stays[w], "no device is free to start it on before it stops")
	}
	p, err = c.weigh(s, slices.DeleteFunc(all, func(p *part) bool { return steps[p] == nil }), steps, r)
	return p, nil, err
}

// ordered finds the steps of parts. stuck has the workloads without steps, with the layout that their part can reach.
func (s *search) ordered(all []*part) (steps map[*part][]Step, stuck map[string]*layout.Cluster) {
	steps, stuck = map[*part][]Step{}, map[string]*layout.Cluster{}
	then := replicas(s.layout)
	for _, one := range all {
		found, waits, reached := s.order(one, then)
		if len(waits) == 0 {
			steps[one] = found
		}
		for _, w := range waits {
			stuck[w] = reached
		}
	}
	return steps, stuck
}

// reach removes from a target the moves without an order of steps, and those that then save nothing.
func (s *search) reach(all []*part, steps map[*part][]Step, stuck map[string]*layout.Cluster) {
	for _, one := range all {
		if steps[one] != nil {
			continue
		}
		reached := s.layout
		for _, w := range one.workloads {
			if l := stuck[w]; l != nil {
				reached = l
				delete(s.kinds, w)
			}
		}
		s.layout = with(s.layout, one, reached)
	}
	s.layout = layout.Match(s.cluster.layout, s.layout)
	s.prune()
	s.restore()
}

// weigh makes the plan of those parts of a target that are worth it: each mends something, gives a place to somebody,
// or saves more than is uncertain about it.
func (c *cluster) weigh(s *search, parts []*part, steps map[*part][]Step, r *decision.Result) (*Plan, error) {
	p := c.newPlan()
	after, err := c.answers(s, parts)
	if err != nil {
		return nil, err
	}
	var taken []*part
	moved, before, all := c.moved(s.layout), c.perHour(c.layout), total(s.layout)
	mends := func(w string) bool {
		return c.before[w] == sharing.AnswerNo && after[w] != sharing.AnswerNo && s.running(w) > 0
	}
	for _, one := range parts {
		next := with(p.After, one, s.layout)
		needed := slices.ContainsFunc(one.workloads, func(w string) bool { return mends(w) || c.running(w) < all[w] })
		if then := c.perHour(next); needed || (before-then)*hoursPerMonth > c.uncertain(moved, one.workloads) {
			p.After, before, taken = next, then, append(taken, one)
			p.Steps = append(p.Steps, steps[one]...)
		}
	}
	if len(parts) == 0 {
		return c.leave("what runs today is the best that was found"), nil
	}
	if len(taken) == 0 {
		return c.leave("the best change that was found saves no more than is uncertain about it"), nil
	}
	p.Cost = c.costs(p.After)
	answers := maps.Clone(c.before)
	maps.Copy(answers, after)
	p.answers(c.before, answers)
	p.rows(c, s.now, answers)
	p.Stays = c.reasons(p.Rows)
	come := p.come()
	for _, one := range taken {
		for _, w := range one.workloads {
			if mends(w) && !slices.Contains(come, w) {
				p.Mends = append(p.Mends, w)
			}
		}
	}
	slices.Sort(p.Mends)
	p.Why = p.Summary()
	p.Result = p.documented(c, s.now, r)
	return p, nil
}

func reason(d *decision.Decision) string {
	if len(d.Assumes) > 0 {
		return "assumed is that " + d.Assumes[0].What
	}
	return d.Why
}
