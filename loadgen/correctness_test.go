// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// truth holds the figures that a run of 100 requests by 20 users must report.
type truth struct {
	OK, Failed   int64
	ByClass      map[loadgen.Class]int64
	Tokens       int64
	TokensFailed int64
	Source       string
	Basis        string
	TTFT         loadgen.Millis // p50 and p99: every request is alike
	TPOT         float64        // to a microsecond
	GapP50       loadgen.Millis
	GapP99       loadgen.Millis
	ITLMean      float64
	ITLP99       loadgen.Millis
	E2E          loadgen.Millis
}

func plain(edit func(*truth)) truth {
	w := truth{
		OK: 100, ByClass: map[loadgen.Class]int64{loadgen.ClassOK: 100}, Tokens: 10000, Source: "server_usage", Basis: "even",
		TTFT: 50, TPOT: 20, GapP50: 20, GapP99: 20, ITLMean: 20, ITLP99: 20, E2E: 50 + 99*20,
	}
	if edit != nil {
		edit(&w)
	}
	return w
}

func nineFail(class loadgen.Class, delivered int64) truth {
	return plain(func(w *truth) {
		w.OK, w.Failed, w.Tokens, w.TokensFailed = 91, 9, 9100, delivered
		w.ByClass = map[loadgen.Class]int64{loadgen.ClassOK: 91, class: 9}
	})
}

// TestCorrectness runs the scenarios in which common load generators misreport, each with the true answer. The last
// event of a plain stream carries the finish reason and the last token, as vLLM's does.
func TestCorrectness(t *testing.T) {
	base := loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 100}
	reply := func(edit func(*loadgentest.Reply)) loadgentest.Reply {
		r := base
		edit(&r)
		return r
	}
	always := func(edit func(*loadgentest.Reply)) loadgentest.Script { return loadgentest.Always(reply(edit)) }
	nine := func(edit func(*loadgentest.Reply)) loadgentest.Script {
		return loadgentest.Every(11, reply(edit), base)
	}
	for i, tc := range []struct {
		name   string
		script loadgentest.Script
		want   truth
	}{
		{"plain", loadgentest.Always(base), plain(nil)},
		{"role chunk at once", always(func(r *loadgentest.Reply) { r.Role = true }), plain(nil)},
		{"four tokens an event", always(func(r *loadgentest.Reply) { r.PerEvent, r.Interval = 4, 40*ms }), plain(func(w *truth) {
			w.TPOT, w.GapP50, w.GapP99, w.ITLMean, w.ITLP99, w.E2E = 24*40.0/99, 40, 40, 10, 10, 50+24*40
		})},
		{"four tokens an event, continuous usage", always(func(r *loadgentest.Reply) {
			r.PerEvent, r.Interval, r.Usage = 4, 40*ms, "continuous"
		}), plain(func(w *truth) {
			w.Basis, w.TPOT, w.GapP50, w.GapP99, w.ITLMean, w.ITLP99, w.E2E = "usage", 10, 40, 40, 10, 10, 50+24*40
		})},
		{"five events a segment", always(func(r *loadgentest.Reply) { r.EventsPerWrite = 5 }), plain(func(w *truth) {
			// The first five come at 130 ms, then five every 100 ms.
			w.TTFT, w.TPOT, w.GapP50, w.GapP99 = 130, 1900.0/99, 0, 100
		})},
		{"separate finish event", always(func(r *loadgentest.Reply) { r.SeparateFinish, r.FinishAfter = true, 15*ms }), plain(nil)},
		{"a role first, and split writes", always(func(r *loadgentest.Reply) { r.SplitWrites, r.Role = true, true }), plain(nil)},
		{"event split over two segments", always(func(r *loadgentest.Reply) { r.SplitWrites, r.SplitDelay = true, 5*ms }), plain(func(w *truth) {
			w.TTFT, w.E2E = 55, 2035
		})},
		{"reasoning", always(func(r *loadgentest.Reply) { r.Reasoning = 40 }), plain(nil)},
		{"tool calls", always(func(r *loadgentest.Reply) { r.ToolCall = true }), plain(nil)},
		{"no usage", always(func(r *loadgentest.Reply) { r.Usage = "never" }), plain(func(w *truth) {
			w.Source, w.Basis = "events", "event"
		})},
		{"clean truncation of 9", nine(func(r *loadgentest.Reply) { r.Fault, r.FaultAfter = "truncate", 51 }), nineFail(loadgen.ClassTruncated, 459)},
		{"TCP cut of 9", nine(func(r *loadgentest.Reply) { r.Fault, r.FaultAfter = "cut", 51 }), nineFail(loadgen.ClassTruncated, 459)},
		{"error object in 9", nine(func(r *loadgentest.Reply) { r.Fault, r.FaultAfter = "error-object", 51 }), nineFail("error_event", 459)},
		{"error event in 9", nine(func(r *loadgentest.Reply) { r.Fault, r.FaultAfter = "error-event", 51 }), nineFail("error_event", 459)},
		{"malformed event in 9", nine(func(r *loadgentest.Reply) { r.Fault, r.FaultAfter = "bad-json", 51 }), nineFail("malformed", 459)},
		{"no answer to 9 at all", nine(func(r *loadgentest.Reply) { r.Fault = "refuse" }), nineFail(loadgen.ClassTruncated, 0)},
		{"503 to 9", nine(func(r *loadgentest.Reply) { r.Status = 503 }), nineFail("http_5xx", 0)},
		{"429 to 9", nine(func(r *loadgentest.Reply) { r.Status = 429 }), nineFail("http_429", 0)},
		{"400 to 9", nine(func(r *loadgentest.Reply) { r.Status = 400 }), nineFail("http_4xx", 0)},
		{"HTML to 9", nine(func(r *loadgentest.Reply) { r.Fault = "html" }), nineFail("malformed", 0)},
	} {
		if race.Fewer(4) == 1 && i%4 != 0 {
			continue // the others differ in the decoded data, not in the way it is read
		}
		t.Run(tc.name, func(t *testing.T) {
			res, served := bubble(t, tc.script, func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
				p.Tenants[0].Requests, p.Tenants[0].MaxTokens, p.Tenants[0].Load.Concurrency = 100, 100, 20
			})
			m := &res.Summary.Measures
			if m.TTFT.P50 != m.TTFT.P99 {
				t.Errorf("TTFT p50 %v, p99 %v: every request is alike", m.TTFT.P50, m.TTFT.P99)
			}
			got := truth{
				OK: m.Counts.OK, Failed: m.Counts.Failed, ByClass: m.Counts.ByClass, Tokens: m.OutputTokens, TokensFailed: m.OutputTokensFailed,
				Source: string(m.TokenSource), Basis: m.ITLBasis, TTFT: m.TTFT.P99, TPOT: float64(m.TPOT.P50),
				GapP50: m.ChunkGap.P50, GapP99: m.ChunkGap.P99, ITLMean: float64(m.ITL.Mean), ITLP99: m.ITL.P99, E2E: m.E2E.P99,
			}
			approx := cmp.Comparer(func(a, b float64) bool { return a-b < 2e-3 && b-a < 2e-3 })
			if diff := cmp.Diff(tc.want, got, approx); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// The server's own count of delivered tokens is the reference.
			delivered := int64(0)
			for _, s := range served {
				delivered += int64(s.Tokens)
			}
			if sum := m.OutputTokens + m.OutputTokensFailed; sum != delivered {
				t.Errorf("client counts %d tokens, server sent %d", sum, delivered)
			}
		})
	}
}

// TestCoordinatedOmission offers 15 requests/s to a server that can do 9.5.
func TestCoordinatedOmission(t *testing.T) {
	race.Long(t)
	script := loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 104})
	res, _ := bubble(t, script, func(p *loadgen.LoadPlan, so *loadgentest.Options, _ *loadgen.Options) {
		so.Slots = 20
		p.Tenants[0].Requests = 450
		p.Tenants[0].Load = loadgen.OfferedLoad{Schedule: loadgen.Constant(15)}
	})
	m := &res.Summary.Measures
	if m.TTFT.P99 < 5000 {
		t.Errorf("TTFT p99 %v ms", m.TTFT.P99)
	}
	if rate := m.CompletedPerS; rate < 9 || rate > 9.6 {
		t.Errorf("completed %v/s", rate)
	}
}

func TestTimelineCoversTheRun(t *testing.T) {
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 100}),
		func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Requests = 20
			p.Tenants[0].Load.Concurrency = 2
		})
	var offered, sent, done, tokens int64
	for i, row := range res.Timeline {
		offered, sent, done, tokens = offered+row.Offered, sent+row.Sent, done+row.Done, tokens+row.Tokens
		if i > 0 && row.UnixNS-res.Timeline[i-1].UnixNS != int64(time.Second) {
			t.Errorf("row %d starts %d ns after its predecessor", i, row.UnixNS-res.Timeline[i-1].UnixNS)
		}
	}
	if offered != 20 || sent != 20 || done != 20 || tokens != 2000 || res.Timeline[len(res.Timeline)-1].InFlight != 0 {
		t.Errorf("offered %d, sent %d, done %d, tokens %d, %+v", offered, sent, done, tokens, res.Timeline[len(res.Timeline)-1])
	}
}
