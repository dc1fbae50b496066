// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/tools/research/judge"
)

const (
	h200    = "../../../../decision/predict/testdata/h200-colocation.json"
	capped  = "../../../../decision/predict/testdata/h200-colocation-sm-percent.json"
	mixes   = "../../../../decision/predict/testdata/h200-mixes.json"
	mixes2  = "../../../../decision/predict/testdata/h200-mixes-2.json"
	h200two = "../../../../decision/predict/testdata/h200-two-models.json"
	h100    = "../../../../decision/predict/testdata/h100-colocation.json"
)

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestGolden holds the layout of the text; the figures are checked nightly.
func TestGolden(t *testing.T) {
	figures := regexp.MustCompile(`[-+]?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?`)
	for name, args := range map[string][]string{
		"capped.txt": {"-profiles", capped, "-fit", h200, "-method", "closed-form"},
		"series.txt": {"-profiles", h200two, "-profiles", h100, "-method", "closed-form"},
		"fit.txt":    {"-fit", mixes, "-fit", mixes2, "-out", filepath.Join(t.TempDir(), "p.json"), "-method", "closed-form"},
	} {
		code, out, errs := call(t, args...)
		if code != 0 || errs != "" {
			t.Fatalf("%s: exit %d, %s", name, code, errs)
		}
		var layout strings.Builder
		for line := range strings.Lines(figures.ReplaceAllString(out, "#")) {
			layout.WriteString(strings.Join(strings.Fields(line), " ") + "\n") // widths are the figures'
		}
		golden.Check(t, filepath.Join("testdata", "golden", name), []byte(layout.String()))
	}
}

// TestContract reads the JSON as a script would.
func TestContract(t *testing.T) {
	code, out, errs := call(t, "-profiles", h200, "-json", "-splits=false")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Errors    map[string]map[string]struct{ Mean, P50, P95 float64 }
		Baselines map[string]map[string]map[string]struct{ Mean float64 }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	metrics := []string{"tpot_ms_p50", "tpot_ms_p99", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p99", "tokens_per_s"}
	for _, mechanism := range []string{"time-slicing", "mps"} {
		for _, m := range metrics {
			e := got.Errors[mechanism][m]
			if !(e.Mean > 0 && e.P50 <= e.P95) || len(got.Baselines) != 4 {
				t.Errorf("%s %s: %+v", mechanism, m, e)
			}
			if b := got.Baselines["processor-sharing-graphics-util"][mechanism][m].Mean; b <= e.Mean {
				t.Errorf("%s %s: a rule of thumb errs by %.1f%%, the prediction by %.1f%%", mechanism, m, b, e.Mean)
			}
		}
	}
}

// TestSaveAndUse: a kept predictor predicts what it predicted before it was
// kept.
func TestSaveAndUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	code, out, errs := call(t, "-fit", h200, "-fit", capped, "-out", path, "-method", "closed-form")
	if code != 0 || !strings.Contains(out, "queue_share") || !strings.Contains(out, "fitted") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	code, direct, errs := call(t, "-profiles", h200, "-fit", h200, "-fit", capped, "-method", "closed-form", "-json", "-splits=false")
	if code != 0 {
		t.Fatal(errs)
	}
	code, kept, errs := call(t, "-profiles", h200, "-predictor", path, "-method", "closed-form", "-json", "-splits=false")
	if code != 0 {
		t.Fatal(errs)
	}
	if direct != kept {
		t.Error("the kept predictor predicts otherwise")
	}
}

// TestGPUs: rows that name no GPU are those of the predictor's, which is said, or
// those that the flags say; they are never refused.
func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		args    []string
		assumed int    // how many lines of that
		gpu     string // of the predictor
	}{
		{[]string{"-profiles", h200}, 1, "H200"},
		{[]string{"-profiles", h200, "-gpu", "H200"}, 0, "H200"},
		{[]string{"-profiles", h200, "-gpu", "NVIDIA H100 80GB HBM3"}, 0, "H200"},
		{[]string{"-profiles", h100}, 0, "H200"},
		{[]string{"-profiles", h100, "-fit", h200}, 1, "H200"},
		{[]string{"-profiles", h100, "-fit", h200, "-fit-gpu", "NVIDIA H100 80GB HBM3"}, 0, "NVIDIA H100 80GB HBM3"},
		{[]string{"-profiles", h200, "-fit", h100}, 1, "NVIDIA H100 80GB HBM3"},
		{[]string{"-profiles", h100, "-fit", h200, "-fit", h100}, 2, "H200"},
	} {
		code, out, errs := call(t, append(c.args, "-method", "closed-form", "-json", "-splits=false")...)
		var got struct {
			Predictor struct{ GPU string }
			Assumed   []string
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatal(c.args, err, errs)
		}
		if len(got.Assumed) != c.assumed || got.Predictor.GPU != c.gpu {
			t.Errorf("%s: predictor of %s, assumed %q", c.args, got.Predictor.GPU, got.Assumed)
		}
		_, text, _ := call(t, append(c.args, "-method", "closed-form", "-splits=false")...)
		if n := strings.Count(text, "assumed: "); n != c.assumed {
			t.Errorf("%s: assumed %d times, want %d:\n%s", c.args, n, c.assumed, text)
		}
	}
}

// TestSeriesOfOneName: files of one name in several folders, as measure writes
// them, are series of their own.
func TestSeriesOfOneName(t *testing.T) {
	dir := t.TempDir()
	var args []string
	var want []string
	for folder, file := range map[string]string{"monday/a": "../../../../decision/predict/testdata/h200-two-models.json", "monday/b": "../../../../decision/predict/testdata/h200-mixes-3.json", "b": "../../../../decision/predict/testdata/h100-two-models.json"} {
		data, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, folder), 0o755)
		}
		path := filepath.Join(dir, folder, "rows.json")
		if err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-profiles", path)
		if name := "a"; folder == "monday/a" {
			want = append(want, name)
		} else {
			want = append(want, path)
		}
	}
	code, out, errs := call(t, append(args, "-json", "-method", "closed-form")...)
	var got struct {
		Series []struct{ Series string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatal(err, errs)
	}
	var series []string
	for _, s := range got.Series {
		series = append(series, s.Series)
	}
	slices.Sort(series)
	slices.Sort(want)
	if !slices.Equal(series, want) {
		t.Errorf("series %q, want %q", series, want)
	}
}

// TestSubmissions: a submission in a benchmark's folder is on the leaderboard, and what is wrong with one is said.
func TestSubmissions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := os.ReadFile("../../../../decision/predict/testdata/h200-mixes-3.json")
	if err != nil {
		t.Fatal(err)
	}
	write("here.json", string(rows))
	write("rows.txt", "here.json\n")
	code, out, errs := call(t, "-benchmark", dir, "-method", "closed-form", "-json")
	var b judge.Benchmark
	if err := json.Unmarshal([]byte(out), &b); err != nil || code != 0 || len(b.Questions) == 0 || len(b.Scores) != 5 {
		t.Fatal(code, errs, err)
	}
	mine, err := json.Marshal(judge.Submission{Name: "me", Source: "one answer", Answers: map[string]sharing.Answer{b.Questions[0].ID: sharing.AnswerYes}})
	if err != nil {
		t.Fatal(err)
	}
	write("submissions/me.json", string(mine))
	if code, out, errs := call(t, "-benchmark", dir, "-method", "closed-form"); code != 0 || !strings.Contains(out, "one answer") {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
	write("submissions/bad.json", `{"name": "", "source": "x", "answers": {"none": "no"}, "score": 100}`)
	if code, _, errs := call(t, "-benchmark", dir, "-method", "closed-form"); code != 2 || !strings.Contains(errs, "bad.json") || !strings.Contains(errs, "score") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := call(t, "-benchmark", filepath.Join(dir, "none")); code != 2 || !strings.Contains(errs, "rows.txt") {
		t.Errorf("exit %d: %s", code, errs)
	}
	schema, err := os.ReadFile("../../benchmark/submission.schema.json")
	if err != nil || !json.Valid(schema) {
		t.Errorf("the schema is no JSON: %v", err)
	}
}
