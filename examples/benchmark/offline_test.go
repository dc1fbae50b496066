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
	"github.com/cotenant/cotenant/loadgen/report"
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
		"figures/p99-concurrency.svg", "figures/cdf-ttft.svg", "figures/cdf-chunk-gap.svg", "figures/cdf-e2e.svg"} {
		if !files[filepath.FromSlash(name)] {
			t.Errorf("no %s", name)
		}
	}
	if files[filepath.Join(figuresDir, "timeline-tokens.svg")] {
		t.Error("runs of two seconds are drawn over time")
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
	charts := append(studyCharts(report.ScenariosOf(results))[:1], cdfCharts(highestLoads(results))[:1]...)
	for i := range charts {
		a, err := charts[i].draw()
		if err != nil {
			t.Fatal(err)
		}
		b, err := charts[i].draw()
		if err != nil || !bytes.Equal(a.SVG, b.SVG) || !bytes.Equal(a.png, b.png) {
			t.Errorf("%s differs when drawn again: %v", charts[i].name, err)
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
	want := []string{"-header", "Authorization: [redacted]", "--header=Cookie: [redacted]", "-header", "Plain: [redacted]", "-seed", "1"}
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
