package webpage

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
)

var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle template.CSS
	//go:embed page.js
	pageScript template.JS
	//go:embed uplot/uplot.min.css
	uplotStyle template.CSS
	//go:embed uplot/uplot.min.js
	uplotScript template.JS
	//go:embed uplot/LICENSE
	uplotLicence string
)

const (
	colours    = 8 // of the style sheet
	mostSeries = 4 // of a chart that is not split
)

// Write writes the page. It refuses one without an answer, charts whose axes have no label, and rows that do not fit
// their table.
func (p *Page) Write(w io.Writer) error {
	l := layout{Page: p, colour: map[string]int{}, detail: map[string]int{}}
	for i := range p.Details {
		l.detail[p.Details[i].Name] = i
	}
	if p.Title == "" || p.Answer == "" {
		l.errs = append(l.errs, errors.New("webpage: a page needs a title and an answer"))
	}
	for i := range p.Sections {
		l.section(&p.Sections[i])
	}
	if err := errors.Join(l.errs...); err != nil {
		return err
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"colour": l.colourOf, "lines": func(s string) []string { return strings.Split(s, "\n") }, "free": free,
		"detail": func(name string) int {
			if i, ok := l.detail[name]; ok && name != "" {
				return i
			}
			return -1
		},
		"alike": alike, "wide": func(t Table) bool { return len(t.Head) > 3 },
		"numeric": numeric, "grow": func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	return t.Execute(plaintext.NewWriter(w), &l)
}

// layout is a page as the template takes it.
type layout struct {
	*Page
	Laid   []laid
	Charts []panel // of all sections
	colour map[string]int
	detail map[string]int
	errs   []error
}

type laid struct {
	*Section
	Tables []Table
	Panels []panel
}

func (*layout) Style() template.CSS { return uplotStyle + pageStyle }
func (*layout) Script() template.JS { return uplotScript + pageScript }
func (*layout) Licence() string     { return uplotLicence }
func (l *layout) section(s *Section) {
	out := laid{Section: s}
	out.Tables = slices.DeleteFunc(slices.Clone(s.Tables), func(t Table) bool { return len(t.Rows) == 0 })
	for i := range s.Charts {
		c := &s.Charts[i]
		if len(c.Series) == 0 {
			continue
		}
		if c.X.Label == "" || c.Y.Label == "" || c.Title == "" {
			l.errs = append(l.errs, fmt.Errorf("webpage: chart %q: needs a title and labels of both axes", c.Title))
		}
		if t, ok := c.single(); ok {
			out.Tables = append(out.Tables, t)
			continue
		}
		panels := l.panels(c)
		out.Panels, l.Charts = append(out.Panels, panels...), append(l.Charts, panels...)
	}
	for _, t := range s.Tables {
		for _, r := range t.Rows {
			if len(r.Cells) != len(t.Head) {
				l.errs = append(l.errs, fmt.Errorf("webpage: table %q: %d cells under %d columns", t.Caption, len(r.Cells),
					len(t.Head)))
			}
		}
	}
	if len(out.Tables)+len(s.Maps)+len(out.Panels)+len(s.Text)+len(s.Notes) > 0 {
		l.Laid = append(l.Laid, out)
	}
}

// colourOf returns the number of the colour of a name, in the order in which names come.
func (l *layout) colourOf(name string) int {
	i, ok := l.colour[name]
	if !ok {
		i = len(l.colour)
		l.colour[name] = i
	}
	return i % colours
}

// single returns the table of a chart whose series have at most a point each, or points at one X.
func (c *Chart) single() (Table, bool) {
	t := Table{Caption: c.Title, Head: []string{"", c.X.Label, c.Y.Label}}
	for _, s := range c.Series {
		if c.Kind != Lines || len(s.Points) > 1 {
			return Table{}, false
		}
		for _, p := range s.Points {
			t.Rows = append(t.Rows, Row{Cells: []string{s.Name, Number(p.X), Interval(p.Y, p.Low, p.High)},
				Colour: cmp.Or(s.Colour, s.Name)})
		}
	}
	return t, true
}

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

// panel is a chart as the script takes it: its axes have ranges, and its colours are numbers.
type panel struct {
	ID int
	Chart
	Dashes []int // of each series: how many before it have its colour
}

// MarshalJSON writes X, Y and the interval's ends where there are any; no Y interrupts a line.
func (p Point) MarshalJSON() ([]byte, error) {
	v := []any{p.X, p.Y}
	if math.IsNaN(p.Y) {
		v[1] = nil
	}
	if p.High > p.Low {
		v = append(v, p.Low, p.High)
	}
	return json.Marshal(v)
}

// panels lays a chart out, one of many series as several: by colour, and by series where that is not enough.
func (l *layout) panels(c *Chart) []panel {
	var parts []panel
	x, y := c.Ranges()
	lone := c.Kind == Scatter && !slices.ContainsFunc(c.Series, func(s Series) bool { return len(s.Points) > 1 })
	for _, s := range c.Series {
		name := cmp.Or(s.Colour, s.Name)
		s.Colour = strconv.Itoa(l.colourOf(name))
		s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
			return !c.X.shows(p.X) || !c.Y.shows(p.Y) && !math.IsNaN(p.Y)
		})
		title, many := c.Title, len(c.Series) > mostSeries && !lone
		if many {
			title += ": " + name
		}
		at := slices.IndexFunc(parts, func(p panel) bool {
			return !many || len(p.Series) < mostSeries && p.Title == title
		})
		if at < 0 {
			at = len(parts)
			p := panel{ID: len(l.Charts) + at, Chart: *c}
			p.Title, p.Series = title, nil
			p.X.Min, p.X.Max, p.X.Ticks = x.Min, x.Max, x.Ticks
			p.Y.Min, p.Y.Max, p.Y.Ticks = y.Min, y.Max, y.Ticks
			parts = append(parts, p)
		}
		same := 0
		for _, other := range parts[at].Series {
			if other.Colour == s.Colour {
				same++
			}
		}
		parts[at].Series, parts[at].Dashes = append(parts[at].Series, s), append(parts[at].Dashes, same)
	}
	return parts
}

// numeric says whether a column holds numbers and dashes.
func numeric(t Table, column int) bool {
	found := false
	for _, r := range t.Rows {
		switch c := strings.TrimLeft(r.Cells[column], "-+~<>≤≥ "); {
		case c == "":
		case c[0] >= '0' && c[0] <= '9' || strings.HasPrefix(c, "∞"):
			found = true
		default:
			return false
		}
	}
	return found
}

// free returns the share of a GPU that its parts leave.
func free(g GPU) float64 {
	left := 1.0
	for _, p := range g.Parts {
		left -= p.Share
	}
	if left < 1e-6 {
		return 0
	}
	return left
}

// alike lists parts, equal neighbours once with their number.
func alike(parts []Part) (out []struct {
	Part
	N int
}) {
	for _, p := range parts {
		if k := len(out) - 1; k >= 0 && out[k].Part == p {
			out[k].N = max(out[k].N, 1) + 1
			continue
		}
		out = append(out, struct {
			Part
			N int
		}{Part: p})
	}
	return out
}
