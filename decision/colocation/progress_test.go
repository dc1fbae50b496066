// SPDX-License-Identifier: Apache-2.0

//go:build linux

package colocation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/internal/stats"
)

const steady = `i=0; while :; do i=$((i+1)); echo step $i; sleep 0.05; done`

// tenantsPlan has two tenants co-located under time-slicing, of these commands and with this progress.
func tenantsPlan(first, second, progress string) []byte {
	return fmt.Appendf(nil, `
version: v1
seconds: 1.5
start_seconds: 2
modes: [time-slicing]
tenants:
  - {name: a, kind: stepper, command: [sh, -c, %q], progress: %s}
  - {name: b, kind: stepper, command: [sh, -c, %q], progress: {line: "^step"}}
`, first, progress, second)
}

// measureTenants measures them on a machine without a GPU.
func measureTenants(t *testing.T, plan []byte) results {
	t.Helper()
	h := how{plan: plan}
	return h.measured(t.Context(), t, true, func(p *Plan) (Site, error) {
		m, err := NewMachine(t.Context(), p, MachineOptions{})
		return m, err
	})
}

func (r results) row(t *testing.T, name, load string) *reportRow {
	t.Helper()
	for i := range r.report.Rows {
		if row := &r.report.Rows[i]; row.Load == load && (row.Case == name || strings.HasPrefix(row.Case, name+"-again-")) { // repeated on a noisy machine
			return row
		}
	}
	t.Fatalf("no row of %s in %s: %s", load, name, r.stderr)
	return nil
}

// Commands whose lines end their steps are run isolated and co-located, and each is halted while the other runs isolated.
func TestTenantsByLines(t *testing.T) {
	t.Parallel()
	race.Long(t)
	const own = `while :; do echo "cell took 12.5 ms"; sleep 0.1; done`
	stamps := filepath.Join(t.TempDir(), "stamps")
	steady := `while :; do date +%s%N >> ` + stamps + `; echo step 1; sleep 0.05; done`
	plan := strings.Replace(string(tenantsPlan(steady, own, `{line: '^step \d+'}`)), `b, kind: stepper`, `b, kind: burster`, 1)
	plan = strings.Replace(plan, `{line: "^step"}`, `{line: 'took (?P<ms>[0-9.]+) ms'}`, 1)
	r := measureTenants(t, []byte(plan))
	if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	// The command's own clock has the lengths of its steps, however busy this machine is.
	var gaps []float64
	var before float64
	for i, line := range strings.Fields(string(must.Get(os.ReadFile(stamps))(t))) {
		at := must.Get(strconv.ParseFloat(line, 64))(t)
		if i > 0 {
			gaps = append(gaps, (at-before)/1e6)
		}
		before = at
	}
	slices.Sort(gaps)
	short, long := stats.NearestRank(gaps, 0.02), stats.NearestRank(gaps, 0.98)
	for _, name := range []string{"solo-a", "together"} {
		a := r.row(t, name, "a")
		if p50 := a.Actual[profile.MetricStepP50]; p50 < short || p50 > long || a.Kind != profile.KindStepper || a.Steps < 5 {
			t.Errorf("%s: steps take %.1f to %.1f ms: %+v", name, short, long, a)
		}
		// A mean holds the one step during which the machine paused.
		if rate := a.Actual[profile.MetricStepsPerSecond]; rate < 1e3/gaps[len(gaps)-1] || rate > 1e3/gaps[0] {
			t.Errorf("%s: %v steps a second of %v ms", name, rate, gaps)
		}
	}
	b := r.row(t, "solo-b", "b")
	if p50, rate := b.Actual[profile.MetricStepP50], b.Actual[profile.MetricStepsPerSecond]; p50 != 12.5 || rate < 2 || rate > 13 {
		t.Errorf("a step that tells its length: %+v", b)
	}
	if p := r.row(t, "together", "a").Predicted; p[profile.MetricStepP50].Value == 0 {
		t.Errorf("nothing was predicted: %v", r.stderr)
	}
	if !strings.Contains(r.stdout, "STEP P50") || !strings.Contains(r.stdout, "STEPS/S") {
		t.Error(r.stdout)
	}
}

// A faulty command is reported with its last lines, and the others' figures are kept.
func TestTenantsThatDoNotWork(t *testing.T) {
	t.Parallel()
	race.Long(t)
	for _, c := range []struct{ name, command, progress, want string }{
		{"ends at once", `echo CUDA out of memory >&2; exit 3`, `{line: "^step"}`, "ended (exit status 3):\n  CUDA out of memory"},
		{"ends meanwhile", `for i in 1 2 3; do echo step $i; sleep 0.1; done`, `{line: "^step"}`, "ended"},
		{"no progress", `echo loading; sleep 60`, `{line: "^step"}`, `a is not ready within 2 s (start_seconds): it has not done a step: no line has matched "^step"` + "\n  loading"},
		{"never matches", `while :; do echo epoch; sleep 0.1; done`, `{line: "^step"}`, `no line has matched "^step"` + "\n  epoch"},
		{"stops", `echo step 1; sleep 60`, `{line: "^step"}`, "tenant a: no step ended in the 1.275s that count"},
		{"floods", `yes step`, `{line: "^step"}`, "more than 50000 lines a second"},
		{"binary", `head -c 3000000 /dev/urandom; sleep 60`, `{line: "^step [0-9]"}`, "it has not done a step"},
		{"no length", `while :; do echo step -4 ms; sleep 0.1; done`, `{line: "^step (?P<ms>[-0-9]+) ms"}`, `"-4" is no length of a step`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := measureTenants(t, tenantsPlan(c.command, steady, c.progress))
			if r.code != exitFailed || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%d: %s", r.code, r.stderr)
			}
			for _, line := range strings.Split(r.stderr, "\n") {
				if len(line) > 2000 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }) {
					t.Errorf("%q is shown", line)
				}
			}
			if c.name == "stops" {
				if b := r.row(t, "solo-b", "b"); b.Steps < 3 {
					t.Errorf("the other's row: %+v", b)
				}
			}
		})
	}
}

// TestNextEndsMeanwhile: one that ends is noticed while the one before it is waited for, and after it was ready.
func TestNextEndsMeanwhile(t *testing.T) {
	t.Parallel()
	race.Long(t)
	for _, commands := range [][2]string{{`sleep 60`, `echo CUDA out of memory; exit 3`}, {`echo step 1; sleep 1; echo CUDA out of memory; exit 3`, `sleep 60`}} {
		plan := strings.Replace(string(tenantsPlan(commands[0], commands[1], `{line: "^step"}`)), "start_seconds: 2", "start_seconds: 40", 1)
		began := time.Now()
		r := measureTenants(t, []byte(plan))
		if took := time.Since(began); r.code != exitFailed || took > 20*time.Second || !strings.Contains(r.stderr, "ended (exit status 3):\n") || !strings.Contains(r.stderr, "\n  CUDA out of memory") {
			t.Errorf("%v: %d: %s", took, r.code, r.stderr)
		}
	}
}

// The built-in plans are read, and faulty tenants are named.
func TestTenantPlans(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mixed", "vllm"} {
		if _, err := ParsePlan(builtin(name), PlanOptions{Real: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for with, want := range map[string]string{
		`{name: a, command: [x]}`:                                       "tenants[0].kind: is server (use stepper or burster",
		`{name: a, kind: stepper, url: "http://h", command: [x]}`:       "tenants[0].url: a stepper serves no tokens",
		`{name: a, kind: stepper, command: [x], progress: {line: "("}}`: "tenants[0].progress.line: error parsing regexp",
		`{name: a, kind: burster, command: [x], progress: {line: "x"}}`: "it has no group named ms or s",
		`{name: a, kind: stepper}`:                                      "tenants[0].command: is missing",
		`{name: a, kind: stepper, command: [x]}`:                        "tenants[0].progress: nothing shows its steps",
		`{name: a, kind: trainer, command: [x]}`:                        "kind of tenant",
	} {
		_, err := ParsePlan([]byte("version: v1\nmodes: [time-slicing]\ntenants: ["+with+", {name: b, kind: stepper, command: [y], progress: {line: z}}]\n"), PlanOptions{Real: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", with, err)
		}
	}
}
