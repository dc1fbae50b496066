// SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	mechanism "github.com/cotenant/cotenant/sharing"
)

// noLimits keeps the client's health out of the way: the machine that tests run on may be busy.
var noLimits = loadgen.HealthLimits{SendLagP99: -1, PacingLagP99: -1, ReadLagP99: -1, SchedulingP99: -1, GCPauseMax: -1, CPUFraction: -1}

func serve(t *testing.T, script loadgentest.Script) string {
	t.Helper()
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv.URL
}

// onGPU is the simulated GPU that programs give a load test.
func onGPU(timeSliced bool) loadgentest.Device {
	p := predict.NewPredictor().Parameters
	if timeSliced {
		return simgpu.New(mechanism.MechanismTimeSlicing, &p)
	}
	return simgpu.New(mechanism.MechanismMPS, &p)
}

// configured reads flags as a program does.
func configured(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	fl := flag.NewFlagSet("test", flag.ContinueOnError)
	fl.SetOutput(io.Discard)
	c, apply := BindFlags(fl)
	if err := fl.Parse(args); err != nil {
		return *c, err
	}
	c.Health = noLimits
	if err := errors.Join(apply(), c.Check()); err != nil {
		return *c, err
	}
	return *c, c.Resolve(FileOptions{})
}

// TestDisturbedRuns: a simulated run that the machine disturbed is made again, and the others once.
func TestDisturbedRuns(t *testing.T) {
	url := serve(t, loadgentest.Always(loadgentest.Reply{Tokens: 1}))
	for _, disturbed := range []bool{true, false} {
		var notes []string
		dir := filepath.Join(t.TempDir(), "run")
		run := &test{Config: Config{Dir: dir, Health: noLimits, Note: func(text string) { notes = append(notes, text) }}, Outcome: &Outcome{}}
		if disturbed {
			run.Health.SendLagP99 = 1 // every request is late by more than a nanosecond
		}
		plans := 0
		if err := run.undisturbed(t.Context(), "part", func() (loadgen.LoadPlan, error) {
			plans++
			return loadgen.LoadPlan{Tenants: []loadgen.Tenant{{Name: "t", Endpoints: []loadgen.Endpoint{{URL: url}}, Prompts: loadgen.Texts("x"), Requests: 5,
				Load: loadgen.OfferedLoad{Schedule: loadgen.Constant(100)}}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		want := 1
		if disturbed {
			want = 1 + maxAgain
		}
		if plans != want || len(notes) != want-1 || len(run.Results) != 1 || disturbed && !strings.HasPrefix(notes[0], "part: disturbed, made again (send lag") {
			t.Errorf("disturbed %v: %d runs, %d results: %q", disturbed, plans, len(run.Results), notes)
		}
		if _, err := os.Stat(filepath.Join(dir, "summary.json")); err != nil {
			t.Error(err)
		}
	}
}

// TestTooFewRequests: the text of a search tells how many requests would show its rate.
func TestTooFewRequests(t *testing.T) {
	for n, shown := range map[int64]bool{267: false, 268: true} {
		r := loadgen.SearchResult{PassesPerS: optional.Of(2.0), Attainment: 0.99, Confidence: 0.95,
			Rates: []loadgen.RateVerdict{{RatePerS: 2, Requests: n, Passes: true, Shown: shown}}}
		var b strings.Builder
		if err := writeSearch(&b, &r); err != nil || strings.Contains(b.String(), "268 are needed") == shown {
			t.Errorf("%d: %v\n%s", n, err, b.String())
		}
	}
}

// TestVerdict: the answer of a search is valid in spite of an invalid trial, that of other tests is not.
func TestVerdict(t *testing.T) {
	o := &Outcome{Search: &loadgen.SearchResult{}}
	for _, valid := range []bool{true, false, true} {
		r := &loadgen.Result{}
		r.Summary.Counts.ByClass = map[loadgen.Class]int64{loadgen.ClassOK: 9}
		r.Summary.ClientHealth = loadgen.ClientHealth{Valid: valid, Reasons: []string{"longest GC pause"}}
		o.Results = append(o.Results, r)
	}
	if err := o.Verdict(); err != nil {
		t.Error(err)
	}
	o.Search = nil
	if err := o.Verdict(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "longest GC pause") {
		t.Error(err)
	}
	o.Results[1].Summary.ClientHealth.Valid = true
	for _, r := range o.Results {
		r.Summary.Counts.ByClass = map[loadgen.Class]int64{loadgen.ClassConnect: 9}
	}
	if err := o.Verdict(); !errors.Is(err, ErrNothingSucceeded) {
		t.Error(err)
	}
}

// TestPlanOfTestdata runs the example plan under each sharing of the simulated GPU.
func TestPlanOfTestdata(t *testing.T) {
	for _, sharing := range []string{"time-sliced", "concurrent", "partitioned"} {
		p, err := loadFile("testdata/plan.yaml", FileOptions{})
		if err != nil || len(p.Tenants) != 3 {
			t.Fatalf("%+v, %v", p, err)
		}
		p.Embedded = sharing
		sim, err := (&Config{File: *p, Device: onGPU}).embedTenants()
		if err := errors.Join(err, sim.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestSearch: nothing but the SLO decides, and the time limit is noted before the first trial.
func TestSearch(t *testing.T) {
	url := serve(t, loadgentest.Always(loadgentest.Reply{TTFT: time.Millisecond, Tokens: 1}))
	c, err := configured(t, "-endpoint", url, "-search", "300,400", "-slo-ttft", "5s", "-duration", "100ms", "-out", filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	c.Note = func(text string) { notes = append(notes, text) }
	o, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := errors.Join(o.WriteText(&b), o.Verdict()); err != nil || !strings.Contains(b.String(), "400/s") || o.Search.PassesPerS.Or(0) != 400 {
		t.Errorf("%v\n%s", err, b.String())
	}
	if want := "search: at most 8 runs of up to 100ms each; ends within 4m8s (-search-limit)"; len(notes) == 0 || notes[0] != want {
		t.Errorf("%q", notes)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, searchFile)); err != nil {
		t.Error(err)
	}
}

// TestFlags: every problem of the flags is reported.
func TestFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"-concurrency and -rate exclude one another":                        {"-concurrency", "3", "-rate", "4"},
		"has no effect on -plan":                                            {"-plan", "x.yaml", "-drain", "1s"},
		"-arrivals: has no effect without":                                  {"-arrivals", "poisson"},
		"-search: has no effect without -slo-ttft or -slo-tpot or -slo-e2e": {"-search", "1,5"},
		"whole answers have neither ttft nor tpot":                          {"-search", "1,50", "-slo-ttft", "1ms", "-non-streaming"},
		"use 0 < low < high":                                                {"-search", "50,1", "-slo-e2e", "1s"},
		"searches one scenario":                                             {"-search", "1,50", "-slo-e2e", "1s", "-simulate", "mps,mig"},
		"unknown scenario \"none\"":                                         {"-simulate", "none"},
		"-requests: is 0":                                                   {"-requests", "0"},
		"use a duration above 0":                                            {"-timeout", "0s"},
		"not a number above 0":                                              {"-concurrency", "1.5"},
		"FROM before TO":                                                    {"-window", "5s,1s"},
		"write NAME=VALUE":                                                  {"-body", "temperature"},
		"write NAME: VALUE":                                                 {"-header", "temperature"},
		"no known figure":                                                   {"-fail-if", "speed>1"},
		"1000000000 is above 100000":                                        {"-concurrency", "1000000000"},
		"use constant, poisson":                                             {"-rate", "3", "-arrivals", "weekly"},
		"-ca: has no effect without":                                        {"-ca", "x"},
		"is empty (export it first)":                                        {"-endpoint", "http://h", "-api-key-env", "COTENANT_NO_SUCH_VARIABLE"},
		"-repeats: is 0":                                                    {"-repeats", "0"},
	} {
		if _, err := configured(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
