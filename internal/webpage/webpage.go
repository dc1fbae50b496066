// Package webpage writes pages: each is one HTML file of sentences, tables, charts and GPUs drawn as boxes, which
// opens without a network, in light and dark, on paper and on a telephone. uPlot draws the charts; its licence stands
// in uplot/LICENSE and in every page, and go generate fetches the version that uplot/update.sh names.
//
// A page is a value, and Write writes it:
//
//	page := webpage.Page{
//		Title:  "Load test",
//		Answer: "MPS keeps the objective to 14 requests/s, time-slicing to 9.",
//		Sections: []webpage.Section{{
//			Tables: []webpage.Table{{Head: []string{"scenario", "kept to (requests/s)"},
//				Rows: []webpage.Row{{Cells: []string{"mps", "14"}, Colour: "mps"}}}},
//			Charts: []webpage.Chart{{Title: "Latency", X: webpage.Axis{Label: "load (requests/s)"},
//				Y:      webpage.Axis{Label: "TTFT P99 (ms)"},
//				Series: []webpage.Series{{Name: "mps", Points: []webpage.Point{{X: 9, Y: 210}, {X: 14, Y: 480}}}}}},
//		}},
//	}
//	err := page.Write(w)
//
// Answer and the table of the first section are what a reader sees first: put the numbers there. What is called by
// one Colour has one colour throughout the page. A chart of more than four series becomes one chart for each Colour,
// with the same axes; one whose lines have one point each becomes a table. Texts may come from anybody: all are
// escaped. The same page gives the same bytes.
//
// Experimental: its API may change.
package webpage

import "slices"

//go:generate sh uplot/update.sh

// Page holds the content of a file.
type Page struct {
	Title    string
	Basis    string   // how figures came about where they were not measured, e.g. "Simulated: no GPU was used."
	Answer   string   // sentences with numbers, a paragraph a line
	Invalid  []string // why figures must not be used; shown in red, which nothing else is
	Sections []Section
	Details  []Detail // of parts of GPUs
}

// Section is a part of a page: its texts, tables, GPUs, charts and notes, in this order. Where there are none, and
// where a table has no rows or a chart no series, they are left out.
type Section struct {
	Title  string // none on the first
	Text   []string
	Tables []Table
	Maps   []Map // beside one another where there is room
	Charts []Chart
	Notes  []string // what spoils a figure, and what to do about it
	Folded bool     // closed until a reader opens it
}

// Table holds texts. Columns of numbers are aligned to the right.
type Table struct {
	Caption string
	Head    []string
	Rows    []Row
}

// Row is a line of a table, with as many cells as the table's head.
type Row struct {
	Cells   []string
	Colour  string // of a mark before the first cell; "" is none
	Chosen  bool   // stands out
	Invalid bool   // red
}

// Map shows GPUs as boxes, by node.
type Map struct {
	Title string
	Nodes []Node
}

// Node is a machine.
type Node struct {
	Name string
	GPUs []GPU
}

// GPU is a box of parts. What the shares of its parts leave of 1 is drawn as free.
type GPU struct {
	Name  string // e.g. "H100 80GB, MPS" or "4 alike: H100 80GB"
	Parts []Part
}

// Part is a tenant or a slice of a GPU.
type Part struct {
	Name, Text string  // Text follows the name, e.g. "40 GiB"
	Share      float64 // of the GPU's width
	Colour     string  // "" is the name
	Detail     string  // name of the Detail that a click shows; "" is none
}

// Detail holds what a click on a part shows.
type Detail struct {
	Name string
	Text []string
}

// Kind says how a chart draws its series.
type Kind uint8

// The kinds of charts.
const (
	Lines   Kind = iota // points joined; intervals as a band
	Scatter             // points alone; intervals as lines through them
	Bars                // a bar from each X to the next, e.g. of a histogram
)

// Chart draws series of points on two axes.
type Chart struct {
	Name           string // of its file where it is drawn into one
	Title, Caption string
	Kind           Kind
	X, Y           Axis
	Series         []Series
	Limits         []Limit
	Diagonal       bool // a line where X equals Y
	Simulated      bool // say so where the chart stands alone
}

// Axis is one of a chart's axes.
type Axis struct {
	Label string    // with its unit in parentheses
	Log   bool      // logarithmic; values of 0 and less are left out
	Min   float64   // 0: 0, or by the data where that or Log says so
	Max   float64   // 0: by the data
	Ticks []float64 // the only steps to name, e.g. the levels of load; nil: by the range
	Names []string  // names of Ticks; nil: the numbers
}

// Series is a line of a chart, or a set of points or bars.
type Series struct {
	Name   string
	Colour string // "" is the name
	Points []Point
	Dots   bool // mark each point of a line
}

// Point is a value with its interval; there is none where Low and High are equal. A Y that is NaN interrupts a line.
type Point struct{ X, Y, Low, High float64 }

// Add adds a point to the named series, which it makes where there is none.
func (c *Chart) Add(series string, p Point) {
	k := slices.IndexFunc(c.Series, func(s Series) bool { return s.Name == series })
	if k < 0 {
		k = len(c.Series)
		c.Series = append(c.Series, Series{Name: series, Dots: true})
	}
	c.Series[k].Points = append(c.Series[k].Points, p)
}

// Against returns an empty chart of what was predicted, in milliseconds, against what was measured.
func Against(title string) Chart {
	return Chart{Title: title, Kind: Scatter, Diagonal: true, X: Axis{Label: "measured (ms)", Log: true},
		Y: Axis{Label: "predicted (ms)", Log: true}}
}

// Limit is a line across a chart, e.g. an objective.
type Limit struct {
	Name     string
	At       float64
	Vertical bool // at an X
}
