// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// TestWarmup: warm-up requests are served and measured by nobody, prompts keep
// their order, and connections are warm.
func TestWarmup(t *testing.T) {
	var last loadgen.Progress
	calls := 0
	res, served := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 100}),
		func(p *loadgen.LoadPlan, _ *loadgentest.Options, o *loadgen.Options) {
			p.Tenants[0].Warmup, p.Tenants[0].Requests = 3, 4
			p.Tenants[0].Prompts = loadgen.Texts("p0", "p1", "p2", "p3")
			p.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 1}
			o.Progress = func(p loadgen.Progress) { last, calls = p, calls+1 }
		})
	if len(served) != 7 || res.Summary.Counts.Total != 4 || res.Summary.OutputTokens != 400 {
		t.Errorf("%d served, %+v", len(served), res.Summary.Counts)
	}
	for i, s := range served[3:] {
		if want := "p" + string(rune('0'+i)); s.Request.Prompt != want {
			t.Errorf("request %d asks %q", i, s.Request.Prompt)
		}
	}
	if r := res.Records[0]; !r.Reused {
		t.Errorf("first request: %+v", r)
	}
	if calls != 9 || last.Tenants[0].OK != 4 || last.Tenants[0].InFlight != 0 || last.Tenants[0].Tokens != 400 {
		t.Errorf("%d calls, last %+v", calls, last)
	}
}

// TestClosedLoopDuration: users start no request after the duration, and earlier ones are finished.
func TestClosedLoopDuration(t *testing.T) {
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 300 * ms, Tokens: 1}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
		p.Tenants[0].Requests = 0
		p.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 2}
		p.Duration = time.Second
	})
	if s := res.Summary; s.Counts.OK != 8 || s.Counts.Failed != 0 || s.DurationS != 1.2 || !s.Complete {
		t.Errorf("%+v", s.Measures)
	}
}

func TestHealthVerdict(t *testing.T) {
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 300 * ms, Tokens: 1}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, o *loadgen.Options) {
		o.Health = loadgen.HealthLimits{CPUFraction: 1e-12, GCPauseMax: -1, SchedulingP99: -1}
		p.Tenants[0].Requests = 10
	})
	h := res.Summary.ClientHealth
	if h.Stamps != "user" || h.UserReads == 0 || h.KernelReads != 0 {
		t.Errorf("%+v", h)
	}
	if h.Valid != (len(h.Reasons) == 0) {
		t.Errorf("valid %v with reasons %v", h.Valid, h.Reasons)
	}
	if h.CPUSeconds.Or(0) > 0 && h.Valid {
		t.Error("a CPU limit of next to nothing is kept")
	}
}
