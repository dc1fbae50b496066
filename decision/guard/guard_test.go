// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

var h200 = layout.GPUOf("NVIDIA H200")

// scenario is one GPU with a server that should take 10 ms a token, a batch job and a notebook.
type scenario struct {
	*Guard
	t *testing.T
	o Observation
	w time.Duration
	// mute makes every notice fail.
	mute bool
}

func newScenario(t *testing.T, change func(tenants []Tenant)) *scenario {
	t.Helper()
	tenants := []Tenant{
		{Name: "a/chat", Kind: decision.KindOnlineInference, Expect: sharing.Some(profile.Interval{Value: 10, Low: 9, High: 11}), Holds: 0.3},
		{Name: "b/nightly", Kind: decision.KindBatch, Holds: 0.3},
		{Name: "c/book", Kind: decision.KindNotebook, Holds: 0.3, MayReap: true},
	}
	if change != nil {
		change(tenants)
	}
	g := must.Get(New(DefaultRules(time.Minute), Config{GPUs: []layout.Device{{GPU: h200, Mode: sharing.MechanismTimeSlicing}}, Tenants: tenants, Reap: true}))(t)
	s := &scenario{Guard: g, t: t}
	s.o = Observation{GPUs: make([]GPUSeen, 1), Tenants: make([]TenantSeen, len(tenants))}
	s.o.GPUs[0] = GPUSeen{UtilPercent: sharing.Some(50.0), Watts: sharing.Some(300.0)}
	s.o.Tenants[0] = TenantSeen{TPOT: sharing.Some(10.0), Activity: sharing.Some(0.2)}
	s.o.Tenants[1] = TenantSeen{Activity: sharing.Some(0.2)}
	s.o.Tenants[2] = TenantSeen{Activity: sharing.Some(0.1)}
	return s
}

// run lets windows pass, with fresh figures that change may alter.
func (s *scenario) run(windows int, change func(o *Observation)) (out []Proposal) {
	for range windows {
		s.w += time.Minute
		o := s.o
		o.At = s.w
		o.GPUs, o.Tenants = append([]GPUSeen(nil), s.o.GPUs...), append([]TenantSeen(nil), s.o.Tenants...)
		o.GPUs[0].At = s.w
		for i := range o.Tenants {
			o.Tenants[i].At = s.w
		}
		if change != nil {
			change(&o)
		}
		list := s.Step(o)
		for i := range list {
			if list[i].Action == ActionNotice && !s.mute {
				s.Done(&list[i])
			}
		}
		out = append(out, list...)
	}
	return out
}

func (s *scenario) none(why string, list []Proposal) {
	s.t.Helper()
	for i := range list {
		s.t.Errorf("%s: %s %s: %q", why, list[i].Action, list[i].Target, list[i].Evidence)
	}
}

func TestNoAlarmWithoutReason(t *testing.T) {
	s := newScenario(t, nil)
	s.none("quiet", s.run(100, nil))
	slow := func(o *Observation) { o.Tenants[0].TPOT = sharing.Some(20.0) }
	s.none("two slow windows", s.run(2, slow))
	s.none("quiet again", s.run(1, nil))
	s.none("two more", s.run(2, slow))
}

func TestTheNeighbourThatChangedIsNamed(t *testing.T) {
	s := newScenario(t, nil)
	s.run(20, nil)
	noisy := func(o *Observation) {
		o.Tenants[0].TPOT = sharing.Some(20.0)
		o.Tenants[1].Activity = sharing.Some(0.7)
		o.GPUs[0].UtilPercent = sharing.Some(95.0)
	}
	got := s.run(3, noisy)
	if len(got) != 1 || got[0].Target != "b/nightly" || got[0].Victim != "a/chat" || got[0].Action != ActionMove || got[0].Withheld == "" {
		t.Fatalf("%+v", got)
	}
	s.none("reported already", s.run(2, func(o *Observation) { noisy(o); o.Tenants[1].Activity = sharing.Some(0.72) })[:0])

	// A process that belongs to no tenant is named as well.
	s = newScenario(t, nil)
	s.run(20, nil)
	got = s.run(3, func(o *Observation) {
		o.Tenants[0].TPOT = sharing.Some(20.0)
		o.GPUs[0].Others = []ProcessSeen{{PID: 4711, Activity: 0.6}}
	})
	if len(got) != 1 || got[0].Target != "process 4711" || got[0].Action != ActionNotice {
		t.Fatalf("%+v", got)
	}
}

// Under MPS a process that was there before cannot be seen to do more: it is
// named where it is the only one, and the GPU's power shows more work.
func TestOnlyUnknownNeighbourIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		watts float64
		untie bool // the batch job has no load either
		want  string
	}{
		"one unknown":         {600, false, "c/book"},
		"two unknown":         {600, true, "a/chat"},
		"power as it was":     {300, false, "a/chat"},
		"power a little more": {320, false, "a/chat"},
	} {
		s := newScenario(t, nil)
		s.gpus[0].Mode = sharing.MechanismMPS
		for i := range s.o.Tenants {
			s.o.Tenants[i].Activity = none()
		}
		s.o.Tenants[0].Load = sharing.Some(100.0)
		if !c.untie {
			s.o.Tenants[1].Load = sharing.Some(5.0)
		}
		s.none("quiet", s.run(20, nil))
		got := s.run(3, func(o *Observation) {
			o.Tenants[0].TPOT, o.GPUs[0].Watts = sharing.Some(20.0), sharing.Some(c.watts)
		})
		if len(got) != 1 || got[0].Target != c.want || (c.want == "a/chat") != (got[0].Action == ActionKeep) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A reading of shares that is missing is not a neighbour that takes everything.
func TestAMissingShareIsNotARise(t *testing.T) {
	s := newScenario(t, nil)
	s.run(20, nil)
	got := s.run(3, func(o *Observation) {
		o.Tenants[0].TPOT = sharing.Some(20.0)
		o.Tenants[1].Activity, o.Tenants[2].Activity = none(), none()
	})
	if len(got) != 1 || got[0].Action != ActionKeep {
		t.Fatalf("%+v", got)
	}
}

func TestItsOwnLoadIsNotANeighboursFault(t *testing.T) {
	s := newScenario(t, nil)
	s.o.Tenants[0].Load = sharing.Some(2.0)
	s.run(20, nil)
	got := s.run(5, func(o *Observation) {
		o.Tenants[0].TPOT, o.Tenants[0].Load = sharing.Some(20.0), sharing.Some(6.0)
	})
	if len(got) != 1 || got[0].Action != ActionKeep || !strings.Contains(got[0].Evidence[1], "its own load rose") {
		t.Fatalf("%+v", got)
	}
}

func TestNothingOnBadReadings(t *testing.T) {
	slow := func(o *Observation) {
		o.Tenants[0].TPOT = sharing.Some(30.0)
		o.Tenants[1].Activity = sharing.Some(0.7)
		o.Tenants[2].Activity = sharing.Some(0.0)
	}
	for name, bad := range map[string]func(o *Observation){
		"stale device":       func(o *Observation) { o.GPUs[0].At = 20 * time.Minute },
		"device down":        func(o *Observation) { o.GPUs[0].Down = "hung" },
		"from the future":    func(o *Observation) { o.GPUs[0].At += time.Hour },
		"above 100 percent":  func(o *Observation) { o.GPUs[0].UtilPercent = sharing.Some(250.0) },
		"idle, but it draws": func(o *Observation) { o.GPUs[0].UtilPercent = sharing.Some(0.0); o.Tenants[0].TPOT = none() },
		"idle, but serves":   func(o *Observation) { o.GPUs[0].UtilPercent = sharing.Some(0.0); o.GPUs[0].Watts = none() },
		"shares beyond all": func(o *Observation) {
			o.GPUs[0].UtilPercent = sharing.Some(20.0)
			o.Tenants[0].Activity = sharing.Some(0.9)
		},
	} {
		s := newScenario(t, nil)
		s.run(20, nil)
		s.none(name, s.run(200, func(o *Observation) { slow(o); bad(o) }))
	}
}

func none() sharing.Optional[float64] { return sharing.Optional[float64]{} }

func TestReaping(t *testing.T) {
	idle := func(o *Observation) { o.Tenants[2].Activity = sharing.Some(0.0) }
	s := newScenario(t, nil)
	got := s.run(61, idle)
	if len(got) != 2 || got[0].Action != ActionNotice || got[0].At != 15*time.Minute || got[1].Action != ActionReap || got[1].At != 60*time.Minute {
		t.Fatalf("%+v", got)
	}
	// Without consent in writing there is no more than a notice.
	s = newScenario(t, func(ts []Tenant) { ts[2].MayReap = false })
	if got := s.run(600, idle); len(got) != 1 || got[0].Action != ActionNotice {
		t.Fatalf("%+v", got)
	}
	// Work starts the clock again.
	s = newScenario(t, nil)
	s.run(50, idle)
	s.run(1, nil)
	if got := s.run(50, idle); len(got) != 1 || got[0].Action != ActionNotice {
		t.Fatalf("%+v", got)
	}
	// A time without observation counts as idle only by the energy counter.
	for name, c := range map[string]struct {
		joules float64
		reaped bool
	}{"nothing ran": {30 * 60 * 80, true}, "something ran": {30 * 60 * 300, false}} {
		s = newScenario(t, nil)
		s.o.GPUs[0].UtilPercent, s.o.GPUs[0].Watts = sharing.Some(0.0), sharing.Some(75.0)
		s.o.Tenants[0] = TenantSeen{}
		s.o.Tenants[1].Activity = sharing.Some(0.0)
		s.tenants[1].Kind = decision.KindOnlineInference // only the notebook can be idle here
		counted := 0.0
		count := func(o *Observation) { counted += 75 * 60; o.GPUs[0].Joules = sharing.Some(counted); idle(o) }
		s.run(25, count)
		s.run(30, func(o *Observation) { o.GPUs[0].Down = "hung" })
		counted += c.joules
		reaped := false
		for _, p := range s.run(10, count) {
			reaped = reaped || p.Action == ActionReap
		}
		if reaped != c.reaped {
			t.Errorf("%s meanwhile: reaped %v", name, reaped)
		}
	}
}

// TestNoReapWithoutNotice fails every notice, or lets it succeed late: no tenant is reaped without a notice long enough
// before, and the effect names its time.
func TestNoReapWithoutNotice(t *testing.T) {
	idle := func(o *Observation) { o.Tenants[2].Activity = sharing.Some(0.0) }
	s := newScenario(t, nil)
	s.mute = true
	for _, p := range s.run(300, idle) {
		if p.Action != ActionNotice {
			t.Errorf("without notice: %s at %v: %s", p.Action, p.At, p.Effect)
		}
	}
	s.mute = false // the next one, at 5h15m, succeeds
	got := s.run(61, idle)
	if len(got) != 2 || got[0].Action != ActionNotice || got[1].Action != ActionReap || got[1].At-got[0].At != 45*time.Minute ||
		!strings.Contains(got[1].Effect, "a notice 45m0s ago") {
		t.Errorf("%+v", got)
	}
}

// TestHardlyWatchedIsNotIdle hides most of an hour in which something may have run.
func TestHardlyWatchedIsNotIdle(t *testing.T) {
	idle := func(o *Observation) { o.Tenants[2].Activity = sharing.Some(0.0) }
	hidden := func(o *Observation) { o.Tenants[2].Activity = none() }
	check := func(name string, list []Proposal) {
		t.Helper()
		for _, p := range list {
			if p.Withheld == "" {
				t.Errorf("%s: %s at %v: %q", name, p.Action, p.At, p.Evidence)
			}
		}
	}
	s := newScenario(t, nil)
	for range 30 { // known in 1 window of 10, the GPU 60% busy
		busy := func(o *Observation) { o.GPUs[0].UtilPercent = sharing.Some(60.0) }
		check("1 of 10", s.run(1, func(o *Observation) { idle(o); busy(o) }))
		check("1 of 10", s.run(9, func(o *Observation) { hidden(o); busy(o) }))
	}
	s = newScenario(t, nil)
	check("57 of 60", s.run(2, idle))
	check("57 of 60", s.run(57, hidden))
	check("57 of 60", s.run(6, idle))
	s = newScenario(t, nil)
	check("a gap of three hours", s.run(5, idle))
	s.w += 3 * time.Hour
	check("a gap of three hours", s.run(9, idle))
	s = newScenario(t, nil)
	check("an hour hidden after ten hours of idleness", s.run(14, idle))
	s.run(600, idle)
	s.states[2].idle.asked = s.w // withheld by something else until now
	check("hidden lately", s.run(40, hidden))
	check("hidden lately", s.run(5, idle))
	// One window in 30 may be missing.
	s = newScenario(t, nil)
	reaped := false
	for range 100 {
		for _, p := range append(s.run(29, idle), s.run(1, hidden)...) {
			reaped = reaped || p.Action == ActionReap && p.Withheld == ""
		}
	}
	if seen := s.states[2].idle.watched(s.w); !reaped || len(s.states[2].idle.unseen) > 3 || seen < 0.96 || seen > 0.97 {
		t.Errorf("96%% of the time was observed: reaped %v, %g by %d times", reaped, seen, len(s.states[2].idle.unseen))
	}
}

// TestAVictimsPageIsCorroborated caps a neighbour for a tenant that slows down, and not for one with an impossible page.
func TestAVictimsPageIsCorroborated(t *testing.T) {
	profiles := must.Get(profile.LoadProfiles("../../examples/cotenant/guard/rows.json"))(t)
	gpu := layout.Device{GPU: h200, Mode: sharing.MechanismMPS}
	server := func(model string) profile.Server { return profile.Server{Model: model} }
	victim := Tenant{Name: "a/chat", Kind: decision.KindOnlineInference, Server: server("3b"), Load: profile.Load{Rate: 4, Prompt: 128, Output: 64}, Holds: 0.4}
	other := Tenant{Name: "b/batch", Kind: decision.KindBatch, Server: server("8b"), Load: profile.Load{Rate: 2, Prompt: 256, Output: 64}, Holds: 0.4}
	for name, c := range map[string]struct {
		slow, load float64 // of the quiet TPOT; tokens a second
		watts      float64
		activity   sharing.Optional[float64] // of the victim
		withheld   string
	}{
		"slowed down":            {2, 100, 500, sharing.Some(0.3), ""},
		"9.89e6 ms a token":      {9.89e6 / 12, 100, 500, none(), "sequences at once"},
		"no load, 50 times":      {50, 0, 500, none(), "more than 3 times"},
		"serves without the GPU": {2, 100, 500, sharing.Some(0.0), "takes nothing"},
		"the GPU does no more":   {2, 100, 300, none(), "no more than before"},
		"infinite":               {math.Inf(1), 100, 500, none(), "not even an alarm"},
	} {
		g, err := New(DefaultRules(time.Minute), Config{
			GPUs: []layout.Device{gpu}, Tenants: []Tenant{victim, other}, Profiles: profiles,
		})
		if err != nil {
			t.Fatal(err)
		}
		expect, _, ok := g.expected(0)
		if !ok {
			t.Fatal("no prediction")
		}
		var got *Proposal
		for w := range 30 {
			at := time.Duration(w+1) * time.Minute
			tpot, load, watts, activity := expect.Value, 5.0, 300.0, sharing.Some(0.3)
			if w > 20 {
				tpot, load, watts, activity = c.slow*expect.Value, 50, c.watts, c.activity
			}
			o := Observation{At: at, GPUs: []GPUSeen{{At: at, UtilPercent: sharing.Some(60.0), Watts: sharing.Some(watts)}}}
			o.Tenants = []TenantSeen{
				{At: at, TPOT: sharing.Some(tpot), Activity: activity, Load: sharing.Some(c.load)},
				{At: at, Load: sharing.Some(load)},
			}
			for _, p := range g.Step(o) {
				if got == nil {
					got = &p
				}
			}
		}
		switch {
		case c.withheld == "not even an alarm":
			if got != nil {
				t.Errorf("%s: %+v", name, got)
			}
		case got == nil || !got.Action.acts() || (got.Withheld == "") != (c.withheld == "") || !strings.Contains(got.Withheld, c.withheld):
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestBudgetAndCoolDown(t *testing.T) {
	s := newScenario(t, nil)
	s.rules.Budget = 1
	p := Proposal{Action: ActionCap, target: 1}
	if !s.hold(&p) || p.Withheld != "" {
		t.Fatalf("%+v", p)
	}
	p = Proposal{Action: ActionCap, target: 1, At: 5 * time.Minute}
	if !s.hold(&p) || !strings.Contains(p.Withheld, "cool-down") {
		t.Errorf("%+v", p)
	}
	p = Proposal{Action: ActionReap, target: 2, At: 5 * time.Minute}
	if !s.hold(&p) || !strings.Contains(p.Withheld, "budget") {
		t.Errorf("%+v", p)
	}
	p = Proposal{Action: ActionReap, target: 2, At: 6 * time.Minute}
	if s.hold(&p) {
		t.Errorf("reported twice: %+v", p)
	}
	s.run(61, nil)
	p = Proposal{Action: ActionCap, target: 1, At: 61 * time.Minute}
	if !s.hold(&p) || p.Withheld != "" {
		t.Errorf("an hour later: %+v", p)
	}
}

// The usual latency is learnt where nothing is predicted.
func TestLearning(t *testing.T) {
	s := newScenario(t, func(ts []Tenant) { ts[0].Expect = sharing.Optional[profile.Interval]{} })
	s.run(40, nil)
	in, basis, ok := s.expected(0)
	if !ok || basis != "learnt" || in.Value != 10 || in.High != 12.5 {
		t.Fatalf("%+v %q %v", in, basis, ok)
	}
	got := s.run(3, func(o *Observation) { o.Tenants[0].TPOT = sharing.Some(20.0) })
	if len(got) != 1 || got[0].Action != ActionKeep {
		t.Fatalf("%+v", got)
	}
}

// TestOneOnTwoGPUs: a tenant on two GPUs is idle when both parts are, and reaped once.
func TestOneOnTwoGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		second TenantSeen
		blind  bool
		reaps  int
	}{
		"both idle":           {TenantSeen{Activity: sharing.Some(0.0), Pods: []string{"ml/train-0"}}, false, 1},
		"one works":           {TenantSeen{Activity: sharing.Some(0.8)}, false, 0},
		"one is unknown":      {TenantSeen{}, false, 0},
		"one GPU is not seen": {TenantSeen{Activity: sharing.Some(0.0)}, true, 0},
		"one part has ended":  {TenantSeen{Gone: true}, false, 1},
	} {
		train := Tenant{Name: "ml/train", Kind: decision.KindTraining, Holds: 1, MayReap: true, Workload: container.Pod{Namespace: "ml", Name: "train"}}
		other := train
		other.GPU = 1
		g := must.Get(New(DefaultRules(time.Minute), Config{GPUs: make([]layout.Device, 2), Tenants: []Tenant{train, other}, Reap: true}))(t)
		reaps := 0
		for window := range 62 {
			at := time.Duration(window+1) * time.Minute
			o := Observation{At: at, GPUs: []GPUSeen{{At: at}, {At: at}}, Tenants: []TenantSeen{{Activity: sharing.Some(0.0), Pods: []string{"ml/train-0"}}, c.second}}
			o.Tenants[0].At, o.Tenants[1].At = at, at
			if c.blind {
				o.GPUs[1].Down = "hung"
			}
			for _, p := range g.Step(o) {
				if p.Withheld == "" {
					g.Done(&p)
				}
				if p.Action == ActionReap && p.Withheld == "" {
					reaps++
					if !slices.Equal(p.Pods, []string{"ml/train-0"}) {
						t.Errorf("%s: pods %v", name, p.Pods)
					}
				}
			}
		}
		if reaps != c.reaps {
			t.Errorf("%s: reaped %d times", name, reaps)
		}
	}
}

// TestForeseesAsThePredictor: the guard expects of measured mixes to the last digit the figures of a predictor's closed
// form.
func TestForeseesAsThePredictor(t *testing.T) {
	for _, file := range []string{"h200-mixes-12.json", "h200-foreign-3.json"} {
		rows := must.Get(profile.LoadRows("../predict/testdata/" + file))(t)
		profiles := must.Get(profile.NewProfiles(rows.Profiles()...))(t)
		predictor := predict.NewPredictor()
		for _, c := range rows.Cases() {
			m := c.Rows[0].Mechanism
			g := must.Get(New(Rules{}, Config{GPUs: []layout.Device{{Mode: m}}, Tenants: make([]Tenant, len(c.Rows)),
				Profiles: profiles, Predictor: &predictor}))(t)
			var group []profile.Solo
			for _, r := range c.Rows {
				group = append(group, must.Get(profiles.Solo(r.Server, r.Load))(t))
			}
			for i, p := range must.Get(predictor.Predict(m, group, predict.MethodClosedForm))(t) {
				want, known := p.Get(profile.MetricTPOTP50)
				got, ok := g.predictTPOT(0, i, func(k int) (profile.Server, profile.Load, bool) {
					return c.Rows[k].Server, c.Rows[k].Load, true
				})
				if ok != known || got != want {
					t.Errorf("%s, %s, %s: %v, want %v", file, c.Rows[i].Case, c.Rows[i].Server, got, want)
				}
			}
		}
	}
}
