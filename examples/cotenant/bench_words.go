package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// runBenchWord runs the part of bench that a word after it names.
func runBenchWord(word string, args []string, std stdio) error {
	words := map[string]func(*flag.FlagSet, []string, stdio) error{
		"report": benchReport, "table": benchTable, "compare": benchCompare,
		"job": benchJob, "merge": benchMerge,
	}
	if words[word] == nil {
		return badInput(fmt.Errorf("unknown word %q (known: report, table, compare, job, merge)", word))
	}
	return words[word](flagSet("bench "+word), args, std)
}

// benchParse reads the flags of a word, and the runs that its usage takes.
func benchParse(fl *flag.FlagSet, args []string, usage string, std stdio) ([]*loadgen.Result, error) {
	usage = "usage: cotenant bench " + usage + "\n"
	if err := parse(fl, args, usage, math.MaxInt, std); err != nil || !strings.Contains(usage, "RUN") {
		return nil, err
	}
	return benchRuns(fl.Args())
}

// benchRuns reads run directories.
func benchRuns(dirs []string) ([]*loadgen.Result, error) {
	if len(dirs) == 0 {
		return nil, badInput(errors.New("name at least one run directory"))
	}
	results, err := loadgen.LoadResults(dirs...)
	return results, badInput(err)
}

// benchPrint prints a table, as JSON if asked for.
func benchPrint(w io.Writer, asJSON bool, table interface{ WriteText(io.Writer) error }) error {
	if !asJSON {
		return table.WriteText(w)
	}
	return page.JSON(w, table)
}

func benchReport(fl *flag.FlagSet, args []string, std stdio) error {
	out := fl.String("out", "", "`DIR` to write into (default: the first RUN)")
	const usage = "report [-out DIR] RUN...\n\nTable, and one page of HTML with charts."
	results, err := benchParse(fl, args, usage, std)
	if err != nil {
		return err
	}
	at, err := writeBenchPage(cmp.Or(*out, fl.Arg(0)), results)
	if err = errors.Join(err, report.ScenariosOf(results).WriteText(std.out)); err == nil {
		_, err = fmt.Fprintf(std.out, "\nreport: %s\n", at)
	}
	return err
}

func benchTable(fl *flag.FlagSet, args []string, std stdio) error {
	asJSON := fl.Bool("json", false, "JSON instead of text")
	const usage = "table [-json] RUN...\n\nThe LLM-serving table of runs, or of directories of them."
	results, err := benchParse(fl, args, usage, std)
	if err != nil {
		return err
	}
	return benchPrint(std.out, *asJSON, report.ScenariosOf(results))
}

func benchCompare(fl *flag.FlagSet, args []string, std stdio) error {
	// The flag package would swallow the "--" between the groups.
	split := slices.Index(args, "--")
	var dirs [2][]string
	if split >= 0 {
		args, dirs[1] = args[:split], args[split+1:]
	}
	figures := fl.String("figures", strings.Join(report.DefaultFigures(), ","), "comma-separated `list` of figures")
	var opts report.CompareOptions
	fl.StringVar(&opts.Tenant, "tenant", "", "compare this tenant instead of the totals")
	fl.Float64Var(&opts.Confidence, "confidence", 0.95, "of the intervals; 1 minus it is the tests' level")
	fl.BoolVar(&opts.AllowInvalid, "allow-invalid", false, "take runs that are invalid or incomplete, and say so")
	asJSON := fl.Bool("json", false, "JSON instead of text")
	const usage = "compare [flags] BASE... -- OTHER...\n\nCompares two groups of repeated runs, a run being one value."
	if _, err := benchParse(fl, args, usage, std); err != nil {
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

func benchMerge(fl *flag.FlagSet, args []string, std stdio) error {
	out := fl.String("out", "", "`DIR` for the merged run; must not exist or must be empty")
	const usage = "merge -out DIR RUN...\n\nMerges the runs of several workers into one: counts add, histograms merge."
	results, err := benchParse(fl, args, usage, std)
	if err == nil && *out == "" {
		err = badInput(errors.New("-out: missing (name the directory to write into)"))
	}
	if err != nil {
		return err
	}
	merged, err := loadgen.Merge(results...)
	if err != nil {
		return badInput(err)
	}
	if err := errors.Join(loadgen.SaveResult(*out, merged), report.WriteSummary(std.out, &merged.Summary)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "\n%d workers merged into %s\n", merged.Summary.Workers, *out)
	return err
}

func benchJob(fl *flag.FlagSet, args []string, std stdio) error {
	var j loadgen.Job
	fl.StringVar(&j.Name, "name", "", "of the Job")
	fl.StringVar(&j.Namespace, "namespace", "", "of the Job; empty leaves it to kubectl")
	fl.StringVar(&j.Image, "image", "", "container `IMAGE` whose entry point is this program")
	fl.IntVar(&j.Workers, "workers", 0, "pods that share the load")
	fl.StringVar(&j.StartAt, "start-at", "", "`TIME` at which all start, e.g. 2026-01-02T15:04:05Z")
	fl.StringVar(&j.SecretName, "secret", "", "Secret whose key api-key is the endpoint's API key")
	fl.StringVar(&j.ClaimName, "claim", "", "PersistentVolumeClaim for the runs; without it they are lost with the pods")
	fl.StringVar(&j.CPU, "cpu", "", "of each pod; 2 by default")
	fl.StringVar(&j.Memory, "memory", "", "of each pod; 512Mi by default")
	const usage = "job -name NAME -image IMAGE -workers N [flags] -- FLAGS...\n\n" +
		"Writes an indexed Kubernetes Job: each pod makes its share of what bench FLAGS runs, see merge."
	if _, err := benchParse(fl, args, usage, std); err != nil {
		return err
	}
	runs := flagSet("bench")
	c := benchFlags(runs)
	if err := parse(runs, fl.Args(), benchUsage, 0, std); err != nil {
		return err
	}
	err := errors.Join(c.Apply(), c.OneRun())
	if c.Dir != "" {
		err = errors.Join(err, errors.New("-out is the job's to set: leave it out"))
	}
	text := strings.Join(fl.Args(), "\n")
	if plan, _ := c.File.Plan(make([]loadgen.Endpoint, 1)); plan.Redact(text) != text {
		err = errors.Join(err, errors.New("a credential would stand in the manifest (put it into a Secret, see -secret)"))
	}
	if err != nil {
		return badInput(fmt.Errorf("run flags: %w", err))
	}
	j.Args = append(append([]string{"bench"}, fl.Args()...), "-progress=false", "-out", "/runs")
	return badInput(j.WriteYAML(std.out))
}
