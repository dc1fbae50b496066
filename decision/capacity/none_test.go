package capacity_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
)

// TestNoNumberDoes: of a kind that no number of GPUs keeps, the fewest that come close to
// the nearest are shown, and how many were tried.
func TestNoNumberDoes(t *testing.T) {
	r := found(t, small(t, 60, func(p *capacity.Plan) {
		p.Kinds, p.GPUs = []capacity.Kind{capacity.KindMPS}, []capacity.GPU{{Name: "L40S", Most: 3, PricePerHour: usd(t, 900_000)}}
	}))
	if r.Chosen != nil || len(r.Arrangements) != 1 {
		t.Fatal(page(r))
	}
	a := r.Arrangements[0]
	if a.Tried != 3 || a.Verdict != capacity.VerdictMissed || !strings.Contains(a.FirstLimit, "no number of L40S up to 3 does; with 3, the nearest, ") || !strings.Contains(r.Why[0], a.FirstLimit) {
		t.Errorf("%s on %d, %d tried: %s; %q", a.Verdict, a.GPUs, a.Tried, a.FirstLimit, r.Why)
	}
}

// TestOwnCosts: costs of the plan's own are said to be that.
func TestOwnCosts(t *testing.T) {
	r := found(t, small(t, 1, func(p *capacity.Plan) {
		p.Kinds = []capacity.Kind{capacity.KindOwnGPU}
		for i := range p.Tenants {
			p.Tenants[i].Configure = func(e *costs.Engine) { e.Step.Basis = sharing.BasisTransferred }
		}
	}))
	if r.Chosen == nil || !strings.Contains(strings.Join(r.Why, "\n"), "a step is as the plan has it, a prompt's tokens are a prior") {
		t.Errorf("%q", r.Why)
	}
}

// TestFewRequests: what comes at one time may be served for as long as the limits allow.
func TestFewRequests(t *testing.T) {
	for _, n := range []int{1, 3} {
		r := found(t, small(t, 1, func(p *capacity.Plan) {
			p.Requests = slices.Values(slices.Repeat([]capacity.Request{{Input: 500, Output: 100}}, n))
		}))
		if r.Chosen == nil || r.Chosen.GPUs != 1 || r.Trace.PerS != 0 {
			t.Errorf("%d requests: %v a second, %s", n, r.Trace.PerS, page(r))
		}
	}
}

// TestNothingKeepsIt: objectives that no GPU meets come with the bound that stops them.
func TestNothingKeepsIt(t *testing.T) {
	r := found(t, small(t, 1, func(p *capacity.Plan) {
		p.Tenants[0].Objectives = limits(time.Millisecond, time.Millisecond)
	}))
	if r.Chosen != nil || len(r.Why) != 1 || !strings.Contains(r.Why[0], "no GPU of the plan meets the objectives: even of requests that come one by one, chat's t") {
		t.Errorf("%q", r.Why)
	}
	for _, a := range r.Arrangements {
		if a.Verdict != capacity.VerdictMissed || !strings.Contains(a.FirstLimit, "no number of GPUs helps") || a.GPUs > 4 {
			t.Errorf("%v: %v on %d GPUs, %s", a.Kind, a.Verdict, a.GPUs, a.FirstLimit)
		}
	}
}
