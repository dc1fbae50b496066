// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
)

// TestInterval: a median's interval covers it at least with the requested probability, and is missing where the values
// are too few.
func TestInterval(t *testing.T) {
	for n, want := range map[int]*ConfidenceInterval{5: nil, 6: {1, 6, 1 - 2.0/64}, 8: {1, 7, 1 - 10.0/256}, 9: {2, 8, 1 - 2*10.0/512}} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i + 1)
		}
		if diff := cmp.Diff(want, describe(v, 0.95).CI, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("n=%d: %s", n, diff)
		}
	}
}

// TestIntervalsCover draws samples with a known shift and counts how often the intervals hold it.
func TestIntervalsCover(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const trials = 2000
	hits, medians := 0, 0
	for range trials {
		a, b := make([]float64, 8), make([]float64, 9)
		for i := range a {
			a[i] = rng.ExpFloat64()
		}
		for i := range b {
			b[i] = rng.ExpFloat64() + 2
		}
		c, err := Compare("x", a, b, CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c.ShiftCI.Low <= 2 && 2 <= c.ShiftCI.High {
			hits++
		}
		if c.Base.CI.Low <= math.Ln2 && math.Ln2 <= c.Base.CI.High {
			medians++
		}
	}
	// Three standard errors below 95%.
	if least := int(trials * 0.935); hits < least || medians < least {
		t.Errorf("shift covered %d, median %d times of %d", hits, medians, trials)
	}
}

func TestCompareVerdicts(t *testing.T) {
	for _, tc := range []struct {
		name        string
		base, other []float64
		want        string
		reason      string
	}{
		{"three of each cannot show anything", []float64{1, 2, 3}, []float64{101, 102, 103}, claimUnsupported, "use at least 4 of each"},
		{"one of each", []float64{1}, []float64{9}, claimUnsupported, "least possible p is 1"},
		{"nothing", nil, []float64{1}, claimUnsupported, "no values"},
		{"four of each apart", []float64{1, 2, 3, 4}, []float64{11, 12, 13, 14}, claimHigher, ""},
		{"four of each apart the other way", []float64{11, 12, 13, 14}, []float64{1, 2, 3, 4}, claimLower, ""},
		{"four of each mixed", []float64{1, 2, 3, 4}, []float64{2, 3, 4, 5}, claimNoDifference, ""},
		{"all equal", []float64{5, 5, 5, 5}, []float64{5, 5, 5, 5}, claimNoDifference, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Compare("x", tc.base, tc.other, CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Claim != tc.want || !strings.Contains(strings.Join(c.Reasons, " "), tc.reason) {
				t.Errorf("%v %q", c.Claim, c.Reasons)
			}
		})
	}
	if _, err := Compare("x", []float64{math.NaN()}, []float64{math.Inf(1)}, CompareOptions{}); err == nil || strings.Count(err.Error(), "finite") != 2 {
		t.Errorf("%v", err)
	}
	if _, err := Compare("x", nil, nil, CompareOptions{Confidence: 2}); err == nil {
		t.Error("confidence 2 taken")
	}
}

// runOf is a valid run with figures around v.
func runOf(id string, v float64, requests int64) loadgen.Summary {
	f := loadgen.Figures{Count: requests, Mean: loadgen.Millis(v), P50: loadgen.Millis(v), P90: loadgen.Millis(2 * v), P95: loadgen.Millis(2.5 * v), P99: loadgen.Millis(3 * v), Max: loadgen.Millis(4 * v), Method: "exact"}
	return loadgen.Summary{
		SchemaVersion: 1, RunID: id, Scenario: strings.SplitN(id, "-", 2)[0], Basis: "measured", Complete: true,
		ClientHealth: loadgen.ClientHealth{Valid: true},
		Measures:     loadgen.Measures{OutputTokensPerS: 1000 / v, TokenSource: "server_usage", TTFT: f, TPOT: f, ChunkGap: f, E2E: f},
		Tenants:      []loadgen.TenantSummary{{Name: "chat", Load: "closed loop, concurrency 8", Measures: loadgen.Measures{TTFT: f, TokenSource: "server_usage"}}},
	}
}

func runsOf(scenario string, requests int64, values ...float64) []loadgen.Summary {
	var s []loadgen.Summary
	for i, v := range values {
		s = append(s, runOf(scenario+"-"+string(rune('a'+i)), v, requests))
	}
	return s
}

func TestCompareRuns(t *testing.T) {
	base, other := runsOf("exclusive", 50, 10, 11, 12, 13, 14, 15), runsOf("mps", 50, 20, 21, 22, 23, 24, 25)
	other[0].TokenSource = "events"
	rc, err := CompareRuns(base, other, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := rc.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/compare.golden", b.Bytes())
}

func TestCompareRunsRefuses(t *testing.T) {
	base, other := runsOf("a", 200, 1, 2, 3, 4), runsOf("b", 200, 1, 2, 3, 4)
	other[0].Basis = "simulated"
	other[1].RunID = base[0].RunID
	other[2].ClientHealth = loadgen.ClientHealth{Reasons: []string{"send lag p99 is 50 ms"}}
	other[3].Complete = false
	_, err := CompareRuns(base, other, CompareOptions{Figures: []string{"ttft_ms.p98"}, Tenant: "batch"})
	for _, want := range []string{
		`figures[0]: unknown figure "ttft_ms.p98" (did you mean`, "other[0]: is simulated, other runs are measured", `other[1]: run "a-a" is base[0] too`,
		"other[2]: invalid by client health: send lag p99 is 50 ms", "other[3]: not complete", `base[0]: has no tenant "batch"`,
	} {
		if !errors.Is(err, errIncomparable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if _, err := CompareRuns(nil, nil, CompareOptions{}); !errors.Is(err, errIncomparable) {
		t.Errorf("no runs: %v", err)
	}
}

func TestCompareRunsAllowsInvalid(t *testing.T) {
	base, other := runsOf("a", 200, 1, 2, 3, 4), runsOf("b", 200, 11, 12, 13, 14)
	other[2].ClientHealth = loadgen.ClientHealth{Reasons: []string{"send lag"}}
	rc, err := CompareRuns(base, other, CompareOptions{AllowInvalid: true, Tenant: "chat", Figures: []string{"ttft.p99", "tpot_ms.p50"}})
	if err != nil {
		t.Fatal(err)
	}
	if rc.Figures[0].Claim != claimHigher || rc.Figures[0].Figure != "ttft_ms.p99" || rc.Figures[1].Claim != claimUnsupported || !strings.Contains(rc.Warnings[0], "send lag") {
		t.Errorf("%+v", rc)
	}
}
