package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

// The same seed gives the same bytes, another one others, and ours misses less
// than every rule.
func TestJudge(t *testing.T) {
	play := func(args ...string) string {
		var out bytes.Buffer
		if code := run(context.Background(), append(args, "-fleets", "8"), &out, io.Discard); code != 0 {
			t.Fatalf("exit %d", code)
		}
		return out.String()
	}
	first := play("-json")
	if first != play("-json", "-seed", "1") {
		t.Error("the same seed gives another report")
	}
	if first == play("-json", "-seed", "2") {
		t.Error("another seed gives the same report")
	}
	var r report
	if err := json.Unmarshal([]byte(first), &r); err != nil || !r.Simulated || r.Fleets != 8 || r.Ours.Decided+r.Ours.Provisional+r.Ours.None != r.Workloads {
		t.Fatalf("%v: %+v", err, r)
	}
	for name, o := range r.Rules {
		if o.MissedPercent < r.Ours.MissedPercent {
			t.Errorf("%s misses %v%%, the decision %v%%", name, o.MissedPercent, r.Ours.MissedPercent)
		}
	}
	if r.Ours.Overcommitted != 0 {
		t.Errorf("%d GPUs out of memory", r.Ours.Overcommitted)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"-json"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "interrupted after 0 of 50 fleets") || !json.Valid(out.Bytes()) {
		t.Errorf("exit %d, %s%s", code, errs.String(), out.String())
	}
}

// TestTable holds the table's words, and its width at the largest figures.
func TestTable(t *testing.T) {
	large := outcome{Decided: 123456, Provisional: 12345, None: 1234, WrongNone: 123, MissedPercent: 99.99, ProvisionalMissedPercent: 99.9,
		Overcommitted: 1234, Regret: figure{999.9, 12345.6}, Hindsight: figure{999.9, 12345.6}}
	r := &report{Fleets: 50, Workloads: 180, Exhaustive: 45, Confidence: 0.9, Seed: 1, Ours: outcome{Decided: 170, Provisional: 8, None: 2, MissedPercent: 0.59, Regret: figure{3.1, 20}, Hindsight: figure{9, 40}},
		Shown: outcome{Decided: 170}, Rules: map[string]*outcome{}}
	for _, rule := range rules {
		r.Rules[rule.name] = &large
	}
	var out bytes.Buffer
	if err := r.writeText(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/table.txt", out.Bytes())
	for line := range strings.Lines(out.String()) {
		if len(line) > page.Width+1 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

func TestBadFlags(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(context.Background(), []string{"-fleets", "0", "-confidence", "2", "more"}, io.Discard, &stderr); code != 2 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"-fleets: 0", "-confidence: 2", `"more"`} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %q", want, stderr.String())
		}
	}
	if n := strings.Count(stderr.String(), "judge: "); n != 3 {
		t.Errorf("%d of 3 errors say whose they are: %s", n, stderr.String())
	}
	var help bytes.Buffer
	if code := run(context.Background(), []string{"-h"}, &help, io.Discard); code != 0 || !strings.Contains(help.String(), "-confidence") {
		t.Errorf("exit %d: %s", code, help.String())
	}
}

// A lone server's P99 is that of its queue, and a neighbour that is always
// active halves what work without requests gets.
func TestPlayAgainstTheory(t *testing.T) {
	world := func() *world {
		return &world{fleet: map[string]float64{"turns_overhead": 0, "mps_blocking": 1}, fates: make([]*fate, 1), stage: new([]runner)}
	}
	server := &tenant{service: 0.01, rate: 50, cv: 1, slowBy: sliceLaw{exponent: 1}, slo: [3]float64{e2e: 1}}
	got := play([]*tenant{server}, way{mechanism: sharing.MechanismExclusive}, world(), allStuck)[0].p99[e2e]
	if want := 0.01 * unitP99(0.5, 1); math.Abs(math.Log(got/want)) > 0.25 {
		t.Errorf("P99 %v, the queue's is %v", got, want)
	}
	busy := &tenant{service: 0.1, slowBy: sliceLaw{exponent: 1}, think: 1e-6}
	for _, s := range play([]*tenant{busy, busy}, way{mechanism: sharing.MechanismTimeSlicing}, world(), allStuck) {
		if math.Abs(s.rate-0.5) > 0.02 {
			t.Errorf("two that are always busy get %v of their rate each", s.rate)
		}
	}
}

// What 500 fleets take is fifty times as much.
func BenchmarkFleets(b *testing.B) {
	for b.Loop() {
		if _, err := judge(b.Context(), options{fleets: 10, seed: 1, confidence: decision.DefaultConfidence}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
