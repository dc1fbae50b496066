package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// TestDisturbedScene: a simulated run that the machine disturbed is made again, and
// the others once.
func TestDisturbedScene(t *testing.T) {
	// Gaps so long that a busy machine's reads are not late for them.
	url := serve(t, loadgentest.Always(loadgentest.Reply{TTFT: 10 * time.Millisecond, Interval: 200 * time.Millisecond, Tokens: 3}))
	for _, disturbed := range []bool{true, false} {
		var errs bytes.Buffer
		limits := noLimits
		if disturbed {
			limits.SendLagP99 = 1 // every request is late by more than a nanosecond
		}
		dir := filepath.Join(t.TempDir(), "run")
		m := &measurement{app: &app{stderr: &errs, health: limits}, s: &settings{out: dir}}
		plans := 0
		if err := m.undisturbed(t.Context(), "part", func() (loadgen.LoadPlan, error) {
			plans++
			return loadgen.LoadPlan{Tenants: []loadgen.Tenant{{Name: "t", Endpoints: []loadgen.Endpoint{{URL: url}}, Prompts: loadgen.Texts("x"), Requests: 5,
				Load: loadgen.OfferedLoad{Schedule: loadgen.Constant{PerS: 100}}}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		want := 1
		if disturbed {
			want = 1 + maxAgain
		}
		if plans != want || strings.Count(errs.String(), "part: disturbed, made again (send lag") != want-1 || len(m.results) != 1 {
			t.Errorf("disturbed %v: %d runs, %d results: %s", disturbed, plans, len(m.results), errs.String())
		}
		if _, err := os.Stat(filepath.Join(dir, loadgen.ArtifactSummary)); err != nil {
			t.Error(err)
		}
	}
}
