package main

import (
	"bytes"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/cotenant/cotenant/loadgen"
)

// TestCoincidingLinesShow: of lines on one another each is narrower than the one
// beneath, and none but the first is whole.
func TestCoincidingLinesShow(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for i := range n {
			width, dashes := lineStyle(i, n)
			if (dashes == nil) != (i == 0) {
				t.Errorf("line %d of %d: dashes %v", i, n, dashes)
			}
			if i > 0 {
				if below, _ := lineStyle(i-1, n); width >= below {
					t.Errorf("line %d of %d is %v wide over %v", i, n, width, below)
				}
			}
		}
	}
}

// TestSyntheticFigures: a figure says once that it is simulated, and in no red.
func TestSyntheticFigures(t *testing.T) {
	c := chart{name: "x", title: "X", lines: []line{{name: "a", points: plotter.XYs{{X: 1, Y: 2}, {X: 2, Y: 3}}}}, synthetic: true}
	p, err := c.draw()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(p.SVG, []byte("SYNTHETIC")); n != 1 || bytes.Contains(p.SVG, []byte("#A01010")) || bytes.Contains(p.SVG, []byte("#F8E0E0")) {
		t.Errorf("%d times:\n%s", n, p.SVG)
	}
}

// TestShortRunsHaveNoCourse: two seconds are not drawn over time.
func TestShortRunsHaveNoCourse(t *testing.T) {
	r := &loadgen.Result{}
	for s := range int64(6) {
		r.Timeline = append(r.Timeline, loadgen.TimelineRow{Tenant: "t", UnixNS: s * 1e9, Tokens: 5})
		r.Summary.Window.ToNS = (s + 1) * 1e9
		if got := len(timelineCharts([]*loadgen.Result{r})) > 0; got != (s+1 >= leastSeconds) {
			t.Errorf("%d seconds: drawn %v", s+1, got)
		}
	}
}
