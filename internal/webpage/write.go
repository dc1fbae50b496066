// SPDX-License-Identifier: Apache-2.0

package webpage

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
)

var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle template.CSS
	//go:embed page.js
	pageScript template.JS
	//go:embed plot/d3.min.js
	d3Script template.JS
	//go:embed plot/plot.umd.min.js
	plotScript template.JS
	//go:embed plot/LICENSE
	licences string
)

const colours = 8 // of the style sheet

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	l := layout{Page: *p, names: map[string]int{}}
	l.Sections = nil
	for _, s := range p.Sections {
		if l.lay(&s); len(s.Tables)+len(s.Maps)+len(s.Charts)+len(s.Text)+len(s.Notes) > 0 {
			l.Sections = append(l.Sections, s)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(l.names)) { // the same names have the same colours on every page
		l.names[name] = i
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"alike": alike[Part], "boxes": alike[GPU], "chosen": slices.Contains[[]int], "numeric": numeric,
		"lines": func(s string) []string { return strings.Split(s, "\n") },
		"colour": func(name string) (class string) {
			if i, ok := l.names[name]; ok {
				class = fmt.Sprint("c", i%colours)
			}
			return class
		},
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	return t.Execute(plaintext.NewWriter(w), &l)
}

// WriteText writes the sentences, tables and notes of a page for a terminal, in lines of at most width columns but for
// tables.
func (p *Page) WriteText(w io.Writer, width int) error {
	var b strings.Builder
	line := func(text string) { b.WriteString(plaintext.Wrap(text, width, 4) + "\n") }
	for _, text := range slices.Concat([]string{p.Basis}, p.Invalid, []string{p.Answer}) {
		if text != "" {
			line(text + "\n")
		}
	}
	for _, s := range p.Sections {
		titled := s.Title == ""
		for _, t := range s.Tables {
			if len(t.Rows) == 0 {
				continue
			}
			if !titled {
				titled = true
				line(s.Title)
			}
			if t.Caption != "" {
				line(t.Caption)
			}
			b.WriteString(t.Text() + "\n")
		}
		for _, n := range s.Notes {
			line("note: " + n)
		}
		if len(s.Notes) > 0 {
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// Text lines up the columns of a table for a terminal.
func (t *Table) Text() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range slices.Concat([][]string{t.Head}, t.Rows) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush() // b takes everything
	return b.String()
}

// layout is a page as the template takes it.
type layout struct {
	Page
	Charts bool           // some section has any
	names  map[string]int // of parts and lines, by their place in the alphabet
}

func (*layout) Style() template.CSS { return pageStyle }
func (*layout) Script() template.JS { return d3Script + ";" + plotScript + ";" + pageScript }
func (*layout) Licence() string     { return licences }

// lay removes empty parts from a section, replaces charts of single points by tables, and collects names.
func (l *layout) lay(s *Section) {
	name := func(s string) {
		l.names[s] = 0
	}
	for _, m := range s.Maps {
		for _, n := range m.Nodes {
			for _, g := range n.GPUs {
				for _, p := range g.Parts {
					name(p.Name)
				}
			}
		}
	}
	charts := s.Charts
	s.Charts, s.Tables = nil, slices.Clone(s.Tables)
	for _, c := range charts {
		if t, ok := c.single(); ok {
			s.Tables = append(s.Tables, t)
			continue
		}
		for _, line := range c.Series {
			name(cmp.Or(line.Colour, line.Name))
		}
		s.Charts, l.Charts = append(s.Charts, c), true
	}
	s.Tables = slices.DeleteFunc(s.Tables, func(t Table) bool { return len(t.Rows) == 0 })
}

// single returns the table of a chart with at most one point in each series.
func (c *Chart) single() (t Table, ok bool) {
	t = Table{Caption: c.Title, Head: []string{"", c.X.Label, c.Y.Label}}
	for _, s := range c.Series {
		if c.Scatter || len(s.Points) > 1 {
			return t, false
		}
		for _, p := range s.Points {
			t.Add(s.Name, p.X, Interval(p.Y, p.Low, p.High))
		}
	}
	return t, true
}

// MarshalJSON writes X, Y and the interval's ends where there are any; NaN and infinity become null.
func (p Point) MarshalJSON() ([]byte, error) {
	v := []any{p.X, p.Y}
	if p.High > p.Low {
		v = append(v, p.Low, p.High)
	}
	for i, x := range v {
		if x := x.(float64); math.IsNaN(x) || math.IsInf(x, 0) {
			v[i] = nil
		}
	}
	return json.Marshal(v)
}

// numeric reports whether a column holds only numbers and dashes.
func numeric(t Table, column int) bool {
	found := false
	for _, r := range t.Rows {
		switch c := strings.TrimLeft(r[column], "-+~<>≤≥ "); {
		case c == "":
		case c[0] >= '0' && c[0] <= '9' || strings.HasPrefix(c, "∞"):
			found = true
		default:
			return false
		}
	}
	return found
}

// group counts equal values.
type group[T any] struct {
	Of T
	N  int
}

// alike lists values, equal ones once.
func alike[T any](all []T) (out []group[T]) {
	for _, v := range all {
		k := slices.IndexFunc(out, func(g group[T]) bool { return reflect.DeepEqual(g.Of, v) })
		if k < 0 {
			k = len(out)
			out = append(out, group[T]{Of: v})
		}
		out[k].N++
	}
	return out
}
