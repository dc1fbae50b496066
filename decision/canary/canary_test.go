// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/internal/must"
)

func twoTenants() canary.Plan {
	return canary.Plan{Deadline: 10 * time.Minute, Tenants: []canary.Tenant{
		{Name: "newcomer", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.4}}},
		{Name: "chat", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.3}}},
	}}
}

// observe takes snapshots of good seconds that change makes bad, until the canary is done.
func observe(t *testing.T, p canary.Plan, change func(second int, l *canary.Snapshot)) canary.Result {
	t.Helper()
	c := must.Get(canary.New(p))(t)
	for second := range 3600 {
		l := seen(second, 0.25, 0.2)
		l.Tenants[1].Load = some(2)
		change(second, &l)
		if c.Observe(l) != canary.KeepObserving {
			break
		}
	}
	return c.Result()
}

// TestNothingBadPromotes: data that is missing, does not change, is false or contradicts itself leads to no promotion.
func TestNothingBadPromotes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(second int, l *canary.Snapshot)
		needs  string
	}{
		"a neighbour's page is missing": {func(_ int, l *canary.Snapshot) { l.Tenants[1] = canary.Seen{Missing: "no answer"} },
			"chat ttft: it could not be evaluated 100% of the time (no answer)"},
		"pages stop after a minute": {func(s int, l *canary.Snapshot) {
			if s > 60 {
				l.Tenants[1] = canary.Seen{Missing: "no answer"}
			}
		}, "could not be evaluated 90% of the time"},
		"a fifth of the pages goes back": {func(s int, l *canary.Snapshot) {
			if s%20 < 4 {
				l.Tenants[0] = canary.Seen{Missing: "a counter went back"}
			}
		}, "newcomer ttft: it could not be evaluated 20% of the time (a counter went back)"},
		"requests stop": {func(s int, l *canary.Snapshot) {
			if s > 60 {
				l.Tenants[1].Metrics = make([]canary.Sample, 1)
			}
		}, "chat ttft: nothing was observed lately"},
		"no numbers":       {func(_ int, l *canary.Snapshot) { l.Tenants[0].Metrics[0].Values[0] = math.NaN() }, "ttft is negative or no number"},
		"a metric too few": {func(_ int, l *canary.Snapshot) { l.Tenants[0].Metrics = nil }, "0 metrics for 1 objectives"},
		"too near the limit": {func(s int, l *canary.Snapshot) { l.Tenants[1].Metrics[0].Values = []float64{0.2, 0.2, 0.31, 0.31, 0.2} },
			"is too near its limit"},
	} {
		t.Run(name, func(t *testing.T) {
			r := observe(t, twoTenants(), c.change)
			if r.Verdict != canary.CannotTell || !strings.Contains(r.Reason, c.needs) || r.At != 10*time.Minute {
				t.Errorf("%s after %v: %s", r.Verdict, r.At, r.Reason)
			}
		})
	}
}

// TestClocks: a clock that stops, goes back or jumps leads to no promotion, and observations next to it count.
func TestClocks(t *testing.T) {
	r := observe(t, twoTenants(), func(_ int, l *canary.Snapshot) { l.At = time.Second })
	if r.Verdict != canary.KeepObserving || !strings.Contains(r.Reason, "clock") {
		t.Errorf("it stops: %s: %s", r.Verdict, r.Reason)
	}
	r = observe(t, twoTenants(), func(s int, l *canary.Snapshot) {
		if s > 60 {
			l.At += 9 * time.Hour
		}
	})
	if r.Verdict != canary.CannotTell {
		t.Errorf("it jumps: %s: %s", r.Verdict, r.Reason)
	}
	r = observe(t, twoTenants(), func(s int, l *canary.Snapshot) {
		if s%50 == 49 {
			l.At -= time.Hour
		}
	})
	if r.Verdict != canary.KeepObserving && r.Verdict != canary.Promote {
		t.Errorf("it goes back now and then: %s: %s", r.Verdict, r.Reason)
	}
}

// TestLimits: without a stated limit a neighbour's figures from before decide, under a load like the one then.
func TestLimits(t *testing.T) {
	p := twoTenants()
	p.Tenants[1].Objectives[0].Limit = 0
	if r := observe(t, p, func(int, *canary.Snapshot) {}); !strings.Contains(r.Reason, "nothing is known of its ttft before") {
		t.Errorf("before: %s: %s", r.Verdict, r.Reason)
	}
	for name, c := range map[string]struct {
		chat, load float64
		want       canary.Verdict
	}{"as before": {0.2, 2, canary.Promote}, "half as slow again": {0.33, 2, canary.TakeBack},
		"under three times the load": {0.2, 6, canary.CannotTell}, "without load": {0.2, 0.1, canary.CannotTell}} {
		r := observe(t, p, func(s int, l *canary.Snapshot) {
			*l = seen(s-60, 0.25, map[bool]float64{true: 0.2, false: c.chat}[s < 60])
			l.Tenants[1].Load = some(map[bool]float64{true: 2, false: c.load}[s < 60])
		})
		if r.Verdict != c.want {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Reason)
		}
	}
}

// TestSteps: a rate of steps is to be at least the allowed one.
func TestSteps(t *testing.T) {
	p := canary.Plan{Tenants: []canary.Tenant{{Name: "train", Objectives: []canary.Objective{
		{Metric: "steps", Limit: 2, AtLeast: true}}}}}
	for rate, want := range map[float64]canary.Verdict{3: canary.Promote, 1.1: canary.TakeBack} {
		r := observe(t, p, func(_ int, l *canary.Snapshot) {
			l.Tenants = []canary.Seen{{Metrics: []canary.Sample{{Values: []float64{rate}}}}}
		})
		if r.Verdict != want {
			t.Errorf("%v steps a second: %s: %s", rate, r.Verdict, r.Reason)
		}
	}
}

func TestBadPlans(t *testing.T) {
	bad := canary.Plan{
		Deadline: -1, WrongPromotion: 2, WrongTakeBack: math.NaN(),
		Tenants: []canary.Tenant{
			{Name: "a", Objectives: []canary.Objective{{Quantile: 1}}},
			{Name: "a", Objectives: []canary.Objective{
				{Metric: "x", Limit: -1, AfterPromotion: true}}},
		},
	}
	_, err := canary.New(bad)
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, want := range []string{
		"deadline: ", "wrong_promotion: ", "wrong_take_back: ",
		"tenants[0].objectives[0].quantile: ", "tenants[0].objectives[0].metric: ", "tenants[0].objectives[0]: the newcomer has no limit",
		"tenants[1].name: ", "tenants[1].objectives[0].limit: ",
		"tenants[1].objectives: none decides",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err := canary.New(canary.Plan{}); err == nil || strings.Contains(err.Error(), "deadline is shorter") {
		t.Errorf("no tenants: %v", err)
	}
}
