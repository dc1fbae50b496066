package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
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
	"github.com/cotenant/cotenant/loadgen/planfile"
)

// execProgram runs the program with the client's health out of the way: the machine
// that tests run on may be busy.
func execProgram(ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, health: noLimits}
	code = a.run(ctx, args)
	return code, out.String(), errs.String()
}

var noLimits = loadgen.HealthLimits{SendLagP99: -1, PacingLagP99: -1, ReadLagP99: -1, SchedulingP99: -1, GCPauseMax: -1, CPUFraction: -1}

func serve(t *testing.T, script loadgentest.Script) string {
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

var fast = loadgentest.Reply{TTFT: 5 * time.Millisecond, Interval: 5 * time.Millisecond, Tokens: 4}

// want is the exit code that a completed run's own verdict calls for.
func want(s *loadgen.Summary) int {
	if s.ClientHealth.Valid {
		return exitOK
	}
	return exitInvalid
}

func readSummary(t *testing.T, dir string) *loadgen.Summary {
	t.Helper()
	res, err := loadgen.LoadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &res.Summary
}

// TestContract checks what is promised of summary.json, key by key.
func TestContract(t *testing.T) {
	prompts := filepath.Join(t.TempDir(), "p.jsonl")
	if err := os.WriteFile(prompts, []byte("{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	url := serve(t, loadgentest.Every(11, loadgentest.Reply{Fault: loadgentest.FaultTruncate, FaultAfter: 2, TTFT: time.Millisecond, Tokens: 4}, fast))
	for _, load := range [][]string{{"-concurrency", "20"}, {"-rate", "400"}, {"-rate", "400", "-arrivals", "poisson"}, {"-rate", "400", "-arrivals", "gamma", "-burstiness", "0.5"}} {
		t.Run(strings.Join(load, ""), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			code, out, errs := execProgram(t.Context(), "", append([]string{"-endpoint", url, "-api", "completions", "-model", "m", "-prompts", prompts,
				"-requests", "100", "-max-tokens", "100", "-progress=false", "-out", dir}, load...)...)
			s := readSummary(t, dir)
			if code != want(s) {
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
			if _, err := os.Stat(filepath.Join(dir, reportFile)); err == nil {
				t.Error("a report without -report")
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	url := serve(t, loadgentest.Always(fast))
	refuses := serve(t, loadgentest.Always(loadgentest.Reply{Status: 503}))
	full := t.TempDir()
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
		{"nothing listens", append([]string{"-endpoint", "http://127.0.0.1:1"}, small...), exitFailed, "no request succeeded (connect 4: connection refused)"},
		{"every request refused", append([]string{"-endpoint", refuses}, small...), exitFailed, "http_5xx 4"},
		{"bad endpoint", append([]string{"-endpoint", "ftp://x"}, small...), exitBad, `scheme is "ftp"`},
		{"unknown flag", []string{"-nonsense"}, exitBad, "nonsense"},
		{"unknown command", []string{"nonsense"}, exitBad, "unknown command"},
		{"argument", []string{"-requests", "3", "x"}, exitBad, `unexpected argument "x"`},
		{"bad number", []string{"-concurrency", "0"}, exitBad, "not a whole number above 0"},
		{"too many users", []string{"-concurrency", "1000000000"}, exitBad, "1000000000 is above 100000"},
		{"no time for a request", []string{"-timeout", "0s"}, exitBad, "use a duration above 0"},
		{"drain of a plan", []string{"-plan", "testdata/plan.yaml", "-drain", "1s"}, exitBad, "put drain into the plan"},
		{"two loads", []string{"-concurrency", "3", "-rate", "4"}, exitBad, "-concurrency and -rate exclude one another"},
		{"bad arrivals", []string{"-rate", "3", "-arrivals", "weekly"}, exitBad, "use constant, poisson or gamma"},
		{"arrivals without a rate", []string{"-arrivals", "poisson"}, exitBad, "add -rate"},
		{"no end", []string{"-requests", "0"}, exitBad, "-requests"},
		{"report without a place", []string{"-report"}, exitBad, "add -out"},
		{"search without an SLO", []string{"-search", "1,5"}, exitBad, "needs an SLO"},
		{"directory in use", append([]string{"-endpoint", url, "-out", full}, small...), exitBad, "exists and is not empty"},
		{"bad prompts", append([]string{"-endpoint", url, "-prompts", badPrompts}, small...), exitBad, "line 2.prompt: is 3"},
		{"no prompts file", append([]string{"-endpoint", url, "-prompts", "nowhere.jsonl"}, small...), exitBad, "nowhere.jsonl"},
		{"no plan", []string{"-plan", "nowhere.yaml"}, exitBad, "nowhere.yaml"},
		{"no trace", []string{"-trace", "nowhere.csv"}, exitBad, "nowhere.csv"},
		{"window", []string{"-window", "5s,1s"}, exitBad, "FROM before TO"},
		{"no run", []string{"table", full}, exitBad, "no summary.json"},
		{"compare without groups", []string{"compare", "a", "b"}, exitBad, "write -- between"},
		{"import nothing", []string{"import"}, exitBad, "name at least one"},
		{"empty key", []string{"-api-key-env", "COTENANT_NO_SUCH_VARIABLE"}, exitBad, "COTENANT_NO_SUCH_VARIABLE is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errs := execProgram(t.Context(), "", tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.err) {
				t.Errorf("exit %d, want %d\nstdout %s\nstderr %s\nwant %q", code, tc.code, out, errs, tc.err)
			}
			if tc.code == exitBad && (out != "" || strings.Count(errs, "\n") < 1) {
				t.Errorf("stdout %q, stderr %q", out, errs)
			}
			if tc.code == exitFailed && !strings.Contains(out, ", for example: ") {
				t.Errorf("stdout doesn't say why: %s", out)
			}
		})
	}
}

func TestInvalidByClientHealth(t *testing.T) {
	url := serve(t, loadgentest.Always(fast))
	var out, errs bytes.Buffer
	limits := noLimits
	limits.SendLagP99 = time.Nanosecond
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, health: limits}
	if code := a.run(t.Context(), []string{"-endpoint", url, "-rate", "200", "-requests", "10", "-progress=false"}); code != exitInvalid {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if !strings.Contains(errs.String(), "send lag p99") || !strings.Contains(out.String(), "INVALID") {
		t.Errorf("%s\n%s", out.String(), errs.String())
	}
}

func TestInterrupted(t *testing.T) {
	url := serve(t, loadgentest.Always(fast))
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errs := execProgram(ctx, "", "-endpoint", url, "-concurrency", "3", "-requests", "100000", "-out", dir, "-progress=false")
	if code != exitFailed || !strings.Contains(errs, "interrupted; what was measured is in "+dir) {
		t.Errorf("exit %d: %s", code, errs)
	}
	s := readSummary(t, dir)
	if s.Complete || s.Counts.OK == 0 || !strings.Contains(out, "requests "+strconv.FormatInt(s.Counts.Total, 10)) {
		t.Errorf("complete %v, %+v, %s", s.Complete, s.Counts, out)
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before+2 { // the server's own may come and go
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestInterruptedBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, errs := execProgram(ctx, "", "-requests", "10", "-progress=false"); code != exitFailed || !strings.Contains(errs, "interrupted") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestPromptsFromStdinAreUsedInOrder(t *testing.T) {
	var mu sync.Mutex // a connection's goroutine may end after the next one's began
	var got []string
	url := serve(t, func(r loadgentest.Request) loadgentest.Reply {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Prompt)
		return fast
	})
	code, _, errs := execProgram(t.Context(), "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n", "-endpoint", url, "-prompts", "-", "-concurrency", "1", "-requests", "5", "-progress=false")
	mu.Lock()
	defer mu.Unlock()
	if code != exitOK && code != exitInvalid || !slices.Equal(got, []string{"a", "b", "a", "b", "a"}) {
		t.Errorf("exit %d, %v: %s", code, got, errs)
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	t.Setenv("BENCH_TEST_KEY", "hunter2-key")
	url := serve(t, loadgentest.Always(fast))
	dir := filepath.Join(t.TempDir(), "run")
	code, _, errs := execProgram(t.Context(), "", "-endpoint", url, "-requests", "2", "-concurrency", "1", "-progress=false", "-out", dir,
		"-api-key-env", "BENCH_TEST_KEY", "-header", "X-Auth-Thing: hunter2-header", "-header=Cookie: hunter2-cookie")
	if code != want(readSummary(t, dir)) {
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

func TestSweepOnTheEmbeddedServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	code, out, errs := execProgram(t.Context(), "", "-simulate", "baseline,mps,mig", "-concurrency", "2,4", "-requests", "8", "-max-tokens", "3", "-repeats", "2", "-out", dir, "-report")
	if code != exitOK && code != exitInvalid {
		t.Fatalf("exit %d: %s", code, errs)
	}
	results, err := readRuns([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 12 || strings.Count(out, "SYNTHETIC") != 7 || !strings.Contains(errs, "mps-c4-2") {
		t.Errorf("%d runs\n%s\n%s", len(results), out, errs)
	}
	for _, r := range results {
		if r.Summary.Basis != "simulated" {
			t.Errorf("%s is %s", r.Summary.RunID, r.Summary.Basis)
		}
	}
	for _, name := range []string{"report.html", "table.md", "figures/throughput-concurrency.svg", "figures/p99-concurrency.png", "figures/cdf-e2e.svg", "figures/cdf-ttft.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestPrice: with a price a run says what a million tokens cost, by kind.
func TestPrice(t *testing.T) {
	args := []string{"-simulate", "baseline", "-concurrency", "2", "-requests", "8", "-max-tokens", "3", "-price", "3.60 USD", "-progress=false"}
	code, out, errs := execProgram(t.Context(), "", append(args, "-json", "-slo-e2e", "1h")...)
	if code != exitOK && code != exitInvalid {
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
	code, out, errs = execProgram(t.Context(), "", args...)
	if code != exitOK && code != exitInvalid {
		t.Fatalf("exit %d: %s", code, errs)
	}
	_, table, _ := strings.Cut(out, "What a million tokens cost")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); !strings.Contains(table, "baseline  2 users  load") || !strings.HasSuffix(lines[len(lines)-1], " USD  -") {
		t.Errorf("without an SLO nothing is good:\n%s", out)
	}
	if code, _, errs := execProgram(t.Context(), "", "-price", "3.60"); code != exitBad || !strings.Contains(errs, "currency") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestRateSweepAndTrace(t *testing.T) {
	url := serve(t, loadgentest.Always(fast))
	code, out, errs := execProgram(t.Context(), "", "-endpoint", url, "-scenario", "mine", "-rate", "50,100", "-requests", "10", "-progress=false")
	if code != exitOK && code != exitInvalid || !strings.Contains(out, "50 requests/s") || !strings.Contains(out, "mine") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	trace := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(trace, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,5,3\n2023-11-16 18:00:02,6,3\n2023-11-16 18:00:09,7,3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs = execProgram(t.Context(), "", "-endpoint", url, "-trace", trace, "-trace-speed", "20", "-trace-slice", "0s,5s", "-progress=false")
	if code != exitOK && code != exitInvalid || !strings.Contains(out, "requests 2, ok 2") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestSearch(t *testing.T) {
	// Answers of one token have no gaps, so that nothing but the SLO decides.
	url := serve(t, loadgentest.Always(loadgentest.Reply{TTFT: time.Millisecond, Tokens: 1}))
	dir := filepath.Join(t.TempDir(), "search")
	code, out, errs := execProgram(t.Context(), "", "-endpoint", url, "-search", "200,400", "-slo-e2e", "10s", "-requests", "150", "-progress=false", "-out", dir)
	if code != exitOK && code != exitInvalid || !strings.Contains(out, "400/s") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	var found loadgen.SearchResult
	data, err := os.ReadFile(filepath.Join(dir, searchFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &found); err != nil || found.PassesPerS.Or(0) != 400 || len(found.Trials) < 4 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestSearchLengthensTrials: the help's own search, at a rate at which its duration
// brings too few requests to decide.
func TestSearchLengthensTrials(t *testing.T) {
	url := serve(t, loadgentest.Always(loadgentest.Reply{TTFT: time.Millisecond, Tokens: 1}))
	code, out, errs := execProgram(t.Context(), "", "-endpoint", url, "-search", "300,400", "-slo-ttft", "5s", "-duration", "100ms", "-progress=false")
	if code != exitOK && code != exitInvalid || !strings.Contains(out, "400/s") || !strings.Contains(errs, "search: trials at 300/s last 500ms instead of 100ms: 134 requests each are needed to decide") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := execProgram(t.Context(), "", "-endpoint", url, "-search", "1,50", "-slo-ttft", "1ms", "-non-streaming"); code != exitBad || !strings.Contains(errs, "-slo-e2e") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := execProgram(t.Context(), "", "-endpoint", url, "-requests", "5", "-slo-ttft", "1ms", "-non-streaming", "-progress=false"); code != exitOK && code != exitInvalid {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestDiscardedTrials: the answer of a search stands though a trial was spoiled.
func TestDiscardedTrials(t *testing.T) {
	var errs bytes.Buffer
	m := &measurement{app: &app{stderr: &errs}, discards: true}
	for _, valid := range []bool{true, false, true} {
		r := &loadgen.Result{}
		r.Summary.Counts.ByClass = map[loadgen.Class]int64{loadgen.ClassOK: 9}
		r.Summary.ClientHealth = loadgen.ClientHealth{Valid: valid, Reasons: []string{"longest GC pause"}}
		m.results = append(m.results, r)
	}
	if err := m.verdict(); err != nil || !strings.Contains(errs.String(), "1 trials were discarded") {
		t.Errorf("%v; %s", err, errs.String())
	}
	if m.discards = false; m.verdict() == nil {
		t.Error("a spoiled run outside of a search is valid")
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
	code, out, errs := execProgram(t.Context(), "", "-plan", plan, "-study", "-progress=false", "-out", dir)
	if code != exitOK && code != exitInvalid {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, s := range []string{"together / alone", "\na ", "\nb ", "SYNTHETIC", "2 users, 40 requests/s"} {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in\n%s", s, out)
		}
	}
	if s := readSummary(t, filepath.Join(dir, "solo-a")); s.Tenants[0].Goodput == nil || s.Tenants[0].Goodput.Met != 6 {
		t.Errorf("%+v", s.Tenants[0].Goodput)
	}
}

func TestWorkersAndMerge(t *testing.T) {
	url := serve(t, loadgentest.Always(fast))
	dir := filepath.Join(t.TempDir(), "runs")
	t.Setenv(loadgen.WorkerCountEnv, "2")
	for i := range 2 {
		t.Setenv(loadgen.WorkerIndexEnv, strconv.Itoa(i))
		code, _, errs := execProgram(t.Context(), "", "-endpoint", url, "-rate", "100", "-requests", "11", "-progress=false", "-out", dir)
		if code != want(readSummary(t, filepath.Join(dir, strconv.Itoa(i)))) {
			t.Fatalf("exit %d: %s", code, errs)
		}
	}
	merged := filepath.Join(t.TempDir(), "merged")
	code, out, errs := execProgram(t.Context(), "", "merge", "-out", merged, dir)
	if code != exitOK || !strings.Contains(out, "2 workers merged") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if s := readSummary(t, merged); s.Counts.OK != 11 || s.Workers != 2 {
		t.Errorf("%d ok of %d workers", s.Counts.OK, s.Workers)
	}
	for _, args := range [][]string{{"-rate", "1,2", "-out", dir}, {"-rate", "1"}} {
		if code, _, errs := execProgram(t.Context(), "", args...); code != exitBad || !strings.Contains(errs, "worker") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
	t.Setenv(loadgen.WorkerIndexEnv, "2")
	if code, _, _ := execProgram(t.Context(), "", "-out", dir); code != exitBad {
		t.Errorf("worker 2 of 2: exit %d", code)
	}
	if code, _, errs := execProgram(t.Context(), "", "merge", dir); code != exitBad || !strings.Contains(errs, "-out") {
		t.Errorf("merge without -out: exit %d, %s", code, errs)
	}
}

func TestPlanNamesEveryProblem(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"keys": "seed: -1\ntenants:\n- {name: a, concurency: 2}\n- {rate: fast}\n",
		"values": "embedded: sliced\ntenants:\n- {name: a, concurrency: 2, rate: 3, arrivals: weekly}\n" +
			"- {name: b, endpoints: [{url: 'http://x', api_key_env: COTENANT_NO_SUCH_VARIABLE}], rate: 3, prompts: nowhere.jsonl}\n" +
			"- {name: c, rate: 3, synthetic: {input: {fixed: 3, normal: {mean: 4}}, output: {}}}\n",
		"meaning": "embedded: concurrent\ntenants:\n- {name: a, concurrency: 2}\n- {name: a, rate: 3, max_tokens: -1}\n",
	} {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		code, _, errs := execProgram(t.Context(), "", "-plan", file)
		if code != exitBad {
			t.Errorf("%s: exit %d", name, code)
		}
		golden.Check(t, "testdata/plan-"+name+".golden", []byte(plainErrors(errs, dir)))
	}
}

// plainErrors leaves out what differs between machines.
func plainErrors(text, dir string) string {
	return strings.NewReplacer(dir+string(filepath.Separator), "", "The system cannot find the file specified.", "no such file or directory").Replace(text)
}

func TestThePlanInTestdataIsValid(t *testing.T) {
	p, err := planfile.Load("testdata/plan.yaml", planfile.Options{})
	if err != nil || len(p.Tenants) != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, p.Embedded = range []string{"time-sliced", "concurrent", "partitioned"} {
		e, err := embedTenants(p)
		if err := errors.Join(err, p.Resolve(planfile.Options{Dir: "testdata"}), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestHelp(t *testing.T) {
	code, out, errs := execProgram(t.Context(), "", "-h")
	if code != exitOK || errs != "" {
		t.Errorf("exit %d, %s", code, errs)
	}
	golden.Check(t, "testdata/help.golden", []byte(out))
	for _, c := range commands()[1:] {
		if code, out, _ := execProgram(t.Context(), "", c.name, "-h"); code != exitOK || !strings.Contains(out, "benchmark "+c.name) {
			t.Errorf("%s -h: exit %d, %s", c.name, code, out)
		}
	}
}
