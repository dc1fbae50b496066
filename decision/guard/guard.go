// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/telemetry"
)

// Rules are the guard's thresholds. None is published for this purpose: they
// were chosen on recorded and simulated windows.
type Rules struct {
	Window   time.Duration        `json:"window_ns"`   // of one observation
	Slow     int                  `json:"slow"`        // windows in a row above the expected latency that raise an alarm
	Clear    int                  `json:"clear"`       // windows in a row within it that end one
	Margin   float64              `json:"margin"`      // above the upper end of the expected latency, as a part of it
	Rise     float64              `json:"rise"`        // least growth of a neighbour's share of the GPU's time, 0 to 1
	Cooldown time.Duration        `json:"cooldown_ns"` // least time between two actions on a GPU
	Budget   int                  `json:"budget"`      // actions in an hour, all GPUs together
	Policy   telemetry.ReapPolicy `json:"policy"`
	// Learn is the number of windows from which the usual latency is learnt where nothing is predicted: with 15,
	// two in 190 beginnings within eight quiet minutes of an H100 led to an alarm later, with 20 and 30 none.
	Learn int `json:"learn"`

	reap bool // of the configuration
}

// DefaultRules returns the rules for windows of a length. The cool-down is 30
// windows, the policy the first of telemetry.ReapPolicies.
func DefaultRules(window time.Duration) Rules {
	return Rules{
		Window: window, Slow: 3, Clear: 5, Margin: 0.10, Rise: 0.10, Cooldown: 30 * window, Budget: 100,
		Policy: telemetry.ReapPolicies()[0], Learn: 30,
	}
}

// Action is the name of a kind of proposal.
type Action string

// The actions, the least disturbing first.
const (
	ActionKeep   Action = "keep"
	ActionNotice Action = "notice"
	ActionCap    Action = "cap"
	ActionMove   Action = "move"
	ActionSplit  Action = "split"
	ActionReap   Action = "reap"
)

// Acts reports that the action changes how tenants run.
func (a Action) Acts() bool { return a == ActionCap || a == ActionMove || a == ActionReap }

// A Proposal names an Action with its evidence and the effect to expect.
type Proposal struct {
	At       time.Duration `json:"at_ns"`
	Action   Action        `json:"action"`
	GPU      int           `json:"gpu"`              // index of the device
	Victim   string        `json:"victim,omitempty"` // the tenant that suffers
	Target   string        `json:"target"`           // the tenant or process that the Action concerns
	Owner    string        `json:"owner,omitempty"`
	Pods     []string      `json:"pods,omitempty"`                  // the target's, as namespace/pod
	Percent  float64       `json:"active_thread_percent,omitempty"` // of a cap
	To       *int          `json:"to_gpu,omitempty"`                // index of the device to move to
	Evidence []string      `json:"evidence"`
	Effect   string        `json:"effect"`
	// Withheld is the reason for which the Action is only proposed.
	Withheld string `json:"withheld,omitempty"`

	victim, target int // tenants; -1 = none
}

// Guard holds the state of watching. It is not safe for concurrent use.
type Guard struct {
	rules     Rules
	gpus      []layout.Device
	tenants   []Tenant
	profiles  *profile.Profiles
	predictor *predict.Predictor
	states    []tenantState
	lead      []int // by tenant, the first that is one with it
	devices   []deviceState
	others    map[otherKey]*history
	acted     []time.Duration // of the last hour
	window    int
	at        time.Duration // of the last observation
}

// never lies before every time.
const never = math.MinInt64 / 2 * time.Nanosecond

// deviceState is the memory of a GPU.
type deviceState struct {
	lastAct   time.Duration // never = none
	at        time.Duration // of the newest reading
	blind     bool          // since then
	joules    telemetry.Optional[float64]
	joulesAt  time.Duration
	idleWatts telemetry.Optional[float64] // the least that it drew while nothing ran
	busyWatts telemetry.Optional[float64] // and while something did
	watts     history
	util      history // percent
}

type otherKey struct {
	gpu int
	pid uint32
}

type tenantState struct {
	activity    history
	load        history
	learnt      []float64
	slow, clear int
	alarm       bool
	proposed    Action    // in this alarm
	idle        *idleTime // nil: it works
	reaped      bool
	capped      float64
	withheld    string
	measured    bool // its activity was known at some time
}

// span is a stretch of time.
type span struct{ from, to time.Duration }

// New returns a guard that has seen nothing yet. It keeps a copy of the tenants.
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

// Step takes a window's observation and returns the proposals: none in
// most windows. Carry a proposal out only where Withheld is empty, and then call Done.
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

// slow judges the latencies of a GPU's tenants.
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
			!p.Action.Acts() {
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
	if !p.Action.Acts() || p.Withheld != "" {
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

func ms(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) + " ms" }
