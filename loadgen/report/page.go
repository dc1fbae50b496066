package report

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/loadgen"
)

//go:embed page.html.tmpl
var pageTemplate string

type page struct {
	Synthetic   bool
	Note        string
	Study       Scenarios
	Runs        []pageRun
	Pictures    []pagePicture
	Definitions []definition
}

type pageRun struct {
	S       *loadgen.Summary
	Load    string
	Tenants []pageTenant
}

type pageTenant struct {
	Label, Classes, Tokens string
	Remarks                []string
	M                      *loadgen.Measures
	Rows                   []loadgen.MetricFigures
}

type pagePicture struct {
	Caption, Title string
	Source         template.URL
}

type definition struct{ Name, Text string }

// WriteHTML writes a page that needs no other file: the table of scenarios, each of Figures as the SVG that draw
// returns, each run with its tenants, and the definitions of the metrics. A nil draw leaves the figures out.
func WriteHTML(w io.Writer, results []*loadgen.Result, draw func(*Figure) (svg []byte, err error)) error {
	p := page{Note: SyntheticNote, Study: ScenariosOf(results)}
	p.Synthetic = p.Study.synthetic()
	for _, r := range results {
		s := &r.Summary
		run := pageRun{S: s, Load: LevelOf(s).Text}
		for i := range s.Tenants {
			t := &s.Tenants[i]
			label := t.Name + ": " + t.Load
			if t.Probe {
				label += " (probe)"
			}
			run.Tenants = append(run.Tenants, pageTenant{Label: label, M: &t.Measures, Classes: FailedByClass(&t.Counts),
				Tokens: tokens(&t.Measures), Remarks: remarks(&t.Measures), Rows: shown(&t.Measures)})
		}
		p.Runs = append(p.Runs, run)
	}
	if draw != nil {
		for _, f := range Figures(results) {
			svg, err := draw(&f)
			if err != nil {
				return err
			}
			// As data the page needs no other file, and ids of two drawings never meet.
			source := template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg))
			p.Pictures = append(p.Pictures, pagePicture{f.Caption, f.Title, source})
		}
	}
	definitions := loadgen.Definitions()
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		p.Definitions = append(p.Definitions, definition{name, definitions[name]})
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"ms": func(v loadgen.Millis) string {
			if math.IsInf(float64(v), 1) {
				return "∞"
			}
			return fmt.Sprintf("%.2f", float64(v))
		},
		"f1":      func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"percent": func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) },
		"p99":     func(r Scenario) string { return r.p99() },
		"remarks": func(r Scenario) string {
			r.Simulated = false // the banner and each run say it
			return r.remarks()
		},
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	return t.Execute(plaintext.NewWriter(w), &p)
}
