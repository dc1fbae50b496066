// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/golden"
)

const predictRows = "../../decision/predict/testdata/"

// TestPredict holds the text of one file in full.
func TestPredict(t *testing.T) {
	code, out, errs := program(t, "", "predict", "-profiles", predictRows+"h200-two-models.json")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/predict.txt", []byte(out))
}

// TestPredictJSON reads the JSON as a script would: each tenant has its prediction, within an interval, next to the
// measurement.
func TestPredictJSON(t *testing.T) {
	report := func(args ...string) (rep predictReport) {
		t.Helper()
		code, out, errs := program(t, "", append([]string{"predict", "-json"}, args...)...)
		if code != exitDone || errs != "" {
			t.Fatalf("exit %d: %s", code, errs)
		}
		if err := json.Unmarshal([]byte(out), &rep); err != nil {
			t.Fatal(err)
		}
		return rep
	}
	file := predictRows + "h200-two-models.json"
	rep := report("-profiles", file)
	if len(rep.Rows) != 12 || len(rep.Errors) == 0 || len(rep.Assumed) != 1 || rep.Predictor.GPU != "H200" {
		t.Errorf("%d rows, %d errors, assumed %q, by the %s", len(rep.Rows), len(rep.Errors), rep.Assumed, rep.Predictor.GPU)
	}
	for _, r := range rep.Rows {
		for _, m := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTTFTP99, profile.MetricTokensPerSecond} {
			if p := r.Predicted[m]; !(p.Low < p.Value && p.Value < p.High) || r.Actual[m] <= 0 {
				t.Errorf("%s, %s: %+v, actual %v", r.Case, m, p, r.Actual[m])
			}
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows, pair []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r["tenants"].(float64) == 2 {
			pair = append(pair, r)
		}
	}
	write := func(name string, v any) string {
		path := filepath.Join(t.TempDir(), name)
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	if r := report("-profiles", file, "-gpu", "NVIDIA H100 80GB HBM3"); r.Rows[0].Basis.String() != "transferred" || len(r.Assumed) > 0 {
		t.Errorf("on an H100: %+v, assumed %q", r.Rows[0], r.Assumed)
	}
	titan := predict.NewPredictor().On("TITAN V", "580.1") // no table has it
	if r := report("-profiles", file, "-predictor", write("p.json", titan), "-gpu", "NVIDIA TITAN V"); len(r.Rows[0].Predicted) == 0 || r.Predictor.GPU != "TITAN V" {
		t.Errorf("%+v", r.Rows[0])
	}
	alone := write("pair.json", pair[:2])
	if _, out, _ := program(t, "", "predict", "-profiles", alone); strings.Count(out, "no profile of the isolated workload") != 2 {
		t.Errorf("without profiles:\n%s", out)
	}
	if r := report("-profiles", alone, "-profiles", file); r.Rows[0].Unknown != "" {
		t.Errorf("with the profiles of another file: %+v", r.Rows[0])
	}
}

// TestPredictRefuses: errors name the problems of flags and files.
func TestPredictRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := predictRows + "h200-colocation.json"
	for args, want := range map[string]string{
		"":                                 "name a file of rows",
		"-dta x":                           "not defined: -dta",
		"-profiles " + file + " more":      "more",
		"-profiles nowhere.json":           "nowhere.json",
		"-profiles " + write("none", "[]"): "there are no rows",
		"-profiles " + write("bad", `[{"mechanism":"mps","case":"x","server":{},"tenants":2}]`): "[0].load",
		"-profiles " + file + " -predictor " + write("p", `{"version":1}`):                      "version: is 1",
		"-profiles " + file + " -gpu H2000":                                                     "-gpu: ",
		"-profiles " + file + " -profiles " + file:                                              "given twice",
		"-profiles " + file + " -out x":                                                         "-out: only -from-metrics",
		"-from-metrics " + write("page", "x"):                                                   "page",
	} {
		code, out, errs := program(t, "", append([]string{"predict"}, strings.Fields(args)...)...)
		if code != exitBadInput || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %s%s", args, code, out, errs)
		}
	}
}

// Pages without times have those of their files; the written profiles can be read.
func TestPredictFromMetrics(t *testing.T) {
	dir := t.TempDir()
	args := []string{"predict", "-gpu", "H200", "-out", filepath.Join(dir, "p.json")}
	for i := range 3 {
		var page strings.Builder
		one := func(name, kind string, v float64) {
			fmt.Fprintf(&page, "# TYPE vllm:%[1]s %[2]s\nvllm:%[1]s{model_name=\"m\"} %[3]v\n", name, kind, v)
		}
		one("prompt_tokens_total", "counter", float64(9000*i))
		one("generation_tokens_total", "counter", float64(3000*i))
		for _, h := range []struct {
			name       string
			each, mean float64
		}{{"time_to_first_token_seconds", 30, 0.06}, {"inter_token_latency_seconds", 2970, 0.012}, {"e2e_request_latency_seconds", 30, 1.25}} {
			n := float64(i) * h.each
			fmt.Fprintf(&page, "# TYPE vllm:%[1]s histogram\nvllm:%[1]s_bucket{model_name=\"m\",le=\"%[2]v\"} %[3]v\nvllm:%[1]s_bucket{model_name=\"m\",le=\"+Inf\"} %[3]v\nvllm:%[1]s_sum{model_name=\"m\"} %[4]v\nvllm:%[1]s_count{model_name=\"m\"} %[3]v\n",
				h.name, 2*h.mean, n, n*h.mean)
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		at := time.Unix(1_700_000_000+int64(60*i), 0)
		if err := os.WriteFile(file, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-from-metrics", file)
	}
	code, out, errs := program(t, "", args...)
	if code != exitDone || out != "" || !strings.Contains(errs, "unknown: the server's slots") {
		t.Fatal(code, out, errs)
	}
	profiles, err := profile.LoadProfiles(filepath.Join(dir, "p.json"))
	if err != nil || len(slices.Collect(profiles.All())) != 1 {
		t.Fatal(err)
	}
	solo, err := profiles.Solo(profile.Server{Model: "m"}, profile.Load{Rate: 0.5, Prompt: 300, Output: 100})
	if err != nil || solo.TimeSlicing.Engine != "vllm" || solo.TimeSlicing.GPU != "H200" || solo.TimeSlicing.Fit == nil {
		t.Errorf("%+v, %v", solo.TimeSlicing, err)
	}
	if code, _, errs := program(t, "", args[:7:7]...); code != exitBadInput || !strings.Contains(errs, "1 pages") {
		t.Errorf("one page: %d, %s", code, errs)
	}
	if code, _, errs := program(t, "", append(args, "-profiles", "x")...); code != exitBadInput || !strings.Contains(errs, "another run") {
		t.Errorf("both: %d, %s", code, errs)
	}
}
