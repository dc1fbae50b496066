// SPDX-License-Identifier: Apache-2.0

package webpage_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
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
	fmt.Println(page.Write(&b), strings.Contains(b.String(), page.Answer), strings.Contains(b.String(), "<script src"))
	// Output: <nil> true false
}

func ExampleTable_Add() {
	t := webpage.Table{Head: []string{"kind", "GPUs", "an hour"}}
	t.Add("mps", 2, 12.345)
	fmt.Println(t.Rows)
	// Output: [[mps 2 12.3]]
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
		Details: map[string][]string{hostile: {hostile}},
		Sections: []webpage.Section{{Title: hostile, Text: []string{hostile}, Notes: []string{hostile},
			Tables: []webpage.Table{{Caption: hostile, Head: []string{hostile}, Rows: [][]string{{hostile}}}},
			Maps: []webpage.Map{{Title: hostile, Nodes: []webpage.Node{{Name: hostile, GPUs: []webpage.GPU{{Name: hostile,
				Parts: []webpage.Part{{Name: hostile, Text: hostile, Share: 0.5}}}}}}}},
			Charts: []webpage.Chart{{Title: hostile, Caption: hostile, X: webpage.Axis{Label: hostile}, Y: webpage.Axis{Label: hostile},
				Series: []webpage.Series{line}, Limits: []webpage.Limit{{Name: hostile, At: 2}}}}}}}
}

func write(t *testing.T, p *webpage.Page) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, p.Write(&b))
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
	if n := strings.Count(text, "<script>"); n != 1 {
		t.Errorf("%d scripts", n)
	}
}

func chartOf(series ...webpage.Series) *webpage.Page {
	return &webpage.Page{Title: "t", Answer: "a", Sections: []webpage.Section{{Charts: []webpage.Chart{{Title: "C",
		X: webpage.Axis{Label: "x"}, Y: webpage.Axis{Label: "y", Log: true}, Series: series}}}}}
}

// TestColours: a name has one colour in charts, legends and tables, and lines of one Colour have the same.
func TestColours(t *testing.T) {
	line := []webpage.Point{{X: 1, Y: 2}, {X: 2, Y: 3}}
	p := chartOf(webpage.Series{Name: "a", Points: line}, webpage.Series{Name: "b, late", Colour: "b", Points: line},
		webpage.Series{Name: "b, early", Colour: "b", Points: line})
	p.Sections[0].Tables = []webpage.Table{{Head: []string{"name"}, Rows: [][]string{{"b"}, {"other"}}}}
	text := write(t, p)
	for want, n := range map[string]int{`<td data-head="name"><i class="c1"></i>b</td>`: 1, `<td data-head="name">other</td>`: 1,
		`<li><i class="c0"></i>a</li>`: 1, `<li><i class="c1"></i>b, `: 2} {
		if strings.Count(text, want) != n {
			t.Errorf("not %d times: %s", n, want)
		}
	}
}

// TestPoints: a Y that is no number interrupts a line, and bounds come only where there are any.
func TestPoints(t *testing.T) {
	text := write(t, chartOf(webpage.Series{Name: "a", Points: []webpage.Point{{X: 1, Y: 2, Low: 1, High: 3}, {X: 2, Y: math.NaN()},
		{X: 3, Y: math.Inf(1)}, {X: 4, Y: 5}, {X: 5, Y: 5, Low: 4, High: math.Inf(1)}, {X: math.Inf(1), Y: 6}}}))
	if want := `"Points":[[1,2,1,3],[2,null],[3,null],[4,5],[5,5,4,null],[null,6]]`; !strings.Contains(text, want) {
		t.Error("no", want)
	}
}

// TestAlike: equal GPUs of a node, and equal parts of a GPU, are drawn once, with their number.
func TestAlike(t *testing.T) {
	gpu := webpage.GPU{Name: "H100", Parts: []webpage.Part{{Name: "chat", Share: 0.25}, {Name: "chat", Share: 0.25}}}
	text := write(t, &webpage.Page{Title: "t", Answer: "a", Details: map[string][]string{"chat": {"why"}},
		Sections: []webpage.Section{{Maps: []webpage.Map{{Nodes: []webpage.Node{{GPUs: []webpage.GPU{gpu, {Name: "L4"}, gpu}}}}}}}})
	for _, want := range []string{"<p>2 alike: H100</p>", "<p>L4</p>", "2 × <button", `flex-grow: 0.5"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("not once: %s", want)
		}
	}
}

// TestOnePoint: a chart of one point is a number.
func TestOnePoint(t *testing.T) {
	text := write(t, chartOf(webpage.Series{Name: "alone", Points: []webpage.Point{{X: 8, Y: 0.1054, Low: 0.1, High: 0.11}}}))
	if strings.Contains(text, "<figure>") || !strings.Contains(text, "0.105 (0.100 to 0.110)") {
		t.Error(text)
	}
}
