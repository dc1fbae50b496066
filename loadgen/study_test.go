package loadgen_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

func TestStudyCases(t *testing.T) {
	plan := loadgen.LoadPlan{Scenario: "mps", Tenants: []loadgen.Tenant{{Name: "a"}, {Name: "b"}}}
	var got []string
	for _, c := range loadgen.Study(plan) {
		s := c.Name + ":"
		for _, tn := range c.Plan.Tenants {
			s += " " + tn.Name
		}
		got = append(got, s)
	}
	want := []string{"solo-a: a", "solo-b: b", "colocated: a b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMergeNothing(t *testing.T) {
	for want, results := range map[string][]*loadgen.Result{"none given": nil, "results[0] is nil": {nil}, "results[1] is nil": {{}, nil}} {
		if _, err := loadgen.Merge(results...); !errors.Is(err, loadgen.ErrMerge) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestMergeWorkers: the parts of a plan, run by workers and merged from their directories, are the plan.
func TestMergeWorkers(t *testing.T) {
	script := func(r loadgentest.Request) loadgentest.Reply {
		rep := loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10}
		if r.Prompt == "bad" {
			rep.Status = 503
		}
		return rep
	}
	run := func(w loadgen.Worker, dir string) *loadgen.Result {
		res, _ := bubble(t, script, func(p *loadgen.LoadPlan, _ *loadgentest.Options, o *loadgen.Options) {
			p.Tenants[0].Requests = 60
			p.Tenants[0].Prompts = loadgen.Texts("a", "b", "c", "bad", "d")
			p.Tenants[0].Load = loadgen.OfferedLoad{Schedule: loadgen.Constant{PerS: 20}}
			p.Tenants[0].SLO = loadgen.RequestSLO{TTFT: time.Second}
			o.Worker, o.Dir = w, dir
		})
		return res
	}
	whole := run(loadgen.Worker{}, "").Summary
	root := t.TempDir()
	var parts []*loadgen.Result
	for i := range 3 {
		dir := filepath.Join(root, string(rune('0'+i)))
		run(loadgen.Worker{Index: i, Count: 3}, dir)
		res, err := loadgen.LoadResult(dir)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, res)
	}
	merged, err := loadgen.Merge(parts...)
	if err != nil {
		t.Fatal(err)
	}
	m := &merged.Summary
	if diff := cmp.Diff(whole.Counts, m.Counts); diff != "" {
		t.Error(diff)
	}
	if m.Workers != 3 || m.OutputTokens != whole.OutputTokens || m.TTFT.P99 != whole.TTFT.P99 || m.ChunkGap.Count != whole.ChunkGap.Count ||
		m.Tenants[0].Goodput.Met != whole.Tenants[0].Goodput.Met || m.Goodput == nil || *m.Goodput != *m.Tenants[0].Goodput || math.Abs(m.DurationS-whole.DurationS) > 0.2 ||
		!math.IsInf(float64(m.TTFTFailuresInfinite.P90), 1) {
		t.Errorf("merged %+v\nwhole %+v", m.Measures, whole.Measures)
	}
	if n, ok := m.Goodput.OutputTokens.Get(); !ok || n != whole.Goodput.OutputTokens.Or(0) {
		t.Errorf("%v good tokens, want %v", m.Goodput.OutputTokens, whole.Goodput.OutputTokens)
	}
	out := filepath.Join(root, "merged")
	if err := loadgen.SaveResult(out, merged); err != nil {
		t.Fatal(err)
	}
	back, err := loadgen.LoadResult(out)
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := json.Marshal(merged.Summary)
	b, err2 := json.Marshal(back.Summary)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
		t.Errorf("%v\n%s\n%s", err, a, b)
	}
	parts[1].Summary.Tenants[0].Goodput.OutputTokens = loadgen.Optional[int64]{} // of an older version
	if merged, err := loadgen.Merge(parts...); err != nil || !merged.Summary.Tenants[0].Goodput.OutputTokens.IsZero() {
		t.Errorf("%v, %+v", err, merged.Summary.Tenants[0].Goodput)
	}
	copied, err := loadgen.LoadResult(out)
	if err != nil {
		t.Fatal(err)
	}
	_, err = loadgen.Merge(parts[0], back, copied, parts[0])
	for _, want := range []string{"results[2]: " + out + " holds the run of results[1] " + out, "results[3]: " + parts[0].Dir + " holds the run of results[0] " + parts[0].Dir} {
		if !errors.Is(err, loadgen.ErrMerge) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	parts[1].Summary.Basis, parts[2].Summary.Tenants[0].TokenSource = "simulated", loadgen.TokensEvents
	_, err = loadgen.Merge(parts...)
	if !errors.Is(err, loadgen.ErrMerge) || !strings.Contains(err.Error(), "results[1].basis") || !strings.Contains(err.Error(), "results[2].tenants[0].token_source") {
		t.Error(err)
	}
	if _, err := loadgen.Merge(); !errors.Is(err, loadgen.ErrMerge) {
		t.Error(err)
	}
}

func TestJob(t *testing.T) {
	var b bytes.Buffer
	j := loadgen.Job{
		Name: "bench", Namespace: "perf", Image: "registry.example/bench:1", Args: []string{"-rate", "100", "-note", "a: b # c"},
		Workers: 4, StartAt: "2026-01-02T15:04:05Z", SecretName: "llm-key", ClaimName: "runs",
	}
	if err := j.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/job.yaml", b.Bytes())
	for _, env := range []string{loadgen.WorkerCountEnv, loadgen.StartAtEnv, loadgen.APIKeyEnv} {
		if !strings.Contains(b.String(), "name: "+env+"\n") {
			t.Errorf("the manifest sets no %s", env)
		}
	}
	err := loadgen.Job{}.WriteYAML(&b)
	for _, want := range []string{"name: empty", "image: empty", "workers: 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	env := map[string]string{loadgen.WorkerIndexEnv: "2", loadgen.WorkerCountEnv: "4"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	if w, at, err := loadgen.WorkerFromEnv(lookup); err != nil || w != (loadgen.Worker{Index: 2, Count: 4}) || !at.IsZero() {
		t.Errorf("%+v, %v, %v", w, at, err)
	}
	env[loadgen.StartAtEnv] = "2026-01-02T15:04:05Z"
	if _, at, err := loadgen.WorkerFromEnv(lookup); err != nil || at.Unix() != 1767366245 {
		t.Errorf("%v, %v", at, err)
	}
	for name, value := range map[string]string{loadgen.StartAtEnv: "noon", loadgen.WorkerIndexEnv: "4"} {
		was := env[name]
		env[name] = value
		if _, _, err := loadgen.WorkerFromEnv(lookup); err == nil {
			t.Errorf("%s %s accepted", name, value)
		}
		env[name] = was
	}
	env = nil
	if w, _, err := loadgen.WorkerFromEnv(lookup); err != nil || w != (loadgen.Worker{}) {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestSaturationStop: an open loop twice as fast as the server is stopped.
func TestSaturationStop(t *testing.T) {
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 100 * ms, Tokens: 1}), func(p *loadgen.LoadPlan, so *loadgentest.Options, o *loadgen.Options) {
		so.Slots = 1
		p.Tenants[0].Requests = 10000
		p.Tenants[0].Load = loadgen.OfferedLoad{Schedule: loadgen.Constant{PerS: 20}}
		o.StopSaturated = true
	})
	s := res.Summary
	if !strings.Contains(s.Stopped, "over-saturated") || s.Complete || s.DurationS > 15 || s.Counts.ByClass[loadgen.ClassCancelled] == 0 {
		t.Errorf("stopped %q after %v s, %+v", s.Stopped, s.DurationS, s.Counts)
	}
}

// TestArtifactsGolden pins the layout of the artifacts. Times inside a bubble are
// always the same; what belongs to the machine is taken out.
func TestArtifactsGolden(t *testing.T) {
	res, _ := bubble(t, loadgentest.Every(4, loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 8, Fault: loadgentest.FaultCut, FaultAfter: 5},
		loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 8}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, o *loadgen.Options) {
		p.Scenario, p.Simulated = "golden", true
		p.Tenants[0].Requests = 8
		p.Tenants[0].Load.Concurrency = 2
		p.Tenants[0].SLO = loadgen.RequestSLO{TTFT: 100 * ms}
		o.RunID = "20000101T000000Z-golden-000000"
	})
	s := res.Summary
	s.ClientHealth.GCPauses, s.ClientHealth.GCPauseMaxMS, s.ClientHealth.SchedulingP99MS = 0, 0, 0
	s.ClientHealth.CPUSeconds, s.ClientHealth.CPUFraction, s.ClientHealth.GOMAXPROCS = loadgen.Optional[float64]{}, loadgen.Optional[float64]{}, 1
	s.ClientHealth.Valid, s.ClientHealth.Reasons = true, []string{}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/summary.json", append(b, '\n'))
}

// TestTotalGoodput: the totals' goodput is over the tenants that have an SLO, each by
// its own; a tenant without one is not one that kept none.
func TestTotalGoodput(t *testing.T) {
	const kept, missed = time.Hour, time.Nanosecond
	run := func(slos ...time.Duration) *loadgen.Summary {
		t.Helper()
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: ms, Interval: ms, Tokens: 3}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			one := p.Tenants[0]
			p.Tenants = nil
			for i, slo := range slos {
				one.Name, one.Requests, one.SLO.TTFT = string(rune('a'+i)), 10*(i+1), slo
				one.Prompts = loadgen.Texts("x", "y", "z")
				p.Tenants = append(p.Tenants, one)
			}
		})
		return &res.Summary
	}
	for _, c := range []struct {
		name string
		slos []time.Duration
		want *loadgen.Goodput
	}{
		{"none", []time.Duration{0, 0}, nil},
		{"one of two", []time.Duration{kept, 0}, &loadgen.Goodput{SLO: loadgen.SLOFigures{TTFT: 3600e3}, Of: 10, Met: 10, Fraction: optional.Of(1.0), OutputTokens: optional.Of(int64(30))}},
		{"different", []time.Duration{kept, missed, 0}, &loadgen.Goodput{Of: 30, Met: 10, Fraction: optional.Of(1.0 / 3), OutputTokens: optional.Of(int64(30))}},
	} {
		s := run(c.slos...)
		got := s.Goodput
		if c.want != nil && got != nil {
			if per, ok := got.PerS.Get(); !ok || math.Abs(per-float64(got.Met)/s.DurationS) > 1e-9 {
				t.Errorf("%s: %v requests/s", c.name, got.PerS)
			}
			c.want.PerS, c.want.OutputTokensPerS = got.PerS, optional.Of(30/s.DurationS)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}
