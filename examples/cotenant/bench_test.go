// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

func init() {
	// The machine that tests run on may be busy.
	benchHealth = loadgen.HealthLimits{SendLagP99: -1, PacingLagP99: -1, ReadLagP99: -1, SchedulingP99: -1, GCPauseMax: -1, CPUFraction: -1}
}

// execBench runs cotenant bench.
func execBench(ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"bench"}, args...), stdio{strings.NewReader(stdin), &out, &errs})
	return code, out.String(), errs.String()
}

func benchServe(t *testing.T, script loadgentest.Script) string {
	t.Helper()
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv.URL
}

var benchFast = loadgentest.Reply{TTFT: 5 * time.Millisecond, Interval: 5 * time.Millisecond, Tokens: 4}

// want is the exit code that a completed run's own verdict calls for.
func benchWant(s *loadgen.Summary) int {
	if s.ClientHealth.Valid {
		return exitDone
	}
	return exitInvalid
}

func benchSummary(t *testing.T, dir string) *loadgen.Summary {
	t.Helper()
	res, err := loadgen.LoadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &res.Summary
}

// TestContract checks the documented keys of summary.json.
func TestContract(t *testing.T) {
	prompts := filepath.Join(t.TempDir(), "p.jsonl")
	if err := os.WriteFile(prompts, []byte("{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	url := benchServe(t, loadgentest.Every(11, loadgentest.Reply{Fault: "truncate", FaultAfter: 2, TTFT: time.Millisecond, Tokens: 4}, benchFast))
	for _, load := range [][]string{{"-concurrency", "20"}, {"-rate", "400"}, {"-rate", "400", "-arrivals", "poisson"}, {"-rate", "400", "-arrivals", "gamma", "-burstiness", "0.5"}} {
		t.Run(strings.Join(load, ""), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			code, out, errs := execBench(t.Context(), "", append([]string{"-endpoint", url, "-api", "completions", "-model", "m", "-prompts", prompts,
				"-requests", "100", "-max-tokens", "100", "-progress=false", "-out", dir}, load...)...)
			s := benchSummary(t, dir)
			if code != benchWant(s) {
				t.Fatalf("exit %d, %s%s", code, out, errs)
			}
			if s.Basis != "measured" || strings.Contains(out, "SYNTHETIC") {
				t.Errorf("basis %q, output %s", s.Basis, out)
			}
			data, err := os.ReadFile(filepath.Join(dir, "summary.json"))
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatal(err)
			}
			counts := m["counts"].(map[string]any)
			if counts["total"] != 100.0 || counts["failed"].(float64)+counts["ok"].(float64) != 100 {
				t.Errorf("counts %v", counts)
			}
			for _, key := range []string{"duration_s", "output_tokens", "output_tokens_failed", "token_source", "output_tokens_per_s"} {
				if _, has := m[key]; !has {
					t.Errorf("no %s", key)
				}
			}
			for _, dist := range []string{"ttft_ms", "ttft_service_ms", "tpot_ms", "chunk_gap_ms", "itl_ms", "e2e_ms", "schedule_delay_ms"} {
				f, _ := m[dist].(map[string]any)
				for _, key := range []string{"count", "mean", "p50", "p90", "p95", "p99", "max"} {
					if _, has := f[key].(float64); !has {
						t.Errorf("%s has no %s", dist, key)
					}
				}
			}
			health := m["client_health"].(map[string]any)
			if _, has := health["valid"].(bool); !has || health["reasons"] == nil {
				t.Errorf("client_health %v", health)
			}
			if n := s.Counts.ByClass[loadgen.ClassTruncated]; n != s.Counts.Failed || n < 8 || n > 10 || s.OutputTokensFailed != 2*n || s.OutputTokens != 4*s.Counts.OK {
				t.Errorf("%+v, tokens %d and %d", s.Counts, s.OutputTokens, s.OutputTokensFailed)
			}
			if _, err := os.Stat(filepath.Join(dir, "report.html")); err == nil {
				t.Error("a report without -report")
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	url := benchServe(t, loadgentest.Always(benchFast))
	// Gaps that a busy machine's late reads do not come near, so that the client stays valid.
	slow := benchServe(t, loadgentest.Always(loadgentest.Reply{Interval: 100 * time.Millisecond, Tokens: 4}))
	refuses := benchServe(t, loadgentest.Always(loadgentest.Reply{Status: 503}))
	full := t.TempDir()
	t.Setenv("COTENANT_TEST_BAD_KEY", "key\n")
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	badPrompts := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(badPrompts, []byte("{\"prompt\": \"fine\"}\n{\"prompt\": 3}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	small := []string{"-requests", "4", "-concurrency", "2", "-progress=false"}
	for _, tc := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"nothing listens", append([]string{"-endpoint", "http://127.0.0.1:1"}, small...), exitCannot, "no request succeeded (connect 4: connection refused)"},
		{"no such host", append([]string{"-endpoint", "http://name.invalid"}, small...), exitCannot, "no such host"},
		{"every request refused", append([]string{"-endpoint", refuses}, small...), exitCannot, "http_5xx 4"},
		{"bad endpoint", append([]string{"-endpoint", "ftp://x"}, small...), exitBadInput, `scheme is "ftp"`},
		{"unknown flag", []string{"-nonsense"}, exitBadInput, "nonsense"},
		{"unknown word", []string{"nonsense"}, exitBadInput, "unknown word"},
		{"argument", []string{"-requests", "3", "x"}, exitBadInput, `unexpected argument "x"`},
		{"two loads", []string{"-concurrency", "3", "-rate", "4"}, exitBadInput, "-concurrency and -rate exclude one another"},
		{"report that is no page", []string{"-report", "load.txt"}, exitBadInput, "ends in .html"},
		{"search without an SLO", []string{"-search", "1,5"}, exitBadInput, "-slo-ttft"},
		{"no rate keeps the SLO", append([]string{"-endpoint", slow, "-search", "100,200", "-slo-e2e", "1us"}, "-requests", "4", "-progress=false"), exitNo, "no rate of the search keeps the SLOs"},
		{"directory in use", append([]string{"-endpoint", url, "-out", full}, small...), exitBadInput, "exists and is not empty"},
		{"bad prompts", append([]string{"-endpoint", url, "-prompts", badPrompts}, small...), exitBadInput, "line 2.prompt: is 3"},
		{"no prompts file", append([]string{"-endpoint", url, "-prompts", "nowhere.jsonl"}, small...), exitBadInput, "nowhere.jsonl"},
		{"no plan", []string{"-plan", "nowhere.yaml"}, exitBadInput, "nowhere.yaml"},
		{"no trace", []string{"-trace", "nowhere.csv"}, exitBadInput, "nowhere.csv"},
		{"no run", []string{"table", full}, exitBadInput, "no summary.json"},
		{"compare without groups", []string{"compare", "a", "b"}, exitBadInput, "write -- between"},
		{"key with a line break", append([]string{"-endpoint", url, "-api-key-env", "COTENANT_TEST_BAD_KEY"}, small...), exitBadInput, "api_key: holds control characters"},
		{"price without a currency", []string{"-price", "3.60"}, exitBadInput, "currency"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errs := execBench(t.Context(), "", tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.err) {
				t.Errorf("exit %d, want %d\nstdout %s\nstderr %s\nwant %q", code, tc.code, out, errs, tc.err)
			}
			if tc.code == exitBadInput && (out != "" || strings.Count(errs, "\n") < 1) {
				t.Errorf("stdout %q, stderr %q", out, errs)
			}
			if tc.code == exitCannot && !strings.Contains(out, ", for example: ") {
				t.Errorf("stdout doesn't say why: %s", out)
			}
		})
	}
}

func TestInterruptedBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, errs := execBench(ctx, "", "-requests", "10", "-progress=false"); code != exitInterrupted || !strings.Contains(errs, "context canceled") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestPromptsFromStdinAreUsedInOrder(t *testing.T) {
	var mu sync.Mutex // a connection's goroutine may end after the next one's began
	var got []string
	url := benchServe(t, func(r loadgentest.Request) loadgentest.Reply {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Prompt)
		return benchFast
	})
	code, _, errs := execBench(t.Context(), "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n", "-endpoint", url, "-prompts", "-", "-concurrency", "1", "-requests", "5", "-progress=false")
	mu.Lock()
	defer mu.Unlock()
	if code != exitDone && code != exitInvalid || !slices.Equal(got, []string{"a", "b", "a", "b", "a"}) {
		t.Errorf("exit %d, %v: %s", code, got, errs)
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	t.Setenv("BENCH_TEST_KEY", "hunter2-key")
	url := benchServe(t, loadgentest.Always(benchFast))
	dir := filepath.Join(t.TempDir(), "run")
	code, _, errs := execBench(t.Context(), "", "-endpoint", url, "-requests", "2", "-concurrency", "1", "-progress=false", "-out", dir,
		"-api-key-env", "BENCH_TEST_KEY", "-header", "X-Auth-Thing: hunter2-header", "-header=Cookie: hunter2-cookie")
	if code != benchWant(benchSummary(t, dir)) {
		t.Fatalf("exit %d: %s", code, errs)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("%s holds a secret", d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSafeArguments(t *testing.T) {
	got := safeArguments([]string{"-header", "Authorization: Bearer x", "--header=Cookie: y", "-header", "Plain", "-seed", "1"})
	want := []string{"-header", "Authorization: [redacted]", "--header=Cookie: [redacted]", "-header", "Plain: [redacted]", "-seed", "1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestSweepOnTheEmbeddedServer(t *testing.T) {
	dir, html := filepath.Join(t.TempDir(), "sweep"), filepath.Join(t.TempDir(), "load.html")
	code, out, errs := execBench(t.Context(), "", "-simulate", "baseline,mps,mig", "-concurrency", "2,4", "-requests", "8", "-max-tokens", "3", "-repeats", "2", "-out", dir, "-report", html)
	if code != exitDone && code != exitInvalid {
		t.Fatalf("exit %d: %s", code, errs)
	}
	results, err := benchRuns([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 12 || strings.Count(out, "SYNTHETIC") != 1 || !strings.Contains(errs, "mps-c4-2") {
		t.Errorf("%d runs\n%s\n%s", len(results), out, errs)
	}
	for _, r := range results {
		if r.Summary.Basis != "simulated" {
			t.Errorf("%s is %s", r.Summary.RunID, r.Summary.Basis)
		}
	}
	if _, err := os.Stat(html); err != nil {
		t.Error(err)
	}
}

// TestPrice: with a price a run has the costs of a million tokens, by kind.
func TestPrice(t *testing.T) {
	args := []string{"-simulate", "baseline", "-concurrency", "2", "-requests", "8", "-max-tokens", "3", "-price", "3.60 USD", "-progress=false"}
	code, out, errs := exitInvalid, "", ""
	for n := 0; code == exitInvalid && n < 10; n++ { // on a busy machine the client may shape a run, which has no costs
		code, out, errs = execBench(t.Context(), "", append(args, "-json", "-slo-e2e", "1h")...)
	}
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var runs []struct {
		loadgen.Summary
		Costs []tenantCosts `json:"token_costs"`
	}
	if err := json.Unmarshal([]byte(out), &runs); err != nil || len(runs) != 1 || len(runs[0].Costs) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	s, c := &runs[0].Tenants[0], runs[0].Costs[0]
	want := 1000 / s.OutputTokensPerS * 1e6 // a millionth of a dollar a microsecond
	if got := float64(c.Output.Or(cost.Money{}).Micros()); math.Abs(got-want) > 1 || c.Good != c.Output || c.Input.IsZero() || s.Goodput.OutputTokens.Or(0) != s.OutputTokens {
		t.Errorf("%+v, want %v millionths: %+v", c, want, s.Goodput)
	}
	code = exitInvalid
	for n := 0; code == exitInvalid && n < 10; n++ {
		code, out, errs = execBench(t.Context(), "", args...)
	}
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	_, table, _ := strings.Cut(out, "What a million tokens cost")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); !strings.Contains(table, "baseline  2 users  load") || !strings.HasSuffix(lines[len(lines)-1], " USD  -") {
		t.Errorf("without an SLO nothing is good:\n%s", out)
	}
}

func TestRateSweepAndTrace(t *testing.T) {
	url := benchServe(t, loadgentest.Always(benchFast))
	code, out, errs := execBench(t.Context(), "", "-endpoint", url, "-scenario", "mine", "-rate", "50,100", "-requests", "10", "-progress=false")
	if code != exitDone && code != exitInvalid || !strings.Contains(out, "50 requests/s") || !strings.Contains(out, "mine") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	trace := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(trace, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,5,3\n2023-11-16 18:00:02,6,3\n2023-11-16 18:00:09,7,3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs = execBench(t.Context(), "", "-endpoint", url, "-trace", trace, "-trace-speed", "20", "-trace-slice", "0s,5s", "-progress=false")
	if code != exitDone && code != exitInvalid || !strings.Contains(out, "requests 2, ok 2") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestStudyOfAPlan(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte("embedded: time-sliced\nscenario: s\ntenants:\n"+
		"- {name: a, concurrency: 2, requests: 6, max_tokens: 3, slo: {ttft: 10s}}\n"+
		"- {name: b, rate: 40, requests: 6, synthetic: {input: {fixed: 20}, output: {empirical: [2, 3]}}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "study")
	code, out, errs := execBench(t.Context(), "", "-plan", plan, "-study", "-progress=false", "-out", dir)
	if code != exitDone && code != exitInvalid {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, s := range []string{"Co-located relative to isolated", "\na ", "\nb ", "SYNTHETIC", "2 users, 40 requests/s"} {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in\n%s", s, out)
		}
	}
	if s := benchSummary(t, filepath.Join(dir, "solo-a")); s.Tenants[0].Goodput == nil || s.Tenants[0].Goodput.Met != 6 {
		t.Errorf("%+v", s.Tenants[0].Goodput)
	}
}

// asked starts a server that records its requests, and returns its URL and a function that takes them.
func asked(t *testing.T) (string, func() []loadgentest.Request) {
	var mu sync.Mutex
	var all []loadgentest.Request
	url := benchServe(t, func(r loadgentest.Request) loadgentest.Reply {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r)
		return loadgentest.Reply{Tokens: 2}
	})
	return url, func() []loadgentest.Request {
		mu.Lock()
		defer mu.Unlock()
		defer func() { all = nil }()
		return all
	}
}

func TestWhatIsAsked(t *testing.T) {
	url, requests := asked(t)
	for _, tc := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"-body", "temperature=0", "-body", "stop=[\"x\"]", "-body", "user=me", "-ignore-eos"}, []string{`"temperature":0`, `"stop":["x"]`, `"user":"me"`, `"ignore_eos":true`}},
		{[]string{"-random-input-len", "50", "-random-output-len", "7"}, []string{`"max_tokens":7`}},
	} {
		code, out, errs := execBench(t.Context(), "", append([]string{"-endpoint", url, "-requests", "2", "-concurrency", "1", "-progress=false"}, tc.args...)...)
		got := requests()
		if code != exitDone && code != exitInvalid || len(got) != 2 {
			t.Fatalf("%q: exit %d, %d requests: %s%s", tc.args, code, len(got), out, errs)
		}
		for _, want := range tc.wants {
			if !strings.Contains(string(got[1].Body), want) {
				t.Errorf("%q: no %s in %.300s", tc.args, want, got[1].Body)
			}
		}
		if tc.args[0] == "-random-input-len" && len(strings.Fields(got[0].Prompt)) != 50 {
			t.Errorf("%d words", len(strings.Fields(got[0].Prompt)))
		}
	}
}

// TestFailIf: a run ends with 1 where a condition holds or has no figure.
func TestFailIf(t *testing.T) {
	// Slow answers, which a busy machine reads in time.
	url := benchServe(t, loadgentest.Every(4, loadgentest.Reply{Status: 503}, loadgentest.Reply{TTFT: 20 * time.Millisecond, Interval: 80 * time.Millisecond, Tokens: 3}))
	for condition, want := range map[string]int{"failed>1%": exitNo, "failed>50%": exitDone, "ttft.p99>1m": exitBadInput, "ttft.p50>30s": exitDone, "ttft.p99>30s": exitNo, "goodput<1%": exitNo} {
		code, errs := exitInvalid, ""
		for try := 0; code == exitInvalid && try < 5; try++ {
			code, _, errs = execBench(t.Context(), "", "-endpoint", url, "-requests", "20", "-concurrency", "10", "-progress=false", "-fail-if", condition)
		}
		if code != want || want == exitNo && !strings.Contains(errs, condition) {
			t.Errorf("%s: exit %d, want %d: %s", condition, code, want, errs)
		}
	}
}

// TestCertificateAuthority: an https endpoint is checked against the file of -ca, or of a plan's ca_file.
func TestCertificateAuthority(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-endpoint", srv.URL, "-requests", "2", "-progress=false"}
	if code, out, errs := execBench(t.Context(), "", append(args, "-ca", ca)...); code != exitDone && code != exitInvalid {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := execBench(t.Context(), "", args...); code != exitCannot || !strings.Contains(errs, "unknown authority") {
		t.Errorf("without -ca: exit %d: %s", code, errs)
	}
	plan := filepath.Join(filepath.Dir(ca), "plan.yaml")
	for file, want := range map[string]string{"ca.pem": "", "none.pem": "tenants[0].endpoints[0].ca_file", "plan.yaml": "no certificate in PEM"} {
		text := fmt.Sprintf("tenants:\n- {name: a, requests: 2, concurrency: 1, endpoints: [{url: '%s', ca_file: %s}]}\n", srv.URL, file)
		if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, errs := execBench(t.Context(), "", "-plan", plan, "-progress=false")
		if want == "" && code != exitDone && code != exitInvalid || want != "" && (code != exitBadInput || !strings.Contains(errs, want)) {
			t.Errorf("%s: exit %d: %s%s", file, code, out, errs)
		}
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), os.Args[0]} {
		if code, _, errs := execBench(t.Context(), "", append(args, "-ca", bad)...); code != exitBadInput || !strings.Contains(errs, "ca_file") {
			t.Errorf("%s: exit %d: %s", bad, code, errs)
		}
	}
}

// TestInterrupted: the measurements up to then are kept.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := benchServe(t, func(r loadgentest.Request) loadgentest.Reply {
		if r.N == 20 {
			cancel()
		}
		return loadgentest.Reply{Tokens: 2}
	})
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errs := execBench(ctx, "", "-endpoint", url, "-concurrency", "3", "-requests", "100000", "-out", dir, "-progress=false")
	if code != exitInterrupted || !strings.Contains(out, "artifacts: "+dir) {
		t.Errorf("exit %d: %s", code, errs)
	}
	s := benchSummary(t, dir)
	if s.Complete || s.Counts.OK == 0 || !strings.Contains(out, "requests "+strconv.FormatInt(s.Counts.Total, 10)) {
		t.Errorf("complete %v, %+v, %s", s.Complete, s.Counts, out)
	}
}

func TestInvalidByClientHealth(t *testing.T) {
	url := benchServe(t, loadgentest.Always(benchFast))
	defer func(was loadgen.HealthLimits) { benchHealth = was }(benchHealth)
	benchHealth.SendLagP99 = time.Nanosecond
	code, out, errs := execBench(t.Context(), "", "-endpoint", url, "-rate", "200", "-requests", "10", "-progress=false")
	if code != exitInvalid || !strings.Contains(errs, "send lag p99") || !strings.Contains(out, "INVALID") {
		t.Errorf("exit %d: %s\n%s", code, out, errs)
	}
}

func TestBenchTables(t *testing.T) {
	const runs = "../../loadgen/report/testdata/runs/example"
	code, out, errs := execBench(t.Context(), "", "table", runs)
	if code != exitDone {
		t.Fatal(errs)
	}
	golden.Check(t, "testdata/bench-table.golden", []byte(out))
	code, out, errs = execBench(t.Context(), "", "table", "-json", runs+"/mps-c8", runs+"/mps-c16")
	if code != exitDone {
		t.Fatal(errs)
	}
	golden.Check(t, "testdata/bench-table.json", []byte(out))
	html := filepath.Join(t.TempDir(), "load.html")
	if code, out, errs := execBench(t.Context(), "", "table", "-report", html, runs); code != exitDone {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if text, err := os.ReadFile(html); err != nil || !bytes.Contains(text, []byte("TPOT P99")) {
		t.Error(err)
	}
	code, out, errs = execBench(t.Context(), "", "compare", "-figures", "output_tokens_per_s,e2e_ms.p99", runs+"/baseline-c8", "--", runs+"/mps-c8")
	if code != exitDone || !strings.Contains(out, "SYNTHETIC") || strings.Count(out, "unsupported") != 2 || !strings.Contains(out, "use at least 4 of each") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, _, errs = execBench(t.Context(), "", "compare", runs+"/mps-c8", "--", runs+"/mps-c8")
	if code != exitBadInput || !strings.Contains(errs, "is base[0] too") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
