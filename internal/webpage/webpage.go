// SPDX-License-Identifier: Apache-2.0

// Package webpage writes web pages: each is one HTML file of sentences, tables, charts and GPUs drawn as boxes, which
// works without a network, in light and dark mode, on paper and on phones. Observable Plot draws the charts; licences
// are in plot/LICENSE and in every page, and go generate fetches the versions that plot/update.sh names.
//
// A Page is a value, and Write writes it.
//
// Answer and the table of the first section come first: put the key numbers there. A name has the same colour
// throughout the page, also in tables, and on every page with the same names. A chart of more than four series becomes
// small ones, one for each colour, with the same axes; a chart of lines with one point each becomes a table. All texts
// are escaped. The same page gives the same bytes.
package webpage

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
)

//go:generate sh plot/update.sh

// Page holds the content of a file.
type Page struct {
	Title   string
	Basis   string   // how figures came about where they were not measured, e.g. "Simulated: no GPU was used."
	Answer  string   // sentences with numbers, a paragraph a line
	Invalid []string // why figures must not be used; shown in red, which nothing else is
	// Calculator is a form below the answer; nil is none.
	Calculator *Calculator
	Sections   []Section
	Details    map[string][]string // of a click on a part of a GPU, by its name
}

// Calculator is a form; its Script writes the outputs when an input changes. The script is trusted: it is not escaped.
type Calculator struct {
	Inputs  []Input
	Outputs []Output
	Script  template.JS
}

// Input is a field of text, or a choice where there are options.
type Input struct {
	Name, Label, Value string
	Options            []string
}

// Output is an element that the script fills in.
type Output struct{ ID, Label string }

// Section is a part of a page: its texts, tables, GPUs, charts and notes, in this order. Where there are none, and
// where a table has no rows or a chart no series, they are left out.
type Section struct {
	Title  string // none on the first
	Text   []string
	Tables []Table
	Maps   []Map // in one row where there is room
	Charts []Chart
	Notes  []string // doubts about a figure, and the remedy
	Folded bool     // closed until a reader opens it
}

// Table holds texts, in each row as many as in the head. Columns of numbers are aligned to the right.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Chosen  []int // rows that are highlighted
}

// Add adds a row: figures as Number writes them, a pointer to none as "-", and anything else as fmt does.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if v, ok := c.(*float64); ok && v != nil {
			c = *v
		} else if ok {
			c = "-"
		}
		if v, ok := c.(float64); ok {
			c = Number(v)
		}
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// Choose highlights the last row.
func (t *Table) Choose() { t.Chosen = append(t.Chosen, len(t.Rows)-1) }

// Number writes a figure for a table: three significant digits, all of those before the point.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 1):
		return "∞"
	case a >= 100 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 0.001:
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(a))), 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Interval writes a figure with its bounds, where there are any.
func Interval(v, low, high float64) string {
	if high <= low {
		return Number(v)
	}
	return fmt.Sprintf("%s (%s to %s)", Number(v), Number(low), Number(high))
}

// Map shows GPUs as boxes, by node.
type Map struct {
	Title string
	Nodes []Node
}

// Node is a machine. Those of its GPUs that are equal are drawn as one box, with their number.
type Node struct {
	Name string
	GPUs []GPU
}

// GPU is a box of parts. What the shares of its parts leave of 1 is drawn as free.
type GPU struct {
	Name  string // e.g. "H100 80GB, MPS"
	Parts []Part
}

// Part is a tenant or a slice of a GPU.
type Part struct {
	Name, Text string  // Text follows the name, e.g. "40 GiB"
	Share      float64 // of the GPU's width
}

// Free returns the share of a GPU that its parts leave.
func (g GPU) Free() float64 {
	left := 1.0
	for _, p := range g.Parts {
		left -= p.Share
	}
	if left < 1e-6 {
		return 0
	}
	return left
}

// Chart draws series of points on two axes.
type Chart struct {
	Name           string // of its own among those of a page; empty where nothing asks
	Title, Caption string
	X, Y           Axis
	Series         []Series
	Limits         []Limit
	Scatter        bool // points that are not joined
	Diagonal       bool // a line where X equals Y
}

// Axis is one of a chart's axes.
type Axis struct {
	Label    string  // with its unit in parentheses
	Log      bool    // logarithmic; values of 0 and less are left out
	Min, Max float64 // 0: by the data, and from 0 where the axis is not logarithmic
}

// Series is a line of a chart, or a set of points.
type Series struct {
	Name   string
	Colour string // the name that determines the colour; "" is Name
	Points []Point
}

// Point is a value with its interval; there is none where Low and High are equal. A Y that is NaN interrupts a line.
type Point struct{ X, Y, Low, High float64 }

// Limit is a line across a chart, e.g. an objective.
type Limit struct {
	Name     string
	At       float64
	Vertical bool // at an X
}

// Line returns the series of a name, which it adds where there is none.
func (c *Chart) Line(name string) *Series {
	k := slices.IndexFunc(c.Series, func(s Series) bool { return s.Name == name })
	if k < 0 {
		k = len(c.Series)
		c.Series = append(c.Series, Series{Name: name})
	}
	return &c.Series[k]
}

// Add adds a point to the named series.
func (c *Chart) Add(series string, p Point) {
	s := c.Line(series)
	s.Points = append(s.Points, p)
}

// Against returns an empty chart of predictions against measurements, in milliseconds.
func Against(title string) Chart {
	return Chart{Title: title, Scatter: true, Diagonal: true, X: Axis{Label: "measured (ms)", Log: true},
		Y: Axis{Label: "predicted (ms)", Log: true}}
}
