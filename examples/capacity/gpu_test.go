//go:build gpu

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// TestOnServers holds verdicts and goodput against two servers on one GPU under a
// bursty trace at three loads. It wants, in its environment, CAPACITY_ROWS (their rows
// alone in the co-location format), CAPACITY_SERVERS ("1b=URL 8b=URL"), CAPACITY_GPU,
// CAPACITY_MECHANISM (exclusive, time-slicing or mps), and CAPACITY_OUT, a file that
// the results of all mechanisms gather in. CAPACITY_FOR is how long each load lasts, 9s
// where it does not say; CAPACITY_RECORDS, a file, gets a line for each request.
func TestOnServers(t *testing.T) {
	env := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			t.Skip("no " + name)
		}
		return v
	}
	o := options{profiles: env("CAPACITY_ROWS"), seed: 1}
	mechanism, gpu := env("CAPACITY_MECHANISM"), env("CAPACITY_GPU")
	at := map[string]string{}
	for s := range strings.FieldsSeq(env("CAPACITY_SERVERS")) {
		name, url, _ := strings.Cut(s, "=")
		at[name] = url
	}
	models, err := o.readProfiles()
	if err != nil {
		t.Fatal(err)
	}
	var all []onServers
	if data, err := os.ReadFile(env("CAPACITY_OUT")); err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
	}
	during := 9 * time.Second
	if v := os.Getenv("CAPACITY_FOR"); v != "" {
		if during, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	warmUp(t, at)
	for _, load := range []float64{0.5, 1, 2} {
		requests := bursty(load, during)
		groups := [][]int{{0, 1}}
		if mechanism == "exclusive" {
			groups = [][]int{{0}, {1}}
		}
		for _, group := range groups {
			all = append(all, measured(t, mechanism, gpu, load, group, models, at, requests, during)...)
		}
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env("CAPACITY_OUT"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	summed(t, all)
}

// measured predicts a group of tenants on one GPU, runs the same requests on the
// servers, and compares.
func measured(t *testing.T, mechanism, gpu string, load float64, group []int, models []model, at map[string]string, requests []capacity.Request, during time.Duration) []onServers {
	t.Helper()
	plan, limits := planned(t, mechanism, gpu, group, models, requests)
	run := loadgen.LoadPlan{Duration: during, Drain: 30 * time.Second}
	for i := range plan.Tenants {
		trace := &prompt.Trace{}
		for r := range plan.Requests {
			if r.Tenant == i {
				trace.Requests = append(trace.Requests, prompt.TraceRequest{At: r.At, InputTokens: r.Input, OutputTokens: r.Output})
			}
		}
		prompts, err := trace.Prompts(prompt.TraceOptions{IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		name := plan.Tenants[i].Name
		run.Tenants = append(run.Tenants, loadgen.Tenant{
			Name: name, Model: "m", API: loadgen.APICompletions, Endpoints: []loadgen.Endpoint{{URL: at[name]}}, Prompts: prompts, Load: loadgen.OfferedLoad{Schedule: trace.Schedule(1)},
			SLO: loadgen.RequestSLO{TTFT: limits[i][0].Most, TPOT: limits[i][1].Most},
		})
	}
	a := foreseen(t, plan)
	t.Logf("%s at load %g begins at %.3f", mechanism, load, float64(time.Now().UnixNano())/1e9)
	res, err := loadgen.Run(t.Context(), run, loadgen.Options{KeepRecords: true})
	if err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("CAPACITY_RECORDS"); name != "" {
		recorded(t, name, mechanism, load, res.Records)
	}
	var out []onServers
	for i := range plan.Tenants {
		name := plan.Tenants[i].Name
		m, _ := res.Summary.Tenant(name)
		c := onServers{Mechanism: mechanism, Tenant: name, Load: load, Requests: m.Counts.Total, Measured: map[string]float64{
			"ttft_p50": float64(m.TTFT.P50), "ttft_p90": float64(m.TTFT.P90), "tpot_p50": float64(m.TPOT.P50), "tpot_p90": float64(m.TPOT.P90),
		}}
		if m.Counts.Failed > 0 {
			t.Errorf("%s: %d requests failed: %v", name, m.Counts.Failed, m.Counts.Examples)
		}
		if c.compare(a.Tenants[i].Predicted, limits[i], during); m.Goodput != nil {
			c.WasGoodPerS = float64(m.Goodput.Met) / during.Seconds()
		}
		out = append(out, c)
	}
	return out
}

// recorded adds a line for each request to a file.
func recorded(t *testing.T, name, mechanism string, load float64, records []loadgen.Record) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	enc := json.NewEncoder(f)
	for i := range records {
		r := &records[i]
		ms := func(ns int64) float64 { return float64(ns) / 1e6 }
		if err := enc.Encode(map[string]any{
			"mechanism": mechanism, "load": load, "tenant": r.Tenant, "at_ms": ms(r.IntendedNS), "sent_ms": ms(r.SentNS), "first_ms": ms(r.FirstTokenNS), "last_ms": ms(r.LastTokenNS),
			"input": r.PromptTokens, "output": r.OutputTokens, "max_gap_ms": ms(r.MaxGapNS),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// warmUp asks for each length of prompt once: the first of a length is slow.
func warmUp(t *testing.T, at map[string]string) {
	t.Helper()
	plan := loadgen.LoadPlan{}
	for name, url := range at {
		trace := &prompt.Trace{}
		for n := 90; n < 400; n++ {
			trace.Requests = append(trace.Requests, prompt.TraceRequest{InputTokens: n, OutputTokens: 3})
		}
		prompts, err := trace.Prompts(prompt.TraceOptions{IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		plan.Tenants = append(plan.Tenants, loadgen.Tenant{Name: name, Model: "m", API: loadgen.APICompletions, Endpoints: []loadgen.Endpoint{{URL: url}}, Prompts: prompts, Load: loadgen.OfferedLoad{Concurrency: 4}})
	}
	if _, err := loadgen.Run(t.Context(), plan, loadgen.Options{}); err != nil {
		t.Fatal(err)
	}
}
