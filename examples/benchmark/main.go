// Command benchmark puts load on OpenAI-compatible LLM endpoints and shows what
// each tenant gets: single runs, sweeps over concurrency or rate, several tenants
// at once, searches for the highest rate that keeps the SLOs, tables, figures and
// a page of HTML.
//
// Without arguments it measures two tenants side by side under five ways of having
// GPUs, on embedded servers and simulated GPUs, and reports them, marked as
// synthetic. It needs no GPU.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/telemetry"
)

// The exit codes.
const (
	exitOK      = 0 // the run completed
	exitFailed  = 1 // nothing succeeded, or the run was cut off
	exitBad     = 2 // bad input: nothing was sent
	exitInvalid = 3 // the client spoiled the run
	exitMissed  = 4 // a condition of -fail-if holds, or is unknown
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a pause of the collector is one of the measurement
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// command is a subcommand; the one without a name measures.
type command struct {
	name, args, about string
	run               func(ctx context.Context, a *app, args []string) error
}

func commands() []command {
	return []command{
		{"", "[flags]", "measure an endpoint, or the embedded server", measureCommand},
		{"report", "[-out DIR] RUN...", "table, figures and HTML from run directories", reportCommand},
		{"table", "[-json] RUN...", "the table alone: scenario, concurrency, tokens/s, P99", tableCommand},
		{"compare", "[-figures LIST] BASE... -- OTHER...", "two groups of repeated runs, with confidence intervals and Mann-Whitney", compareCommand},
		{"job", "-name NAME -image IMAGE -workers N [flags] -- RUN FLAGS...", "a Kubernetes Job that makes one run from several machines", jobCommand},
		{"merge", "-out DIR RUN...", "the runs of several workers as one", mergeCommand},
		{"import", "[-csv] FILE...", "results of vLLM, SGLang, guidellm, aiperf, genai-perf, llmperf, inference-perf and this package in one table", importCommand},
	}
}

// app is where a command reads and writes.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	health         loadgen.HealthLimits // the zero value but in tests
	help           bytes.Buffer         // of the command whose flags were read; shown for -h alone
	// openGPUs opens what -telemetry samples.
	openGPUs func() (src telemetry.Reader, closeSource func() error, err error)
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func failed(format string, args ...any) error {
	return &exitError{exitFailed, fmt.Errorf(format, args...)}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr, openGPUs: openNVML}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) (code int) {
	stdout, done := page.Check("benchmark", a.stdout, a.stderr)
	a.stdout = stdout
	defer done(&code)
	cmd, rest := commands()[0], args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		found := false
		for _, c := range commands()[1:] {
			if c.name == args[0] {
				cmd, rest, found = c, args[1:], true
			}
		}
		if !found {
			fmt.Fprintf(a.stderr, "benchmark: unknown command %q (known: report, table, compare, job, merge, import)\nRun with -h for help.\n", args[0])
			return exitBad
		}
	}
	err := cmd.run(ctx, a, rest)
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(a.stdout, page.Fold(a.help.String()))
		return exitOK
	case errors.As(err, &exit):
		fmt.Fprintf(a.stderr, "benchmark: %v\n", exit)
		return exit.code
	}
	fmt.Fprintf(a.stderr, "benchmark: %s\nRun with -h for help.\n", strings.TrimPrefix(err.Error(), "benchmark: "))
	return exitBad
}

// flags returns a flag set that prints nothing: its errors are returned, and its
// help is kept for -h.
func (a *app) flags(name, args, about string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {
		w := &a.help
		fmt.Fprintf(w, "%s\n\n  benchmark %s\n", about, strings.TrimSpace(name+" "+args))
		if name == "" {
			fmt.Fprint(w, "\n"+exampleHelp)
			fmt.Fprintln(w, "\nFurther commands (each has -h):")
			for _, c := range commands()[1:] {
				fmt.Fprintf(w, "  benchmark %s %s\n        %s\n", c.name, c.args, c.about)
			}
			fmt.Fprint(w, exitHelp)
		}
		fmt.Fprintln(w, "\nFlags:")
		fmt.Fprint(w, page.Flags(fs))
	}
	return fs
}

const exampleHelp = `Without flags it measures two tenants side by side, each on a GPU of its own, by
time-slicing, MPS, MIG and in one merged server, all simulated, and writes a
report; that takes about 25 s and needs no GPU. Other examples:

  benchmark -endpoint http://HOST:8000 -model NAME -concurrency 20 -requests 200 -out DIR
  benchmark -endpoint http://HOST:8000 -model NAME -rate 5,10,15 -duration 30s -report -out DIR
  benchmark -endpoint http://HOST:8000 -model NAME -search 1,50 -slo-ttft 500ms -duration 30s
  benchmark -plan examples/benchmark/testdata/plan.yaml -study
`

const exitHelp = `
Exit codes: 0 the run completed; 3 it is invalid by client health (see
summary.json); 4 a condition of -fail-if holds; 2 bad input; 1 nothing succeeded
or the run was cut off.
`
