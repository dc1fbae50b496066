package webpage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/webpage"
)

func ExamplePage_Write() {
	page := webpage.Page{
		Title:  "Load test",
		Answer: "MPS keeps the objective to 14 requests/s.",
		Sections: []webpage.Section{{
			Charts: []webpage.Chart{{Title: "Latency", X: webpage.Axis{Label: "load (requests/s)"},
				Y: webpage.Axis{Label: "TTFT P99 (ms)"}, Limits: []webpage.Limit{{Name: "objective", At: 500}},
				Series: []webpage.Series{{Name: "mps", Points: []webpage.Point{{X: 9, Y: 210}, {X: 14, Y: 480}}}}}},
		}},
	}
	var b bytes.Buffer
	fmt.Println(page.Write(&b), strings.Contains(b.String(), page.Answer), strings.Contains(b.String(), "src="))
	// Output: <nil> true false
}

func ExampleChart_Ranges() {
	c := webpage.Chart{X: webpage.Axis{Label: "kernel (us)", Log: true}, Series: []webpage.Series{{Points: []webpage.Point{{X: 3, Y: 1}, {X: 800, Y: 4}}}}}
	x, y := c.Ranges()
	fmt.Printf("%.4g to %.4g by %v, %.3g to %.3g\n", x.Min, x.Max, x.Ticks, y.Min, y.Max)
	// Output: 2.857 to 840 by [5 10 20 50 100 200 500], 0 to 4.2
}

func ExampleNumber() {
	fmt.Println(webpage.Number(12345.6), webpage.Number(12.3456), webpage.Number(0.01234), webpage.Number(math.Inf(1)))
	// Output: 12346 12.3 0.0123 ∞
}

// hostile is a name that would leave every place that a page has for text.
const hostile = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x1b{{.}}`${1}"

func hostilePage() *webpage.Page {
	line := webpage.Series{Name: hostile, Points: []webpage.Point{{X: 1, Y: 2, Low: 1, High: 3}, {X: 2, Y: math.NaN()}, {X: 3, Y: 1}}}
	return &webpage.Page{Title: hostile, Basis: hostile, Answer: hostile, Invalid: []string{hostile},
		Details: []webpage.Detail{{Name: hostile, Text: []string{hostile}}},
		Sections: []webpage.Section{{Title: hostile, Text: []string{hostile}, Notes: []string{hostile},
			Tables: []webpage.Table{{Caption: hostile, Head: []string{hostile}, Rows: []webpage.Row{{Cells: []string{hostile}, Colour: hostile}}}},
			Maps: []webpage.Map{{Title: hostile, Nodes: []webpage.Node{{Name: hostile, GPUs: []webpage.GPU{{Name: hostile,
				Parts: []webpage.Part{{Name: hostile, Text: hostile, Share: 0.5, Colour: hostile, Detail: hostile}}}}}}}},
			Charts: []webpage.Chart{{Title: hostile, Caption: hostile, X: webpage.Axis{Label: hostile}, Y: webpage.Axis{Label: hostile},
				Series: []webpage.Series{line}, Limits: []webpage.Limit{{Name: hostile, At: 2}}}}}}}
}

func write(t *testing.T, p *webpage.Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTextIsEscaped: text of others opens no element and steers nothing, and the same page has the same bytes.
func TestTextIsEscaped(t *testing.T) {
	text := write(t, hostilePage())
	for _, bad := range []string{"<script>alert", "<img", "onerror=alert(1)>\"", "ZgotmplZ", "\x1b", "\u202e", "</script><script>alert"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if text != write(t, hostilePage()) {
		t.Error("written again the page differs")
	}
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("%d scripts", n)
	}
}

// panels reads the charts that a page's script gets.
func panels(t *testing.T, p *webpage.Page) (charts []struct {
	Title  string
	X      struct{ Min, Max float64 }
	Series []struct {
		Name, Colour string
		Points       [][]*float64
	}
}) {
	t.Helper()
	_, text, _ := strings.Cut(write(t, p), `id="charts">`)
	text, _, _ = strings.Cut(text, "</script>")
	if err := json.Unmarshal([]byte(text), &charts); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return charts
}

func chartOf(series ...webpage.Series) *webpage.Page {
	return &webpage.Page{Title: "t", Answer: "a", Sections: []webpage.Section{{Charts: []webpage.Chart{{Title: "C",
		X: webpage.Axis{Label: "x"}, Y: webpage.Axis{Label: "y", Log: true}, Series: series}}}}}
}

// TestManyLines: more than four lines become small multiples by colour with the same axes, and a name has one colour.
func TestManyLines(t *testing.T) {
	var series []webpage.Series
	for i := range 6 {
		series = append(series, webpage.Series{Name: fmt.Sprint("s", i), Colour: fmt.Sprint("c", i%3),
			Points: []webpage.Point{{X: 1, Y: float64(i)}, {X: float64(i + 2), Y: 2}}})
	}
	got := panels(t, chartOf(series...))
	if len(got) != 3 || got[1].Title != "C: c1" || len(got[1].Series) != 2 || got[0].X != got[2].X {
		t.Fatalf("%+v", got)
	}
	for i, p := range got {
		if p.Series[0].Colour != fmt.Sprint(i) || p.Series[1].Colour != fmt.Sprint(i) {
			t.Errorf("panel %d: colours %v", i, p.Series)
		}
	}
	if n := len(got[0].Series[0].Points); n != 1 {
		t.Errorf("a logarithmic axis shows %d points, one of them 0", n)
	}
	if n := len(panels(t, chartOf(series[:4]...))); n != 1 {
		t.Errorf("four lines in %d charts", n)
	}
}

// TestOnePoint: a chart of one point is a number.
func TestOnePoint(t *testing.T) {
	text := write(t, chartOf(webpage.Series{Name: "alone", Points: []webpage.Point{{X: 8, Y: 0.1054, Low: 0.1, High: 0.11}}}))
	if strings.Contains(text, "<figure>") || !strings.Contains(text, "0.105 (0.100 to 0.110)") {
		t.Error(text)
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, p := range map[string]*webpage.Page{
		"no answer": {Title: "t"},
		"no label":  {Title: "t", Answer: "a", Sections: []webpage.Section{{Charts: []webpage.Chart{{Title: "c", Series: make([]webpage.Series, 1)}}}}},
		"cells": {Title: "t", Answer: "a", Sections: []webpage.Section{{Tables: []webpage.Table{{Head: []string{"a", "b"},
			Rows: []webpage.Row{{Cells: []string{"1"}}}}}}}},
	} {
		if err := p.Write(io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
