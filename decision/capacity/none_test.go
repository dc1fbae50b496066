package capacity_test

import (
	"math"
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

// TestTooFewAreDivided: GPUs that are too few are divided so that the worst off is as near
// to its limits as under any other division.
func TestTooFewAreDivided(t *testing.T) {
	const gpus = 6
	over := func(tenants []int, most int) float64 {
		r := found(t, small(t, 300, func(p *capacity.Plan) {
			var own []capacity.Request
			for q := range p.Requests {
				if i := slices.Index(tenants, q.Tenant); i >= 0 {
					q.Tenant = i
					own = append(own, q)
				}
			}
			all := p.Tenants
			p.Tenants, p.Requests = nil, slices.Values(own)
			for _, i := range tenants {
				p.Tenants = append(p.Tenants, all[i])
			}
			p.Kinds, p.GPUs = []capacity.Kind{capacity.KindOwnGPU}, []capacity.GPU{{Name: "L40S", Most: most, PricePerHour: usd(t, 900_000)}}
		}))
		for _, p := range r.Arrangements[0].Curve {
			if p.Load == 1 {
				return p.Over
			}
		}
		t.Fatal(page(r))
		return 0
	}
	best := math.Inf(1)
	for n := 1; n < gpus; n++ {
		worst := max(over([]int{0}, n), over([]int{1}, gpus-n))
		t.Logf("%d and %d: over by %.2f", n, gpus-n, worst)
		best = min(best, worst)
	}
	if got := over([]int{1, 0}, gpus); got > best+1e-9 {
		t.Errorf("over by %.2f, and by %.2f with the best division", got, best)
	} else {
		t.Logf("over by %.2f", got)
	}
}
