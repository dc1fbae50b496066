// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// runBenchWord runs the part of bench that a word after it names.
func runBenchWord(word string, args []string, std stdio) error {
	fl := newCall("bench "+word, args)
	switch word {
	case "table":
		return benchTable(fl, std)
	case "compare":
		return benchCompare(fl, std)
	}
	return badInput(fmt.Errorf("unknown word %q (known: table, compare)", word))
}

// benchRuns reads run directories.
func benchRuns(dirs []string) ([]*loadgen.Result, error) {
	if len(dirs) == 0 {
		return nil, badInput(errors.New("name at least one run directory"))
	}
	results, err := loadgen.LoadResults(dirs...)
	return results, badInput(err)
}

// benchPrint prints a table as text or JSON.
func benchPrint(w io.Writer, asJSON bool, table interface{ WriteText(io.Writer) error }) error {
	if !asJSON {
		return table.WriteText(w)
	}
	return page.JSON(w, table)
}

func benchTable(fl *call, std stdio) error {
	asJSON := fl.Bool("json", false, "JSON instead of text")
	var html string
	page.Report(fl.FlagSet, &html, "write a page with the table, the charts and every run")
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	results, err := benchRuns(fl.Args())
	if err == nil && html != "" {
		err = writeBenchPage(html, results)
	}
	if err != nil {
		return err
	}
	rows := report.ScenariosOf(results)
	if err := benchPrint(std.out, *asJSON, rows); err != nil || *asJSON {
		return err
	}
	fmt.Fprintln(std.out)
	return report.WriteIndex(std.out, results)
}

func benchCompare(fl *call, std stdio) error {
	// The flag package would swallow the "--" between the groups.
	split := slices.Index(fl.args, "--")
	var dirs [2][]string
	if split >= 0 {
		fl.args, dirs[1] = fl.args[:split], fl.args[split+1:]
	}
	figures := fl.String("figures", strings.Join(report.DefaultFigures(), ","), "comma-separated `list` of figures")
	var opts report.CompareOptions
	fl.StringVar(&opts.Tenant, "tenant", "", "compare this tenant instead of the totals")
	fl.Float64Var(&opts.Confidence, "confidence", 0.95, "confidence level of intervals and tests")
	fl.BoolVar(&opts.AllowInvalid, "allow-invalid", false, "accept invalid or incomplete runs, and mark them")
	asJSON := fl.Bool("json", false, "JSON instead of text")
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	if split < 0 {
		return badInput(errors.New("write -- between the two groups"))
	}
	opts.Figures, dirs[0] = strings.Split(*figures, ","), fl.Args()
	var groups [2][]loadgen.Summary
	for i := range dirs {
		results, err := benchRuns(dirs[i])
		if err != nil {
			return err
		}
		for _, r := range results {
			groups[i] = append(groups[i], r.Summary)
		}
	}
	c, err := report.CompareRuns(groups[0], groups[1], opts)
	if err != nil {
		return badInput(err)
	}
	return benchPrint(std.out, *asJSON, c)
}
