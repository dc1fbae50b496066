package main

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/loadgen"
)

const (
	reportFile = "report.html"
	figuresDir = "figures"
	tableFile  = "table.md"
)

//go:embed report.html.tmpl
var reportTemplate string

// writeReport writes table.md, figures/*.svg and *.png and report.html into dir.
func writeReport(dir string, results []*loadgen.Result) error {
	pictures, err := drawAll(results)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, figuresDir), 0o755); err != nil {
		return err
	}
	for _, p := range pictures {
		for ext, data := range map[string][]byte{".svg": p.SVG, ".png": p.PNG} {
			if err := atomicfile.Write(filepath.Join(dir, figuresDir, p.Name+ext), data, 0o644); err != nil {
				return err
			}
		}
	}
	if err := atomicfile.Write(filepath.Join(dir, tableFile), markdownTable(studyRows(summariesOf(results))), 0o644); err != nil {
		return err
	}
	page, err := renderReport(results, pictures)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, reportFile), page, 0o644)
}

// markdownTable is the study's table for a paper or an issue.
func markdownTable(rows []studyRow) []byte {
	var b bytes.Buffer
	synthetic := false
	for i := range rows {
		synthetic = synthetic || rows[i].Simulated
	}
	if synthetic {
		fmt.Fprintf(&b, "**%s**\n\n", syntheticNote)
	}
	b.WriteString("| Scenario | Load | Throughput (tokens/s) | P99 latency (s) | Remarks |\n|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "| %s | %s | %.1f | %s | %s |\n", strings.ReplaceAll(r.Scenario, "|", "\\|"), r.Load, r.TokensPerS, r.p99(), r.marks())
	}
	return b.Bytes()
}

type reportPage struct {
	Synthetic   bool
	Note        string
	Study       []studyRow
	Runs        []reportRun
	Pictures    []reportPicture
	Definitions []definition
}

type reportRun struct {
	S       *loadgen.Summary
	Load    string
	Tenants []reportTenant
}

type reportTenant struct {
	Label, Classes, Tokens string
	Failures               []string
	M                      *loadgen.Measures
	Rows                   []figureRow
}

type reportPicture struct {
	Caption, Title string
	Source         template.URL
}

type definition struct{ Name, Text string }

func renderReport(results []*loadgen.Result, pictures []picture) ([]byte, error) {
	page := reportPage{Note: syntheticNote, Study: studyRows(summariesOf(results))}
	for _, r := range results {
		s := &r.Summary
		page.Synthetic = page.Synthetic || s.Basis != "measured"
		_, _, load := level(s)
		run := reportRun{S: s, Load: load}
		for i := range s.Tenants {
			t := &s.Tenants[i]
			label := t.Name + ": " + t.Load
			if t.Probe {
				label += " (probe)"
			}
			rt := reportTenant{Label: label, M: &t.Measures, Classes: byClass(t.Counts.ByClass), Tokens: tokensText(&t.Measures), Failures: failureLines(&t.Counts)}
			for _, row := range figureRows(&t.Measures) {
				if row.F.Count > 0 {
					rt.Rows = append(rt.Rows, row)
				}
			}
			run.Tenants = append(run.Tenants, rt)
		}
		page.Runs = append(page.Runs, run)
	}
	for _, p := range pictures {
		// As data the page needs no other file, and ids of two drawings never meet.
		page.Pictures = append(page.Pictures, reportPicture{p.Caption, p.Title, template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(p.SVG))})
	}
	for name, text := range loadgen.Definitions() {
		page.Definitions = append(page.Definitions, definition{name, text})
	}
	sort.Slice(page.Definitions, func(i, j int) bool { return page.Definitions[i].Name < page.Definitions[j].Name })
	t, err := template.New("report").Funcs(template.FuncMap{
		"ms": func(v loadgen.Millis) string {
			if math.IsInf(float64(v), 1) {
				return "∞"
			}
			return fmt.Sprintf("%.2f", float64(v))
		},
		"f1":      func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"percent": func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) },
		"p99":     func(r studyRow) string { return r.p99() },
		"marks":   func(r studyRow) string { return r.marks() },
	}).Parse(reportTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, &page)
	return b.Bytes(), err
}
