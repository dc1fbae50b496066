package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

func TestBuiltInPlans(t *testing.T) {
	for name, real := range map[string]bool{"plans/simulated.yaml": false, "plans/two-models.yaml": true} {
		b, err := fs.ReadFile(plans, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsePlan(b, real, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every problem of a plan is named with its path and a remedy.
func TestBadPlan(t *testing.T) {
	for name, text := range map[string]string{
		"bad-values": `
version: v2
seconds: 1
warm_seconds: 2
seed: -1
device: -1
modes: [mps, mps, mig-like-emulation]
start_seconds: 9999
servers:
  - {name: a, model: m, url: "http://h:1", command: [x], percent: 70, memory_limit: 1KiB}
  - {name: a, model: m, url: "http://h:1", percent: 140, simulated: {sm_demand: 2, step_kernels: -1}}
  - {name: ../b, model: m, slots: -3}
loads:
  - {name: x, server: aa, concurrency: 1, rate: 2, prompt: 0, output: 1}
  - {name: x, server: a, prompt: 1, output: 2}
  - {name: y, server: a, rate: 1e9, prompt: 1, output: 2}
cases:
  - {name: one, loads: [x]}
  - {name: one, loads: [x, y, xx]}
decision: {gpu: H2000}
`,
		"unknown-keys": `
version: v1
server: []
servers:
  - {name: a, modell: m}
loads:
  - {name: x, server: a, concurrency: 4, prompt: 1, output: 2, slo: {tpot: 5ms}}
`,
		"running-servers": `
version: v1
servers:
  - {name: a, model: m, url: "http://h:1", percent: 10}
  - {name: b, model: m, url: "http://h:2", percent: 10}
loads:
  - {name: x, server: a, concurrency: 4, prompt: 1, output: 2}
  - {name: y, server: b, concurrency: 4, prompt: 1, output: 2}
`,
		"empty": "",
	} {
		_, err := parsePlan([]byte(text), true, 0)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		golden.Check(t, "testdata/"+name+".txt", []byte(err.Error()+"\n"))
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
	rep.write(&out, []mode{modeTimeSlicing, modeMPS, modeMIGLike})
	golden.Check(t, "testdata/report.txt", out.Bytes())
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"-h"}, "Measures how workloads get on", exitOK},
		{[]string{"-print-plan"}, "llmserver.py", exitOK},
		{[]string{"-nonsense"}, "not defined", exitUsage},
		{[]string{"now"}, "unexpected", exitUsage},
		{[]string{"-real"}, "-real needs a plan", exitUsage},
		{[]string{"-real", "-simulate"}, "contradict", exitUsage},
		{[]string{"-plan", "no-such-file"}, "no such file", exitUsage},
		{[]string{"-use", "no-such-file"}, "no such file", exitUsage},
		{[]string{"-use", "plan.go"}, "measure: plan.go", exitUsage},
		{[]string{"-seconds", "-3"}, "built-in plan.seconds", exitUsage},
		{[]string{"-out", "testdata"}, "is not empty", exitUsage},
		{[]string{"-real", "-plan", "plans/two-models.yaml", "-nvml", "/no/such/library", "-out", filepath.Join(t.TempDir(), "x")}, "NVML is not available", exitFailed},
	} {
		var stdout, stderr bytes.Buffer
		a := app{stdout: &stdout, stderr: &stderr}
		code := a.run(t.Context(), c.args)
		if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%q: exit %d: %s%s; want %d and %q", c.args, code, &stdout, &stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat("measure-"); err == nil {
		t.Error("a folder was left")
	}
}

func FuzzPlan(f *testing.F) {
	for _, name := range []string{"plans/simulated.yaml", "plans/two-models.yaml"} {
		b, err := fs.ReadFile(plans, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, real bool) {
		p, err := parsePlan(data, real, 0)
		if (p == nil) == (err == nil) {
			t.Fatalf("plan %v, error %v", p, err)
		}
		if err != nil {
			return
		}
		// What a flow relies on.
		for _, c := range p.Cases {
			for _, name := range c.Loads {
				if p.server(p.load(name).Server) < 0 {
					t.Fatalf("load %q has no server", name)
				}
			}
		}
		if len(p.used()) < 2 {
			t.Fatal("a plan without two loads to compare")
		}
	})
}
