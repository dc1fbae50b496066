package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
)

func TestTableOfTheExampleRuns(t *testing.T) {
	code, out, errs := execProgram(t.Context(), "", "table", "testdata/runs/example")
	if code != exitOK {
		t.Fatal(errs)
	}
	golden.Check(t, "testdata/table.golden", []byte(out))
	code, out, errs = execProgram(t.Context(), "", "table", "-json", "testdata/runs/example/mps-c8", "testdata/runs/example/mps-c16")
	if code != exitOK {
		t.Fatal(errs)
	}
	golden.Check(t, "testdata/table.json", []byte(out))
}

func TestReportOfTheExampleRuns(t *testing.T) {
	first := t.TempDir()
	if code, _, errs := execProgram(t.Context(), "", "report", "-out", first, "testdata/runs/example"); code != exitOK {
		t.Fatal(errs)
	}
	files := map[string]bool{}
	err := filepath.WalkDir(first, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(first, path)
		if err != nil {
			return err
		}
		files[rel] = true
		a, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(rel) {
		case ".svg":
			checkDrawing(t, rel, a)
			if !bytes.Contains(a, []byte("SYNTHETIC")) {
				t.Errorf("%s is not marked synthetic", rel)
			}
		case ".png":
			if img, err := png.Decode(bytes.NewReader(a)); err != nil || img.Bounds().Dx() < 600 {
				t.Errorf("%s: %v", rel, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.html", "table.md", "figures/throughput-concurrency.svg", "figures/throughput-concurrency.png",
		"figures/p99-concurrency.svg", "figures/cdf-ttft.svg", "figures/cdf-chunk-gap.svg", "figures/cdf-e2e.svg", "figures/timeline-tokens.svg"} {
		if !files[filepath.FromSlash(name)] {
			t.Errorf("no %s", name)
		}
	}
	page, err := os.ReadFile(filepath.Join(first, reportFile))
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, page, filepath.Join(first, figuresDir))
	if n := bytes.Count(page, []byte("SYNTHETIC")); n < 9 {
		t.Errorf("the page says SYNTHETIC %d times", n)
	}
	table, err := os.ReadFile(filepath.Join(first, tableFile))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/table.md", table)
}

func TestFiguresAreDeterministic(t *testing.T) {
	results, err := readRuns([]string{"testdata/runs/example"})
	if err != nil {
		t.Fatal(err)
	}
	charts := append(studyCharts(studyRows(summariesOf(results)))[:1], cdfCharts(highestLoads(results))[:1]...)
	for i := range charts {
		a, err := charts[i].draw()
		if err != nil {
			t.Fatal(err)
		}
		b, err := charts[i].draw()
		if err != nil || !bytes.Equal(a.SVG, b.SVG) || !bytes.Equal(a.PNG, b.PNG) {
			t.Errorf("%s differs when drawn again: %v", charts[i].name, err)
		}
	}
}

func TestReportEscapesNames(t *testing.T) {
	res, err := loadgen.LoadResult("testdata/runs/example/mps-c8")
	if err != nil {
		t.Fatal(err)
	}
	res.Summary.Scenario = `<script>alert("x")</script>|`
	page, err := renderReport([]*loadgen.Result{res}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(page, []byte("<script>")) {
		t.Error("a scenario's name is not escaped")
	}
	if md := string(markdownTable(studyRows([]*loadgen.Summary{&res.Summary}))); !strings.Contains(md, `\|`) {
		t.Error(md)
	}
}

func TestLevel(t *testing.T) {
	for load, want := range map[string]string{
		"closed loop, concurrency 8":                                    "8 users",
		"closed loop, concurrency 24, think time 1s, ramp 2s":           "24 users",
		"open loop, constant 15/s":                                      "15 requests/s",
		"open loop, poisson 0.5/s, at most 4 in flight":                 "0.5 requests/s",
		"open loop, gamma 7/s burstiness 0.5":                           "7 requests/s",
		"open loop, trace of 3 arrivals at speed 1, from 0s to its end": "3.33 requests/s",
	} {
		s := &loadgen.Summary{Tenants: []loadgen.TenantSummary{{Load: load}, {Load: "open loop, constant 1/s", Probe: true}}}
		s.Tenants[0].OfferedPerS = 3.3333
		if _, _, got := level(s); got != want {
			t.Errorf("%s: %q, want %q", load, got, want)
		}
	}
}

func TestCompareCommand(t *testing.T) {
	code, out, errs := execProgram(t.Context(), "", "compare", "-figures", "output_tokens_per_s,e2e_ms.p99", "testdata/runs/example/baseline-c8", "--", "testdata/runs/example/mps-c8")
	if code != exitOK || !strings.Contains(out, "SYNTHETIC") || strings.Count(out, "unsupported") != 2 || !strings.Contains(out, "use at least 4 of each") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, _, errs = execProgram(t.Context(), "", "compare", "testdata/runs/example/mps-c8", "--", "testdata/runs/example/mps-c8")
	if code != exitBad || !strings.Contains(errs, "is base[0] too") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestImportCommand(t *testing.T) {
	const dir = "../../loadgen/report/testdata/results/"
	code, out, errs := execProgram(t.Context(), "", "import", dir+"vllm.json", dir+"aiperf.json", "testdata/runs/example/mps-c8/summary.json")
	if code != exitOK {
		t.Fatal(errs)
	}
	// The definitions are loadgen's own to test.
	table, _, _ := strings.Cut(out, "\nWhat the figures mean")
	golden.Check(t, "testdata/import.golden", []byte(table))
	code, _, errs = execProgram(t.Context(), "", "import", "testdata/prompts.jsonl", "nowhere.json")
	if code != exitBad || !strings.Contains(errs, "no known tool's result") || !strings.Contains(errs, "nowhere.json") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestSafeArguments(t *testing.T) {
	got := safeArguments([]string{"-header", "Authorization: Bearer x", "--header=Cookie: y", "-header", "Plain", "-seed", "1"})
	want := []string{"-header", "Authorization: [redacted]", "-header=Cookie: [redacted]", "-header", "Plain: [redacted]", "-seed", "1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkReport(b *testing.B) {
	results, err := readRuns([]string{"testdata/runs/example"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := writeReport(b.TempDir(), results); err != nil {
			b.Fatal(err)
		}
	}
}
