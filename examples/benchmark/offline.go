package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// readRuns reads run directories, and the run directories inside of others, in
// the order given and, inside a directory, in that of their time.
func readRuns(dirs []string) ([]*loadgen.Result, error) {
	if len(dirs) == 0 {
		return nil, errors.New("name at least one run directory")
	}
	var l problem.List
	var all []*loadgen.Result
	for _, dir := range dirs {
		found, err := findRuns(dir)
		if err != nil {
			l.AddErr("", err)
			continue
		}
		var here []*loadgen.Result
		for _, d := range found {
			res, err := loadgen.LoadResult(d)
			if err != nil {
				l.AddErr("", err)
				continue
			}
			here = append(here, res)
		}
		slices.SortStableFunc(here, func(a, b *loadgen.Result) int {
			return int(min(max(a.Summary.Window.FromNS-b.Summary.Window.FromNS, -1), 1))
		})
		all = append(all, here...)
	}
	return all, l.Err()
}

// findRuns returns dir if it is a run's, else those of its entries that are.
func findRuns(dir string) ([]string, error) {
	isRun := func(d string) bool {
		_, err := os.Stat(filepath.Join(d, loadgen.ArtifactSummary))
		return err == nil
	}
	if isRun(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); e.IsDir() && isRun(sub) {
			runs = append(runs, sub)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no %s in it, nor in a folder of it", dir, loadgen.ArtifactSummary)
	}
	return runs, nil
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
	writeStudy(a.stdout, studyRows(summariesOf(results)))
	if err := writeReport(dir, results); err != nil {
		return failed("%w", err)
	}
	fmt.Fprintf(a.stdout, "\nreport: %s\n", filepath.Join(dir, reportFile))
	return nil
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
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rc)
	}
	return rc.WriteText(a.stdout)
}

// importCommand puts results of several tools side by side.
func importCommand(_ context.Context, a *app, args []string) error {
	fs := a.flags("import", "[-csv] FILE...", "Results of vLLM, SGLang, guidellm, aiperf and this package in one table, each figure with its own definition.")
	asCSV := fs.Bool("csv", false, "every figure, as CSV")
	asJSON := fs.Bool("json", false, "every figure, as JSON")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("name at least one result file")
	}
	var l problem.List
	var all report.ToolResults
	for _, file := range fs.Args() {
		f, err := os.Open(file)
		if err != nil {
			l.AddErr("", err)
			continue
		}
		results, err := report.ReadResults(filepath.Base(file), f)
		l.AddErr("", errors.Join(err, f.Close()))
		all = append(all, results...)
	}
	if err := l.Err(); err != nil {
		return err
	}
	switch {
	case *asCSV:
		return all.WriteCSV(a.stdout)
	case *asJSON:
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	return all.WriteText(a.stdout)
}
