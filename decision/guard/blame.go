// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// expected returns the TPOT in milliseconds that a tenant should have with its neighbours, and the name of its source.
func (g *Guard) expected(i int) (profile.Interval, string, bool) {
	t, s := &g.tenants[i], &g.states[i]
	in, ok := t.Expect.Get()
	basis := "predicted by its owner"
	if !ok {
		basis = "predicted"
		in, ok = g.predictTPOT(t.GPU, i, func(k int) (profile.Server, profile.Load, bool) {
			server := g.tenants[k].Server
			if c := g.states[k].capped; c > 0 {
				server.SMPercent = sharing.Some(100 * c)
			}
			return server, g.tenants[k].Load, true
		})
	}
	if len(s.learnt) < g.rules.Learn {
		return in, basis, ok
	}
	quiet := slices.Sorted(slices.Values(s.learnt))
	m := quiet[len(quiet)/2]
	switch {
	case !ok:
		// The spread of quiet windows, and a quarter as hosts and clients vary.
		return profile.Interval{Value: m, Low: quiet[0], High: max(1.25*m, quiet[len(quiet)-1])}, "learnt", true
	case in.Contains(m):
		// Where the prediction holds, the range observed is the narrower of the two.
		high := min(in.High, max(1.1*m, quiet[len(quiet)-1]))
		return profile.Interval{Value: m, Low: quiet[0], High: high}, basis + ", and seen to hold,", true
	}
	return in, basis, true
}

// predictTPOT predicts the TPOT in milliseconds of tenant i on a GPU with its other tenants that hold something. use
// gives the server and load of each, or leaves it out. ok is false where one of them has no profile.
func (g *Guard) predictTPOT(gpu, i int, use func(k int) (profile.Server, profile.Load, bool)) (profile.Interval, bool) {
	var group []profile.Solo
	at := -1
	for k := range g.tenants {
		if g.tenants[k].GPU != gpu && k != i || g.states[k].reaped {
			continue
		}
		server, load, in := use(k)
		if !in {
			continue
		}
		solo, err := g.profiles.Solo(server, load)
		if err != nil {
			return profile.Interval{}, false
		}
		if k == i {
			at = len(group)
		}
		group = append(group, solo)
	}
	if at < 0 {
		return profile.Interval{}, false
	}
	out, err := g.predictor.Predict(g.gpus[gpu].Mode, group, predict.MethodClosedForm)
	if err != nil {
		return profile.Interval{}, false
	}
	return out[at].Get(profile.MetricTPOTP50)
}

// suspect is a neighbour that does more since a tenant slowed down.
type suspect struct {
	name      string
	tenant    int     // -1: a process of no tenant
	rise, now float64 // of its share of the GPU's time; or else of its load, or of the GPU's power
	load      bool    // its share of the GPU is not known
	alone     bool    // the only neighbour without a known share or load
	evidence  string
}

// blame names the neighbour that changed when tenant i slowed down, with a remedy. Without such a neighbour it proposes
// a keep.
func (g *Guard) blame(o *Observation, i int, evidence string) Proposal {
	t, s := &g.tenants[i], &g.states[i]
	p := Proposal{
		At: o.At, GPU: t.GPU, Action: ActionKeep, Victim: t.Name, Target: t.Name,
		Evidence: []string{evidence}, victim: i, target: -1,
	}
	suspects := g.suspects(t.GPU, i)
	before, now := s.load.around(g.rules.Slow)
	if len(suspects) == 0 && now > loadRise*before {
		p.Evidence = append(p.Evidence, fmt.Sprintf("its own load rose from %.3g to %.3g; "+
			"no neighbour's share of the GPU did", before, now))
		p.Effect = "nothing that is done to neighbours would help: add a replica, or a larger share"
		return p
	}
	if len(suspects) == 0 {
		suspects = g.eliminate(o, t.GPU, i)
	}
	if len(suspects) == 0 {
		p.Evidence = append(p.Evidence, "no neighbour's share of the GPU grew, nor its own load")
		p.Effect = "not known: the cause is not watched (the host, the network, the model), " +
			"or the prediction is wrong for it"
		return p
	}
	worst := suspects[0]
	p.Target, p.target = worst.name, worst.tenant
	p.Evidence = append(p.Evidence, worst.evidence)
	if worst.tenant >= 0 {
		p.Owner = g.tenants[worst.tenant].Owner
	}
	g.cure(&p, i, worst)
	if p.Action.acts() && p.Withheld == "" {
		p.Withheld = g.contradicted(o, i, worst)
	}
	return p
}

// A server's own page is under its tenant's control. It is contradictory where it has more sequences at once than
// engines run, where its latency is beyond the prediction for the heaviest load of the neighbour, or where the device
// does not show the load that it claims.
const (
	maxSequences = 1024 // vLLM's and SGLang's defaults are 256 to 1,024
	maxSlowdown  = 3    // above the upper end of the prediction with that load
)

// contradicted returns the device's reading or the tenant's own figure that
// contradicts that tenant i is slowed down by a neighbour; "" = none.
func (g *Guard) contradicted(o *Observation, i int, by suspect) string {
	t, seen := &g.tenants[i], &o.Tenants[i]
	tpot := seen.TPOT.Or(0)
	if rate, ok := seen.Load.Get(); ok && rate*tpot/1e3 > maxSequences { // Little's law
		return fmt.Sprintf("contradictory: %.3g tokens a second of %s each would be %.3g sequences at once (at most %d)",
			rate, ms(tpot), rate*tpot/1e3, maxSequences)
	}
	if a, ok := seen.Activity.Get(); ok && a < telemetry.IdleBelow {
		return "contradictory: " + t.Name + " serves by its own page, and takes nothing of the GPU's time"
	}
	worst, known := g.predictTPOT(t.GPU, i, g.suspecting(by, 100))
	if known && tpot > maxSlowdown*worst.High {
		return fmt.Sprintf("contradictory: %s is more than %d times the prediction with the heaviest load of %s",
			ms(tpot), maxSlowdown, by.name)
	}
	if !by.load || by.alone {
		return "" // the driver saw the neighbour's share, or the power rise
	}
	d := &g.devices[t.GPU]
	watts, wattsNow := d.watts.around(g.rules.Slow)
	util, utilNow := d.util.around(g.rules.Slow)
	if !(wattsNow >= powerRise*watts) && !(utilNow-util >= 100*g.rules.Rise) {
		return "contradictory: the load of " + by.name + " rose by its own page, and the GPU does no more than before"
	}
	return ""
}

// suspecting returns the tenants' servers and loads, with a suspect at the heaviest load of which there is a profile
// and a percentage of the threads; with 0% it is left out.
func (g *Guard) suspecting(by suspect, percent float64) func(k int) (profile.Server, profile.Load, bool) {
	return func(k int) (profile.Server, profile.Load, bool) {
		server, load := g.tenants[k].Server, g.tenants[k].Load
		if k == by.tenant {
			load = g.heaviest(k)
			if percent < 100 {
				server.SMPercent = sharing.Some(percent)
			}
		}
		return server, load, k != by.tenant || percent > 0
	}
}

// loadRise is the least growth of a load, as a factor, that explains anything.
const loadRise = 1.3

// suspects lists neighbours with a share that grew by Rise, largest growth first, then those with a higher load.
func (g *Guard) suspects(gpu, victim int) (out []suspect) {
	mps := g.gpus[gpu].Mode == sharing.MechanismMPS
	add := func(name string, tenant int, h history) bool {
		before, now := h.around(g.rules.Slow)
		if math.IsNaN(before) {
			before = 0
		}
		if !(now-before >= g.rules.Rise) {
			return false
		}
		s := suspect{name: name, tenant: tenant, rise: now - before, now: now}
		s.evidence = fmt.Sprintf("%s took %.0f%% of the GPU's time before and takes %.0f%% now", name, 100*before, 100*now)
		if mps && (tenant < 0 || !g.states[tenant].measured) {
			s.evidence = name + " was not there before; the share of the GPU that it takes is not known"
		}
		out = append(out, s)
		return true
	}
	for k := range g.tenants {
		t, s := &g.tenants[k], &g.states[k]
		if k == victim || t.GPU != gpu || add(t.Name, k, s.activity) {
			continue
		}
		// Its load when the victim slowed down counts, not the backlog after a disturbance of both.
		first := s.load.back(g.states[victim].slow - 1)
		if before, now := s.load.around(g.rules.Slow); now > loadRise*before && !(first < 0.9*before) {
			out = append(out, suspect{name: t.Name, tenant: k, rise: now - before, now: now, load: true,
				evidence: fmt.Sprintf("the load of %s rose from %.3g to %.3g", t.Name, before, now)})
		}
	}
	for key, h := range g.others {
		if key.gpu == gpu {
			add(fmt.Sprintf("process %d", key.pid), -1, *h)
		}
	}
	slices.SortFunc(out, func(a, b suspect) int {
		if a.load != b.load { // a share of the GPU is stronger evidence
			return map[bool]int{true: 1, false: -1}[a.load]
		}
		return cmp.Or(cmp.Compare(b.rise, a.rise), cmp.Compare(a.name, b.name))
	})
	return out
}

// powerRise is the least growth of a GPU's power, as a factor, that counts as more work.
const powerRise = 1.15

// eliminate finds the only neighbour of which neither load nor share of the GPU
// is known, where the GPU's power shows that a tenant does more.
func (g *Guard) eliminate(o *Observation, gpu, victim int) (out []suspect) {
	before, now := g.devices[gpu].watts.around(g.rules.Slow)
	if !(now >= powerRise*before) {
		return nil
	}
	add := func(name string, tenant int) {
		out = append(out, suspect{name: name, tenant: tenant, now: now, load: true, alone: true,
			evidence: fmt.Sprintf("the GPU draws %.0f W, %.0f W before; only the activity of %s is not known, "+
				"and no other tenant does more", now, before, name)})
	}
	for k := range g.tenants {
		t, seen := &g.tenants[k], &o.Tenants[k]
		if k != victim && t.GPU == gpu && !seen.Gone && !g.states[k].measured && seen.Load.IsZero() {
			add(t.Name, k)
		}
	}
	for _, p := range o.GPUs[gpu].Others {
		if p.Activity >= 1 {
			add(fmt.Sprintf("process %d", p.PID), -1)
		}
	}
	if len(out) != 1 {
		return nil
	}
	return out
}

// caps are the active thread percentages that are tried, the mildest first.
var caps = []float64{75, 50, 25, 10}

// cure chooses the least disturbing action that is predicted to bring the tenant back within its expected latency: a
// cap under MPS, else a move to a GPU where no tenant then misses its objective, else a split. The neighbour is taken
// at the heaviest load of which there is a profile.
func (g *Guard) cure(p *Proposal, victim int, by suspect) {
	home := g.tenants[victim].GPU
	if by.tenant < 0 {
		p.Action = ActionNotice
		p.Effect = "a process that belongs to no tenant cannot be capped or moved: find its owner, " +
			"or keep it off this GPU"
		return
	}
	expect, _, _ := g.expected(victim)
	now, known := g.predictTPOT(home, victim, g.suspecting(by, 100))
	if known {
		p.Evidence = append(p.Evidence, fmt.Sprintf("with %s at the heaviest load that was profiled, %s is predicted",
			by.name, ms(now.Value)))
	}
	mps := g.gpus[home].Mode == sharing.MechanismMPS
	if !known {
		p.Action = ActionMove
		p.Effect = "not predicted: a tenant of this GPU has no profile (profiles, in the configuration)"
		if mps {
			p.Action, p.Percent = ActionCap, 50
		}
		p.Withheld = "its effect cannot be predicted"
		return
	}
	if mps {
		for _, percent := range caps {
			then, ok := g.predictTPOT(home, victim, g.suspecting(by, percent))
			if ok && then.Value <= expect.High && then.Value < now.Value {
				p.Action, p.Percent = ActionCap, percent
				p.Effect = fmt.Sprintf("%s: TPOT %s expected with %s at %.0f%% of the threads",
					p.Victim, ms(then.Value), by.name, percent)
				return
			}
		}
	}
	best, taken := g.room(home, by)
	for k, of := range g.lead {
		if k != by.tenant && of == g.lead[by.tenant] {
			best = -1 // on several GPUs: one part of it cannot move by itself
		}
	}
	switch then, ok := g.predictTPOT(home, victim, g.suspecting(by, 0)); {
	case best >= 0 && ok && then.Value < now.Value:
		p.Action, p.To = ActionMove, &best
		p.Effect = fmt.Sprintf("%s: TPOT %s expected without %s, which has room on GPU %d: no server runs there, "+
			"and %.0f%% of its time would be taken", p.Victim, ms(then.Value), by.name, best, 100*taken)
	case g.gpus[home].GPU != nil && g.gpus[home].GPU.MIG != nil:
		p.Action = ActionSplit
		p.Effect = fmt.Sprintf("MIG instances would keep %s from disturbing; no other GPU has room, "+
			"and every tenant of this one must stop for it", by.name)
	default:
		p.Effect = fmt.Sprintf("no GPU has room for %s and this one cannot be split: %s stays slow until there is one",
			by.name, p.Victim)
	}
}

// room finds the GPU of the same model that has room for a suspect, has no server
// to disturb, and has the most time left; -1 = none.
func (g *Guard) room(home int, by suspect) (best int, bestTaken float64) {
	best, bestTaken = -1, math.Inf(1)
	for to := range g.gpus {
		if d := &g.gpus[to]; to == home || g.devices[to].blind || d.Mode == sharing.MechanismNone ||
			d.GPU != g.gpus[home].GPU {
			continue
		}
		taken, room, kept := min(1, by.now), 1.0, true
		if by.load {
			taken = g.tenants[by.tenant].Holds
		}
		for k := range g.tenants {
			if g.tenants[k].GPU != to || g.states[k].reaped {
				continue
			}
			room -= g.tenants[k].Holds
			_, a := g.states[k].activity.around(g.rules.Clear)
			taken += a
			kept = kept && !g.tenants[k].online()
		}
		if kept && room+1e-9 >= g.tenants[by.tenant].Holds && taken <= 1 && taken < bestTaken {
			best, bestTaken = to, taken
		}
	}
	return best, bestTaken
}

// heaviest returns the load of a tenant's server under which it kept the GPU busiest when it was profiled.
func (g *Guard) heaviest(k int) profile.Load {
	load := g.tenants[k].Load
	solo, err := g.profiles.Solo(g.tenants[k].Server, load)
	if err != nil {
		return load
	}
	busiest := -1.0
	for _, s := range solo.Siblings {
		if busy, ok := s.GPUBusyFraction.Get(); ok && s.Mechanism == sharing.MechanismTimeSlicing && busy > busiest {
			load, busiest = s.Load, busy
		}
	}
	return load
}
