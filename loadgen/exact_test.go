// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// one runs a single request and returns its record and the measures.
func one(t *testing.T, r loadgentest.Reply, edit func(*loadgen.Tenant)) (loadgen.Record, *loadgen.Measures) {
	t.Helper()
	res, _ := bubble(t, loadgentest.Always(r), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
		if edit != nil {
			edit(&p.Tenants[0])
		}
	})
	if len(res.Records) == 0 {
		t.Fatal("no record")
	}
	return res.Records[0], &res.Summary.Measures
}

func must(t *testing.T, name string, f func() (time.Duration, bool), want time.Duration) {
	t.Helper()
	got, ok := f()
	if want < 0 {
		if ok {
			t.Errorf("%s is %v, should be undefined", name, got)
		}
		return
	}
	if !ok || got != want {
		t.Errorf("%s = %v, %v; want %v", name, got, ok, want)
	}
}

func TestDefinitionsExactly(t *testing.T) {
	t.Run("usage and finish events are not in e2e", func(t *testing.T) {
		r, _ := one(t, loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10, SeparateFinish: true, FinishAfter: 70 * ms}, nil)
		must(t, "ttft", r.TTFT, 50*ms)
		must(t, "e2e", r.E2E, 230*ms)
		must(t, "tpot", r.TPOT, 20*ms)
		if r.EndNS-r.IntendedNS != int64(300*ms) || r.FinishReason != "stop" || r.OutputTokens != 10 || r.TokenSource != "server_usage" || r.PromptTokens != 2 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("reasoning counts for ttft, not for ttfv", func(t *testing.T) {
		r, m := one(t, loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10, Reasoning: 3}, nil)
		must(t, "ttft", r.TTFT, 50*ms)
		if m.TTFV.P50 != 110 {
			t.Errorf("ttfv %v", m.TTFV.P50)
		}
	})
	t.Run("one token has no tpot", func(t *testing.T) {
		r, m := one(t, loadgentest.Reply{TTFT: 50 * ms, Tokens: 1}, nil)
		must(t, "tpot", r.TPOT, -1)
		if m.TPOT.Count != 0 || m.ChunkGap.Count != 0 {
			t.Errorf("%+v", m)
		}
	})
	t.Run("events of one instant have no tpot", func(t *testing.T) {
		r, m := one(t, loadgentest.Reply{TTFT: 50 * ms, Tokens: 10, EventsPerWrite: 10}, nil)
		must(t, "tpot", r.TPOT, -1)
		if m.TPOT.Count != 0 || r.Events != 10 {
			t.Errorf("%+v", m)
		}
	})
	t.Run("continuous usage gives n_1", func(t *testing.T) {
		r, m := one(t, loadgentest.Reply{TTFT: 50 * ms, Interval: 40 * ms, Tokens: 10, PerEvent: 4, Usage: "continuous"}, nil)
		if r.FirstTokens != 4 || r.Events != 3 || m.ITLBasis != "usage" {
			t.Errorf("%+v", r)
		}
		must(t, "tpot", r.TPOT, 80*ms/6)
		// 4 tokens share 40 ms, then 2 do.
		if m.ITL.Count != 6 || math.Abs(float64(m.ITL.P50)-10) > 0.01 || m.ITL.Max != 20 { // HDR: 3 digits
			t.Errorf("%+v", m.ITL)
		}
	})
	t.Run("completions API", func(t *testing.T) {
		r, _ := one(t, loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10}, func(t *loadgen.Tenant) { t.API = "completions" })
		must(t, "e2e", r.E2E, 230*ms)
	})
	t.Run("in one piece", func(t *testing.T) {
		r, m := one(t, loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10}, func(t *loadgen.Tenant) { t.NonStreaming = true })
		must(t, "e2e", r.E2E, 230*ms)
		must(t, "ttft", r.TTFT, -1)
		if m.OutputTokens != 10 || m.TTFT.Count != 0 || m.Counts.OK != 1 {
			t.Errorf("%+v", m)
		}
	})
	t.Run("an SLO that cannot be seen", func(t *testing.T) {
		goodput := func(reply loadgentest.Reply, change func(*loadgen.Tenant)) *loadgen.Goodput {
			res, _ := bubble(t, func(loadgentest.Request) loadgentest.Reply { return reply }, func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
				change(&p.Tenants[0])
			})
			return res.Summary.Tenants[0].Goodput
		}
		for _, tc := range []struct {
			slo          loadgen.RequestSLO
			whole        bool
			met, unknown int64
		}{
			{loadgen.RequestSLO{TTFT: ms}, true, 0, 1}, {loadgen.RequestSLO{TPOT: ms}, true, 0, 1}, {loadgen.RequestSLO{Stall: ms}, true, 0, 1},
			{loadgen.RequestSLO{E2E: time.Second}, true, 1, 0}, {loadgen.RequestSLO{TTFT: ms, E2E: 200 * ms}, true, 0, 0},
			{loadgen.RequestSLO{TTFT: ms}, false, 0, 0}, {loadgen.RequestSLO{TTFT: time.Second, TPOT: time.Second, Stall: time.Second}, false, 1, 0},
		} {
			g := goodput(loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10}, func(t *loadgen.Tenant) { t.NonStreaming, t.SLO = tc.whole, tc.slo })
			if g == nil || g.Met != tc.met || g.Unknown != tc.unknown || g.Fraction.IsZero() != (tc.unknown > 0) || g.PerS.IsZero() != (tc.unknown > 0) || g.OutputTokens.IsZero() != (tc.unknown > 0) || g.OutputTokens.Or(0) != 10*tc.met {
				t.Errorf("%+v: %+v", tc, g)
			}
		}
		// One token: nothing comes after it, and the bounds on that are kept.
		g := goodput(loadgentest.Reply{TTFT: 50 * ms, Tokens: 1}, func(t *loadgen.Tenant) { t.SLO = loadgen.RequestSLO{TPOT: ms, Stall: ms} })
		if g == nil || g.Met != 1 {
			t.Errorf("%+v", g)
		}
	})
	t.Run("stall", func(t *testing.T) {
		// 50 streams of 20 gaps of 20 ms; a second of silence in one of them.
		res, _ := bubble(t, func(r loadgentest.Request) loadgentest.Reply {
			rep := loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 21}
			if r.N == 3 {
				rep.Interval = 120 * ms
			}
			return rep
		}, func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Requests = 50
			p.Tenants[0].SLO = loadgen.RequestSLO{Stall: 100 * ms}
		})
		if g := res.Summary.Tenants[0].Goodput; g == nil || g.Met != 49 || g.Fraction != optional.Of(0.98) {
			t.Errorf("%+v", g)
		}
	})
}

func TestSchedules(t *testing.T) {
	t.Run("open loop is timed from the intended start", func(t *testing.T) {
		// The server takes one request at a time: each waits for those before it.
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 300 * ms, Tokens: 1}), func(p *loadgen.LoadPlan, so *loadgentest.Options, _ *loadgen.Options) {
			so.Slots = 1
			p.Tenants[0].Requests = 4
			p.Tenants[0].Load = loadgen.OfferedLoad{Schedule: loadgen.Constant(10)}
		})
		for i, r := range res.Records {
			must(t, "ttft", r.TTFT, 300*ms+time.Duration(i)*200*ms)
			if r.SentNS != r.IntendedNS {
				t.Errorf("sent %v late", r.SentNS-r.IntendedNS)
			}
		}
		if s := res.Summary; s.DurationS != 1.2 || s.ClientHealth.Pacer != "timer" || s.ClientHealth.PacingLag.Max != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("closed loop with think time and ramp", func(t *testing.T) {
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 100 * ms, Tokens: 1}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Requests = 8
			p.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: 4, ThinkTime: 300 * ms, Ramp: 200 * ms}
		})
		start := res.Records[0].IntendedNS
		var got []time.Duration
		for _, r := range res.Records {
			got = append(got, time.Duration(r.SentNS-start))
		}
		want := []time.Duration{0, 50 * ms, 100 * ms, 150 * ms, 400 * ms, 450 * ms, 500 * ms, 550 * ms}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		// The ramp is cut from the window: only the second round counts.
		if s := res.Summary; !s.Window.Cut || s.Counts.Total != 4 || s.DurationS != 0.45 {
			t.Errorf("%+v", s.Measures)
		}
	})
	t.Run("window takes tokens by their events", func(t *testing.T) {
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 100 * ms, Interval: 100 * ms, Tokens: 10}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Requests = 3
			p.Window = loadgen.Window{From: 450 * ms, To: 2250 * ms}
		})
		// Requests start at 0, 1 and 2 s; tokens come every 100 ms from 100 ms on.
		s := res.Summary
		if s.Counts.Total != 2 || s.OutputTokens != 18 || math.Abs(s.DurationS-1.8) > 1e-9 || math.Abs(s.OutputTokensPerS-10) > 1e-9 {
			t.Errorf("%+v", s.Measures)
		}
	})
	t.Run("duration ends the offering, drain the requests in flight", func(t *testing.T) {
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: 50 * ms, Tokens: 10}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Requests = 0
			p.Tenants[0].Load = loadgen.OfferedLoad{Schedule: loadgen.Constant(10)}
			p.Duration, p.Drain = time.Second, 220*ms
		})
		// Arrivals at 0 .. 0.9 s, each takes 0.5 s; requests that started after 0.62 s are cut.
		want := map[loadgen.Class]int64{loadgen.ClassOK: 7, "cancelled": 3}
		if diff := cmp.Diff(want, res.Summary.Counts.ByClass); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("drain cuts a closed loop's endless answers", func(t *testing.T) {
		for name, change := range map[string]func(*loadgen.LoadPlan){
			"by duration": func(p *loadgen.LoadPlan) { p.Duration, p.Tenants[0].Requests = time.Second, 0 },
			"by requests": func(p *loadgen.LoadPlan) { p.Tenants[0].Requests = 2 },
		} {
			res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: time.Second, Tokens: 1000}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
				p.Tenants[0].Load, p.Drain = loadgen.OfferedLoad{Concurrency: 2}, 500*ms
				change(p)
			})
			want := 1.5
			if name == "by requests" {
				want = 0.5
			}
			if s := res.Summary; s.Counts.ByClass["cancelled"] != 2 || s.Counts.Total != 2 || math.Abs(s.DurationS-want) > 1e-6 {
				t.Errorf("%s: %+v", name, s.Measures)
			}
		}
	})

}

func TestRetries(t *testing.T) {
	script := func(r loadgentest.Request) loadgentest.Reply {
		switch r.N {
		case 0:
			return loadgentest.Reply{Status: 429, RetryAfter: "2"}
		case 1:
			return loadgentest.Reply{Status: 503}
		}
		return loadgentest.Reply{TTFT: 50 * ms, Tokens: 1}
	}
	res, _ := bubble(t, script, func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
		p.Tenants[0].Retries = 2
	})
	r := res.Records[0]
	// 2 s by Retry-After, 200 ms of backoff, 50 ms of answer: all of it was waited.
	must(t, "ttft", r.TTFT, 2250*ms)
	if r.Retries != 2 || res.Summary.Counts.Retries != 2 || r.Class != loadgen.ClassOK || r.Status != 200 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	res, _ = bubble(t, loadgentest.Always(loadgentest.Reply{Status: 503}), nil)
	if r := res.Records[0]; r.Retries != 0 || r.Class != "http_5xx" {
		t.Errorf("retried without being asked: %+v", r)
	}
}

func TestTimeouts(t *testing.T) {
	limits := loadgen.Timeouts{Connect: 9 * time.Second, FirstToken: 3 * time.Second, Idle: 2 * time.Second, Total: 10 * time.Second}
	for _, tc := range []struct {
		name  string
		reply loadgentest.Reply
		class loadgen.Class
		after time.Duration
	}{
		{"no answer", loadgentest.Reply{Fault: "no-answer"}, "timeout_ttft", 3 * time.Second},
		{"role and then nothing", loadgentest.Reply{Role: true, TTFT: time.Hour}, "timeout_ttft", 3 * time.Second},
		{"stall long before the other limits", loadgentest.Reply{TTFT: 100 * ms, Tokens: 5, Fault: "stall", FaultAfter: 2}, "timeout_idle", 2100 * ms},
		{"stall", loadgentest.Reply{TTFT: time.Second, Tokens: 5, Fault: "stall", FaultAfter: 2}, "timeout_idle", 3 * time.Second},
		{"a stream that never ends", loadgentest.Reply{Interval: time.Second, Fault: "endless"}, "timeout_total", 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, m := one(t, tc.reply, func(t *loadgen.Tenant) { t.Timeouts = limits })
			if r.Class != tc.class || r.EndNS-r.SentNS != int64(tc.after) {
				t.Errorf("%v after %v: %s", r.Class, time.Duration(r.EndNS-r.SentNS), r.Error)
			}
			if m.OutputTokens != 0 || m.OutputTokensFailed != int64(r.Events) {
				t.Errorf("tokens %d, failed %d, events %d", m.OutputTokens, m.OutputTokensFailed, r.Events)
			}
		})
	}
}
