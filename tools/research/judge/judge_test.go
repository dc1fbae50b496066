// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// The same seed gives the same bytes, another one others, and a decision misses less
// than every rule.
func TestRun(t *testing.T) {
	race.Long(t)
	play := func(seed uint64, fleets int) (*Report, string) {
		r, err := Run(t.Context(), Options{Fleets: fleets, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(text)
	}
	_, first := play(1, 2)
	if _, again := play(1, 2); first != again {
		t.Error("the same seed gives another report")
	}
	fleets := nightly.Cases(6, 100)
	r, text := play(3, fleets)
	if text == first {
		t.Error("another seed gives the same report")
	}
	decided := r.Ours.Decided + r.Ours.Provisional + r.Ours.None
	if !r.Simulated || r.Fleets != fleets || decided != r.Workloads || r.Confidence != decision.DefaultConfidence {
		t.Fatalf("%+v", r)
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

// TestTable holds the table's words, and its width at the largest figures.
func TestTable(t *testing.T) {
	large := Outcome{Decided: 123456, Provisional: 12345, None: 1234, WrongNone: 123, MissedPercent: 99.99, ProvisionalMissedPercent: 99.9,
		Overcommitted: 1234, Regret: Figure{999.9, 12345.6}, Hindsight: Figure{999.9, 12345.6}}
	r := &Report{Fleets: 50, Workloads: 180, Exhaustive: 45, Confidence: 0.9, Seed: 1, Ours: Outcome{Decided: 170, Provisional: 8, None: 2, MissedPercent: 0.59, Regret: Figure{3.1, 20}, Hindsight: Figure{9, 40}},
		Shown: Outcome{Decided: 170}, Rules: map[string]*Outcome{}}
	for _, rule := range rules {
		r.Rules[rule.name] = &large
	}
	var out bytes.Buffer
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/table.txt", out.Bytes())
	for line := range strings.Lines(out.String()) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

// A lone server's P99 is that of its queue, and a neighbour that is always
// active halves what work without requests gets.
func TestPlayAgainstTheory(t *testing.T) {
	world := func() *world {
		return &world{fleet: map[string]float64{"turns_overhead": 0, "mps_blocking": 1}, fates: make([]*fate, 1), stage: new([]runner)}
	}
	server := &tenant{service: 0.01, rate: 50, cv: 1, slowBy: sliceLaw{fills: 1}, slo: [3]float64{e2e: 1}}
	got := play([]*tenant{server}, way{mechanism: sharing.MechanismExclusive}, world(), allStuck)[0].p99[e2e]
	if want := 0.01 * unitP99(0.5, 1); math.Abs(math.Log(got/want)) > 0.25 {
		t.Errorf("P99 %v, the queue's is %v", got, want)
	}
	busy := &tenant{service: 0.1, slowBy: sliceLaw{fills: 1}, think: 1e-6}
	for _, s := range play([]*tenant{busy, busy}, way{mechanism: sharing.MechanismTimeSlicing}, world(), allStuck) {
		if math.Abs(s.rate-0.5) > 0.02 {
			t.Errorf("two that are always busy get %v of their rate each", s.rate)
		}
	}
}

// BenchmarkRun takes a fiftieth of what 500 fleets take.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := Run(b.Context(), Options{Fleets: 10, Seed: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// Each distortion changes the worlds that are drawn, and nothing but what it names.
func TestDistortions(t *testing.T) {
	race.Long(t)
	plain, err := readSpreads("")
	if err != nil {
		t.Fatal(err)
	}
	if len(Distortions()) < 6 {
		t.Errorf("%q", Distortions())
	}
	for _, name := range Distortions() {
		sp, err := readSpreads(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := map[string]bool{}
		for q := range sp.Quantities {
			if _, known := plain.Quantities[q]; !known {
				t.Errorf("%s: %s is no quantity of worlds", name, q)
			}
			if sp.Quantities[q] != plain.Quantities[q] {
				changed[q] = true
			}
		}
		if len(changed) == 0 || len(changed) != len(plain.Distortions[name]) {
			t.Errorf("%s changes %v", name, changed)
		}
	}
	if _, err := readSpreads("weather"); err == nil {
		t.Error("a distortion that nobody described was taken")
	}
	if _, err := Run(t.Context(), Options{Fleets: 1, Distort: "weather"}); err == nil {
		t.Error("worlds were drawn by a distortion that nobody described")
	}
}
