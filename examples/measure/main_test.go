package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/internal/golden"
)

func TestBuiltInPlans(t *testing.T) {
	for name, real := range map[string]bool{"plans/simulated.yaml": false, "plans/two-models.yaml": true} {
		b, err := plans.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := colocation.ParsePlan(b, colocation.PlanOptions{Real: real}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The report for people, from a report that a run left.
func TestTable(t *testing.T) {
	b, err := os.ReadFile("testdata/report.simulated.json")
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rep.writeText(&out, colocation.Modes()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.txt", out.Bytes())
	checkColumns(t, out.String())
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"-print-plan"}, "llmserver.py", exitOK},
		{[]string{"-nonsense"}, "not defined", exitUsage},
		{[]string{"now"}, "unexpected", exitUsage},
		{[]string{"-real"}, "-real needs a plan", exitUsage},
		{[]string{"-real", "-simulate"}, "contradict", exitUsage},
		{[]string{"-plan", "no-such-file"}, "no such file", exitUsage},
		{[]string{"-use", "no-such-file"}, "no such file", exitUsage},
		{[]string{"-use", "main.go"}, "measure: main.go", exitUsage},
		{[]string{"-seconds", "-3"}, "built-in plan: seconds", exitUsage},
		{[]string{"-out", "testdata"}, "is not empty", exitUsage},
		{[]string{"-real", "-plan", "plans/two-models.yaml", "-nvml", "/no/such/library", "-out", filepath.Join(t.TempDir(), "x")}, "NVML is not available", exitFailed},
	} {
		var stdout, stderr bytes.Buffer
		a := app{now: time.Now, stdout: &stdout, stderr: &stderr}
		code := a.run(t.Context(), c.args)
		if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%q: exit %d: %s%s; want %d and %q", c.args, code, &stdout, &stderr, c.code, c.want)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := (&app{stdout: &stdout, stderr: &stderr}).run(t.Context(), []string{"-h"}); code != exitOK || stderr.Len() > 0 || !strings.Contains(stdout.String(), "Measures how workloads get on") {
		t.Errorf("-h: exit %d: %s%s", code, &stdout, &stderr)
	}
}
