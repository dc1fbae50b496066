// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
)

func TestNamesAreEscaped(t *testing.T) {
	res, err := loadgen.LoadResult("testdata/runs/example/mps-c8")
	if err != nil {
		t.Fatal(err)
	}
	res.Summary.Scenario = `<script>alert("x")</script>|`
	var page strings.Builder
	if err := WriteHTML(&page, []*loadgen.Result{res}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script>alert") {
		t.Error("a scenario's name is not escaped")
	}
}

func TestCutOffRuns(t *testing.T) {
	res, err := loadgen.LoadResult("testdata/runs/example/mps-c8")
	if err != nil {
		t.Fatal(err)
	}
	cut := *res
	cut.Summary.Complete = false
	var table strings.Builder
	if err := ScenariosOf([]*loadgen.Result{res, &cut}).WriteText(&table); err != nil || !strings.Contains(table.String(), "1 of 2 cut off") {
		t.Error(table.String(), err)
	}
}

func TestLevelOf(t *testing.T) {
	for load, want := range map[string]string{
		"closed loop, concurrency 8":                          "8 users",
		"closed loop, concurrency 24, think time 1s, ramp 2s": "24 users",
		"open loop, constant 15/s":                            "15 requests/s",
		"open loop, poisson 0.5/s, at most 4 in flight":       "0.5 requests/s",
		"open loop, gamma 7/s burstiness 0.5":                 "7 requests/s",
		"open loop, trace of 3 arrivals at speed 1":           "3.33 requests/s",
	} {
		s := &loadgen.Summary{Tenants: []loadgen.TenantSummary{{Load: load}}}
		s.Tenants[0].OfferedPerS = 3.3333
		if got := levelOf(s).Text; got != want {
			t.Errorf("%s: %q, want %q", load, got, want)
		}
	}
}

// TestShortRunsHaveNoCourse: two seconds are not drawn over time.
func TestShortRunsHaveNoCourse(t *testing.T) {
	r := &loadgen.Result{}
	for s := range int64(6) {
		r.Timeline = append(r.Timeline, loadgen.TimelineRow{Tenant: "t", UnixNS: s * 1e9, Tokens: 5})
		r.Summary.Window.ToNS = (s + 1) * 1e9
		if got := len(charts([]*loadgen.Result{r})) > 0; got != (s+1 >= leastSeconds) {
			t.Errorf("%d seconds: drawn %v", s+1, got)
		}
	}
}

// TestVerdicts: objectives that no load keeps are not none.
func TestVerdicts(t *testing.T) {
	of := func(scenario string, users int, met int64) *loadgen.Result {
		r := &loadgen.Result{Summary: loadgen.Summary{Scenario: scenario}}
		r.Summary.ClientHealth.Valid = true
		m := loadgen.Measures{}
		if met >= 0 {
			slo := loadgen.SLOFigures{E2E: 10}
			m.E2E = loadgen.Figures{Count: 100, P99: 20}
			m.Goodput = &loadgen.Goodput{SLO: slo, Of: 100, Met: met, Fraction: optional.Of(float64(met) / 100)}
		}
		tenant := loadgen.TenantSummary{Name: "t", Load: fmt.Sprintf("closed loop, concurrency %d", users), Measures: m}
		r.Summary.Measures, r.Summary.Tenants = m, []loadgen.TenantSummary{tenant}
		return r
	}
	results := []*loadgen.Result{of("keeps", 1, 100), of("keeps", 2, 50), of("misses", 1, 50), of("without", 1, -1)}
	table, answer := verdicts(results, ScenariosOf(results))
	for i, want := range []string{"1 users", "no load tried", "no objectives"} {
		if got := table.Rows[i][1]; got != want {
			t.Errorf("%s: %q, want %q", table.Rows[i][0], got, want)
		}
	}
	if !strings.Contains(answer, "misses at no load tried (end-to-end latency goes first (50.0% kept at 1 users))") {
		t.Error(answer)
	}
}
