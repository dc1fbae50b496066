package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/judge"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

const (
	h200    = "../../decision/predict/testdata/h200-colocation.json"
	capped  = "../../decision/predict/testdata/h200-colocation-sm-percent.json"
	mixes   = "../../decision/predict/testdata/h200-mixes.json"
	mixes2  = "../../decision/predict/testdata/h200-mixes-2.json"
	h200two = "../../decision/predict/testdata/h200-two-models.json"
	h100    = "../../decision/predict/testdata/h100-colocation.json"
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
		"capped.txt": {"-profiles", capped, "-fit", h200, "-method", "closed-form", "-rows"},
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

// TestFitsAScreen holds the text to 100 columns and a screen; -rows adds the rows.
func TestFitsAScreen(t *testing.T) {
	lines := map[bool]int{}
	for _, all := range []bool{false, true} {
		_, out, errs := call(t, "-profiles", h200, "-fit", capped, "-method", "closed-form", fmt.Sprintf("-rows=%v", all))
		if errs != "" {
			t.Fatal(errs)
		}
		for line := range strings.Lines(out) {
			lines[all]++
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	if lines[false] > 40 || lines[true] != lines[false]+78+4 { // two headings, two empty lines
		t.Errorf("%d lines, with all rows %d", lines[false], lines[true])
	}
}

// TestContract reads the JSON as a script would.
func TestContract(t *testing.T) {
	code, out, errs := call(t, "-profiles", h200, "-json", "-splits=false")
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Rows []struct {
			Mechanism, Case string
			Server          map[string]any
			Load            map[string]any
			Predicted       map[string]struct{ Value, Low, High float64 }
			Actual          map[string]float64
		}
		Errors    map[string]map[string]struct{ Mean, P50, P95 float64 }
		Baselines map[string]map[string]map[string]struct{ Mean float64 }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 78 {
		t.Errorf("%d rows", len(got.Rows))
	}
	metrics := []string{"tpot_ms_p50", "tpot_ms_p99", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p99", "tokens_per_s"}
	for _, r := range got.Rows {
		for _, m := range metrics {
			p, ok := r.Predicted[m]
			if !ok || !(p.Low < p.Value && p.Value < p.High) || r.Actual[m] <= 0 {
				t.Errorf("%s, %s: %+v, actual %v", r.Case, m, p, r.Actual[m])
			}
		}
		if r.Mechanism == "" || r.Server["model"] == nil || r.Load["prompt"] == nil {
			t.Errorf("%+v does not say what it is about", r)
		}
	}
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

// TestBlindData: outcomes may be absent.
func TestBlindData(t *testing.T) {
	b, err := os.ReadFile(h200)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r["tenants"].(float64) > 1 {
			for k := range r {
				switch k {
				case "mechanism", "case", "load", "server", "tenants":
				case "gpu", "ttft_ms": // null and absent are the same
					r[k] = nil
				default:
					delete(r, k)
				}
			}
		}
	}
	if b, err = json.Marshal(rows); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "blind.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := call(t, "-profiles", path, "-method", "closed-form")
	if code != 0 || strings.Contains(out, "Mean / P95") || !strings.Contains(out, "pair 8b c4+1b c4") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing", nil, []string{"nothing to do"}},
		{"only fit", []string{"-fit", h200}, []string{"nothing to do"}},
		{"argument", []string{h200}, []string{"unknown argument"}},
		{"flag", []string{"-dta", h200}, []string{"not defined: -dta"}},
		{"method", []string{"-profiles", h200, "-method", "guess"}, []string{"guess"}},
		{"no file", []string{"-profiles", "nowhere.json"}, []string{"nowhere.json"}},
		{"empty", []string{"-profiles", write("empty", "")}, []string{"empty"}},
		{"no rows", []string{"-profiles", write("none", "[]")}, []string{"there are no rows"}},
		{"problems", []string{"-profiles", write("bad", `[{"mechanism":"mps","case":"x","load":{"server":0,"prompt":0,"output":8},"server":{},"tenants":2}]`)},
			[]string{"[0].load: asks for nothing", "[0].load.prompt", "[0].server", "has 2 tenants and 1 rows"}},
		{"names for a terminal", []string{"-profiles", write("esc", strings.Replace(soloOnly, `"case":"s"`, `"case":"s\u001b[31m","gpu_name":"a\nb"`, 1))}, []string{"[0].case: \"s\\\\u001b[31m\" holds", "[0].gpu_name", "one line"}},
		{"predictor", []string{"-profiles", h200, "-predictor", write("p", `{"version":1}`)}, []string{"version: is 1, and this package reads 3"}},
		{"half a predictor", []string{"-profiles", h200, "-predictor", write("p2", `{"version":3}`)}, []string{"gpu_name", "parameters", "is missing"}},
		{"GPU of nobody", []string{"-profiles", h200, "-gpu", "H2000"}, []string{"-gpu", "H2000", "H200"}},
		{"GPU of no rows", []string{"-profiles", h200, "-fit-gpu", "H100 SXM"}, []string{"-fit-gpu", "there are none"}},
		{"GPU of no rows to predict", []string{"-fit", h200, "-out", filepath.Join(dir, "s"), "-gpu", "H100 SXM"}, []string{"-gpu", "there are none"}},
		{"nowhere to save", []string{"-profiles", h200, "-out", filepath.Join(dir, "no", "p.json")}, []string{"there is no folder"}},
		{"a file twice", []string{"-profiles", h200, "-profiles", "./" + h200}, []string{"-profiles", "given twice"}},
		{"nothing to fit", []string{"-out", filepath.Join(dir, "s"), "-fit", write("solo", soloOnly)}, []string{"no measured co-located row"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t, c.args...)
			if code != 2 || out != "" {
				t.Errorf("exit %d, printed %q", code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("%q does not say %q", errs, want)
				}
			}
		})
	}
}

const soloOnly = `[{"mechanism":"time-slicing","case":"s","load":{"server":0,"concurrency":1,"prompt":1,"output":8},"server":{"model":"x"},"tenants":1,
"tokens_per_s":100,"tpot_ms":{"p50":1},"itl_ms":{"p50":1},"e2e_ms":{"p50":9}}]`

func TestHelp(t *testing.T) {
	code, out, errs := call(t, "-h")
	if code != 0 || errs != "" || !strings.Contains(out, "-fit") || !strings.Contains(out, "profiles") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestNothingToPredict gives profiles only, and co-located rows without any.
func TestNothingToPredict(t *testing.T) {
	data, err := os.ReadFile(h200)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	var alone, pair []map[string]any
	for _, r := range rows {
		switch r["tenants"].(float64) {
		case 1:
			alone = append(alone, r)
		case 2:
			pair = append(pair, r)
		}
	}
	for _, c := range []struct {
		rows []map[string]any
		want string
	}{
		{alone, "every row has one tenant"},
		{pair[:2], "no profile of the workload alone"}, // once for two alike
	} {
		path := filepath.Join(t.TempDir(), "rows.json")
		data, err := json.Marshal(c.rows)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := call(t, "-profiles", path)
		if code != 0 || strings.Count(out, c.want) != 1 {
			t.Errorf("exit %d, %q not once in:\n%s%s", code, c.want, out, errs)
		}
	}
}

// TestGPUs: rows that name no GPU are those of the predictor's, which is said, or
// those that the flags say; they are never refused.
func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		args    []string
		assumed int    // how many lines of that
		basis   string // of the first row
		gpu     string // of the predictor
	}{
		{[]string{"-profiles", h200}, 1, "prior", "H200"},
		{[]string{"-profiles", h200, "-gpu", "H200"}, 0, "prior", "H200"},
		{[]string{"-profiles", h200, "-gpu", "NVIDIA H100 80GB HBM3"}, 0, "transferred", "H200"},
		{[]string{"-profiles", h100}, 0, "transferred", "H200"},
		{[]string{"-profiles", h100, "-fit", h200}, 1, "transferred", "H200"},
		{[]string{"-profiles", h100, "-fit", h200, "-fit-gpu", "NVIDIA H100 80GB HBM3"}, 0, "fitted", "NVIDIA H100 80GB HBM3"},
		{[]string{"-profiles", h200, "-fit", h100}, 1, "fitted", "NVIDIA H100 80GB HBM3"},
		{[]string{"-profiles", h100, "-fit", h200, "-fit", h100}, 2, "transferred", "H200"},
	} {
		code, out, errs := call(t, append(c.args, "-method", "closed-form", "-json", "-splits=false")...)
		var got struct {
			Predictor struct{ GPU string }
			Assumed   []string
			Rows      []struct{ Basis, Unknown string }
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatal(c.args, err, errs)
		}
		if len(got.Assumed) != c.assumed || got.Rows[0].Basis != c.basis || got.Predictor.GPU != c.gpu {
			t.Errorf("%s: predictor of %s, row %+v, assumed %q", c.args, got.Predictor.GPU, got.Rows[0], got.Assumed)
		}
		_, text, _ := call(t, append(c.args, "-method", "closed-form", "-splits=false")...)
		if n := strings.Count(text, "assumed: "); n != c.assumed {
			t.Errorf("%s: assumed %d times, want %d:\n%s", c.args, n, c.assumed, text)
		}
	}
}

// TestGPUOfNoTable: a predictor that the probe made of a GPU that the table does
// not have predicts rows of it, by either name.
func TestGPUOfNoTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.json")
	data, err := json.Marshal(predict.NewPredictor().On("TITAN V", "580.1"))
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := call(t, "-profiles", h200, "-predictor", file, "-gpu", "NVIDIA TITAN V", "-method", "closed-form", "-splits=false", "-json")
	if code != 0 || strings.Contains(out, "carried over") || !strings.Contains(out, `"basis": "transferred"`) && !strings.Contains(out, `"basis": "prior"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestSeriesOfOneName: files of one name in several folders, as measure writes
// them, are series of their own.
func TestSeriesOfOneName(t *testing.T) {
	dir := t.TempDir()
	var args []string
	var want []string
	for folder, file := range map[string]string{"monday/a": "../../decision/predict/testdata/h200-two-models.json", "monday/b": "../../decision/predict/testdata/h200-mixes-3.json", "b": "../../decision/predict/testdata/h100-two-models.json"} {
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
		Rows   []struct{ Series string }
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
	if !slices.Equal(series, want) || !slices.Contains(want, got.Rows[0].Series) {
		t.Errorf("series %q, want %q; the first row is of %q", series, want, got.Rows[0].Series)
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
	rows, err := os.ReadFile("../../decision/predict/testdata/h200-mixes-3.json")
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
	schema, err := os.ReadFile("benchmark/submission.schema.json")
	if err != nil || !json.Valid(schema) {
		t.Errorf("the schema is no JSON: %v", err)
	}
}
