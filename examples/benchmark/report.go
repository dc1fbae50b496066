package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

const (
	reportFile = "report.html"
	figuresDir = "figures"
	tableFile  = "table.md"
)

// writeReport writes table.md, figures/*.svg and *.png and report.html into dir.
func writeReport(dir string, results []*loadgen.Result) error {
	pictures, err := drawAll(results)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, figuresDir), 0o755); err != nil {
		return err
	}
	write := func(name string, data []byte) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	var onPage []report.Picture
	for _, p := range pictures {
		write(filepath.Join(figuresDir, p.Name+".svg"), p.SVG)
		write(filepath.Join(figuresDir, p.Name+".png"), p.png)
		onPage = append(onPage, p.Picture)
	}
	var table, page bytes.Buffer
	if err := errors.Join(report.ScenariosOf(results).WriteMarkdown(&table), report.WriteHTML(&page, results, onPage)); err != nil {
		return err
	}
	write(tableFile, table.Bytes())
	write(reportFile, page.Bytes())
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// readRuns reads the run directories that a command names.
func readRuns(dirs []string) ([]*loadgen.Result, error) {
	if len(dirs) == 0 {
		return nil, errors.New("name at least one run directory")
	}
	return loadgen.LoadResults(dirs...)
}

// reportCommand draws the report of runs made before.
func reportCommand(_ context.Context, a *app, args []string) error {
	fs := a.flags("report", "[-out DIR] RUN...", "Table, figures (SVG and PNG) and one page of HTML from run directories.")
	out := fs.String("out", "", "`DIR` to write into (default: the first RUN)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	results, err := readRuns(fs.Args())
	if err != nil {
		return err
	}
	dir := *out
	if dir == "" {
		dir = fs.Arg(0)
	}
	if err := errors.Join(report.ScenariosOf(results).WriteText(a.stdout), writeReport(dir, results)); err != nil {
		return failed("%w", err)
	}
	fmt.Fprintf(a.stdout, "\nreport: %s\n", filepath.Join(dir, reportFile))
	return nil
}

// tableCommand prints the table of run directories.
func tableCommand(_ context.Context, a *app, args []string) error {
	fs := a.flags("table", "[-json] RUN...", "The LLM-serving table from run directories, or from directories of them.")
	asJSON := fs.Bool("json", false, "JSON instead of text")
	if err := fs.Parse(args); err != nil {
		return err
	}
	results, err := readRuns(fs.Args())
	if err != nil {
		return err
	}
	rows := report.ScenariosOf(results)
	if *asJSON {
		return writeJSON(a.stdout, rows)
	}
	return rows.WriteText(a.stdout)
}

// compareCommand compares two groups of runs.
func compareCommand(_ context.Context, a *app, args []string) error {
	// The flag package would swallow the "--" between the groups.
	split := slices.Index(args, "--")
	var other []string
	if split >= 0 {
		args, other = args[:split], args[split+1:]
	}
	fs := a.flags("compare", "[flags] BASE... -- OTHER...", "Compare two groups of repeated runs, a run being one value.")
	figures := fs.String("figures", strings.Join(report.DefaultFigures(), ","), "comma-separated `list` of figures")
	tenant := fs.String("tenant", "", "compare this tenant instead of the totals")
	confidence := fs.Float64("confidence", 0.95, "of the intervals; 1 minus it is the tests' level")
	allow := fs.Bool("allow-invalid", false, "take runs that are invalid or incomplete, and say so")
	asJSON := fs.Bool("json", false, "JSON instead of text")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if split < 0 {
		return errors.New("write -- between the two groups")
	}
	groups := [2][]loadgen.Summary{}
	for i, dirs := range [][]string{fs.Args(), other} {
		results, err := readRuns(dirs)
		if err != nil {
			return fmt.Errorf("%s: %w", []string{"base", "other"}[i], err)
		}
		for _, r := range results {
			groups[i] = append(groups[i], r.Summary)
		}
	}
	rc, err := report.CompareRuns(groups[0], groups[1], report.CompareOptions{
		Figures: strings.Split(*figures, ","), Tenant: *tenant, Confidence: *confidence, AllowInvalid: *allow,
	})
	if err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(a.stdout, rc)
	}
	return rc.WriteText(a.stdout)
}

// importCommand puts results of several tools side by side.
func importCommand(_ context.Context, a *app, args []string) error {
	fs := a.flags("import", "[-csv] FILE...", "Results of vLLM, SGLang, guidellm, aiperf, genai-perf, llmperf, inference-perf and this package in one table, each figure with its own definition.")
	asCSV := fs.Bool("csv", false, "every figure, as CSV")
	asJSON := fs.Bool("json", false, "every figure, as JSON")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("name at least one result file")
	}
	var errs []error
	var all report.ToolResults
	for _, file := range fs.Args() {
		f, err := os.Open(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		results, err := report.ReadResults(filepath.Base(file), f)
		errs = append(errs, err, f.Close())
		all = append(all, results...)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	switch {
	case *asCSV:
		return all.WriteCSV(a.stdout)
	case *asJSON:
		return writeJSON(a.stdout, all)
	}
	return all.WriteText(a.stdout)
}
