package chart

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

func exampleRuns(t testing.TB) []*loadgen.Result {
	t.Helper()
	results, err := loadgen.LoadResults("../../../loadgen/report/testdata/runs/example")
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// TestCoincidingLinesShow: of lines on one another each is narrower than the one beneath.
func TestCoincidingLinesShow(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for i := 1; i < n; i++ {
			if width, below := lineWidth(i, n), lineWidth(i-1, n); width >= below {
				t.Errorf("line %d of %d is %v wide over %v", i, n, width, below)
			}
		}
	}
}

// TestSyntheticFigures: a figure says once that it is simulated, and in no red. Drawn
// again it has the same bytes.
func TestSyntheticFigures(t *testing.T) {
	f := &webpage.Chart{Name: "x", Title: "X", Simulated: true, Series: []webpage.Series{{Name: "a", Points: []webpage.Point{{X: 1, Y: 2}, {X: 2, Y: 3}}}}}
	svg, err := Draw(f, "svg")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(svg, []byte("SYNTHETIC")); n != 1 || bytes.Contains(svg, []byte("#A01010")) || bytes.Contains(svg, []byte("#F8E0E0")) {
		t.Errorf("%d times:\n%s", n, svg)
	}
	all := report.Figures(exampleRuns(t))
	for _, f := range []webpage.Chart{all[0], all[len(all)-1]} {
		for _, format := range []string{"svg", "png"} {
			first, err := Draw(&f, format)
			again, err2 := Draw(&f, format)
			if err != nil || err2 != nil || len(first) == 0 || !bytes.Equal(first, again) {
				t.Errorf("%s differs when drawn again: %v, %v", f.Name, err, err2)
			}
		}
	}
}

func TestReportOfTheExampleRuns(t *testing.T) {
	first := t.TempDir()
	if _, err := WriteReport(first, exampleRuns(t)); err != nil {
		t.Fatal(err)
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
	for _, name := range []string{"report.html", "figures/throughput-concurrency.svg", "figures/throughput-concurrency.png",
		"figures/p99-e2e-concurrency.svg", "figures/cdf-ttft.svg", "figures/cdf-chunk-gap.svg", "figures/cdf-e2e.svg"} {
		if !files[filepath.FromSlash(name)] {
			t.Errorf("no %s", name)
		}
	}
	if files[filepath.Join("figures", "timeline-tokens.svg")] {
		t.Error("runs of two seconds are drawn over time")
	}
}

func BenchmarkReport(b *testing.B) {
	results := exampleRuns(b)
	for b.Loop() {
		if _, err := WriteReport(b.TempDir(), results); err != nil {
			b.Fatal(err)
		}
	}
}
