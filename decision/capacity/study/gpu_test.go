//go:build gpu

package study

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// TestOnServers holds verdicts and goodput against two servers on one GPU under a
// bursty trace. It wants, in its environment, CAPACITY_ROWS (their rows alone in the
// co-location format), CAPACITY_SERVERS ("1b=URL 8b=URL"), CAPACITY_GPU,
// CAPACITY_MECHANISM (exclusive, time-slicing or mps), and CAPACITY_OUT, a file that
// the results of all mechanisms gather in. CAPACITY_FOR is how long each load lasts, 19s
// where it does not say; CAPACITY_RECORDS, a file, gets a line for each request.
//
// The objectives are those of operated. The loads are 40, 70 and 100% of what the
// mechanism sustains by the prediction from the same rows, and 140% where a GPU is
// shared, which shows verdicts beyond that and is no load to plan with; CAPACITY_SHARES,
// like 0.4,0.7,1, asks for others. A shared GPU then gets the requests of 70 and 100% once
// more. CAPACITY_SEED draws another trace than that of the series before;
// CAPACITY_WARM says that the servers have met every length of prompt already.
// CAPACITY_UNTIL and CAPACITY_REPEAT_UNTIL, in seconds of Unix time, are when the last
// load, and repetition, has to be over.
func TestOnServers(t *testing.T) {
	env := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			t.Skip("no " + name)
		}
		return v
	}
	mechanism := env("CAPACITY_MECHANISM")
	models, err := readProfiles(env("CAPACITY_ROWS"))
	if err != nil {
		t.Fatal(err)
	}
	on := servers{testbed: testbed{env("CAPACITY_GPU"), models, operated, firstSeed}, mechanism: mechanism, at: map[string]string{}, during: 19 * time.Second}
	for s := range strings.FieldsSeq(env("CAPACITY_SERVERS")) {
		name, url, _ := strings.Cut(s, "=")
		on.at[name] = url
	}
	if v := os.Getenv("CAPACITY_FOR"); v != "" {
		if on.during, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	var all []onServers
	if data, err := os.ReadFile(env("CAPACITY_OUT")); err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
	}
	keep := func() {
		data, err := json.MarshalIndent(all, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(env("CAPACITY_OUT"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	over := func(name string) bool {
		until, err := strconv.ParseInt(os.Getenv(name), 10, 64)
		return err == nil && time.Now().Add(on.during+4*time.Second).After(time.Unix(until, 0))
	}
	if os.Getenv("CAPACITY_WARM") == "" {
		warmUp(t, on.at)
	}
	groups, shares := [][]int{{0, 1}}, []float64{0.4, 0.7, 1, 1.4}
	if mechanism == "exclusive" {
		groups, shares = [][]int{{0}, {1}}, shares[:3]
	}
	if v := os.Getenv("CAPACITY_SHARES"); v != "" {
		shares = nil
		for text := range strings.SplitSeq(v, ",") {
			share, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			shares = append(shares, share)
		}
	}
	if v := os.Getenv("CAPACITY_SEED"); v != "" {
		if on.seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for _, group := range groups {
		begun := time.Now()
		sustained := on.sustained(t, mechanism, group, on.during)
		t.Logf("%s %v sustains load %g, said in %v", mechanism, group, sustained, time.Since(begun))
		for _, share := range shares {
			if over("CAPACITY_UNTIL") {
				t.Errorf("no time for %g of what %s sustains", share, mechanism)
				continue
			}
			cases := on.measured(t, loadAt(sustained, share), group)
			for i := range cases {
				cases[i].Share = share
			}
			all = append(all, cases...)
			keep()
		}
		for _, share := range shares {
			if mechanism == "exclusive" || share != 0.7 && share != 1 || over("CAPACITY_REPEAT_UNTIL") {
				continue
			}
			load := loadAt(sustained, share)
			for _, c := range on.measured(t, load, group) {
				for i := range all {
					if a := &all[i]; a.Mechanism == mechanism && a.Tenant == c.Tenant && a.Load == load {
						a.RepeatGoodPerS = c.WasGoodPerS
					}
				}
			}
			keep()
		}
	}
	t.Log(summed(t, all, on.during))
}

// servers are a testbed's, by the names of their models.
type servers struct {
	testbed
	mechanism string
	at        map[string]string
	during    time.Duration
}

// measured predicts a group of tenants on one GPU, runs the same requests on the
// servers, and compares.
func (s *servers) measured(t *testing.T, load float64, group []int) []onServers {
	t.Helper()
	plan, limits := s.planned(t, s.mechanism, group, bursty(load, s.during, s.seed))
	run := loadgen.LoadPlan{Duration: s.during, Drain: 30 * time.Second}
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
			Name: name, Model: "m", API: loadgen.APICompletions, Endpoints: []loadgen.Endpoint{{URL: s.at[name]}}, Prompts: prompts, Load: loadgen.OfferedLoad{Schedule: trace.Schedule(1)},
			SLO: loadgen.RequestSLO{TTFT: limits[i][0].Most, TPOT: limits[i][1].Most},
		})
	}
	a := foreseen(t, plan)
	t.Logf("%s at load %g begins at %.3f", s.mechanism, load, float64(time.Now().UnixNano())/1e9)
	res, err := loadgen.Run(t.Context(), run, loadgen.Options{KeepRecords: true})
	if err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("CAPACITY_RECORDS"); name != "" {
		recorded(t, name, s.mechanism, load, res.Records)
	}
	var out []onServers
	for i := range plan.Tenants {
		name := plan.Tenants[i].Name
		m, _ := res.Summary.Tenant(name)
		c := onServers{Mechanism: s.mechanism, Tenant: name, Load: load, Requests: m.Counts.Total, Measured: map[string]float64{
			"ttft_p50": float64(m.TTFT.P50), "ttft_p90": float64(m.TTFT.P90), "tpot_p50": float64(m.TPOT.P50), "tpot_p90": float64(m.TPOT.P90),
		}}
		if m.Counts.Failed > 0 {
			t.Errorf("%s: %d requests failed: %v", name, m.Counts.Failed, m.Counts.Examples)
		}
		if c.compare(a.Tenants[i].Predicted, limits[i], s.during); m.Goodput != nil {
			c.WasGoodPerS = float64(m.Goodput.Met) / s.during.Seconds()
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

// sustained is the largest multiple of the trace, in tenths, at which every objective of
// a group on one GPU is predicted to be kept: at least 0.2 and at most 8.
func (b *testbed) sustained(t *testing.T, mechanism string, group []int, during time.Duration) float64 {
	t.Helper()
	least, most := 2, 81
	for least+1 < most {
		tenths := (least + most) / 2
		plan, limits := b.planned(t, mechanism, group, bursty(float64(tenths)/10, during, b.seed))
		a, kept := foreseen(t, plan), true
		for i := range a.Tenants {
			for _, l := range limits[i] {
				kept = kept && a.Tenants[i].Predicted[fmt.Sprintf("%s_p%d", l.Latency, l.Percentile)].Value <= float64(l.Most)/1e6
			}
		}
		if kept {
			least = tenths
		} else {
			most = tenths
		}
	}
	return float64(least) / 10
}

// loadAt is a share of what is sustained, to a hundredth, as records tell it.
func loadAt(sustained, share float64) float64 { return math.Round(100*sustained*share) / 100 }
