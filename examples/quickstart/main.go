// Quickstart decides how a fleet of workloads shares its GPUs: which mechanism
// each gets, why, what will bite, what it costs before and after, and with
// -out the configuration to apply. It needs no GPU.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -input fleet.yaml -format json
//	go run ./examples/quickstart -input fleet.yaml -out plan/
//
// With -measure it then runs what it decided, and what it decided against, on
// simulated GPUs, and shows what came beside what was expected:
//
//	go run ./examples/quickstart -measure
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed fleet.yaml
var embedded []byte

const (
	exitOK       = 0
	exitUnplaced = 1 // with -strict
	exitStopped  = 1 // -measure did not end
	exitBadInput = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// app is the program with its doors to the world.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	// For tests; see measureOptions.
	simulatedTime bool
	quantum       time.Duration
}

func (a *app) run(ctx context.Context, args []string) int {
	stdin, stdout, stderr := a.stdin, a.stdout, a.stderr
	fs := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	fs.SetOutput(stderr)
	input := fs.String("input", "", "fleet `FILE` (YAML or JSON), - for standard input; without it an example fleet")
	format := fs.String("format", "text", "text or json")
	out := fs.String("out", "", "`DIR` to write the configuration and plan.md to; it must not exist, or be empty")
	profiles := fs.String("profiles", "", "`FILE` of workloads measured alone: profiles, or rows in the co-location format; those that the fleet names are predicted")
	predictor := fs.String("predictor", "", "`FILE` of a fitted predictor, as examples/predict -save writes it")
	strict := fs.Bool("strict", false, "exit 1 when a workload fits nowhere")
	all := fs.Bool("all", false, "text: show every rejected candidate, not one line a mechanism")
	schema := fs.Bool("schema", false, "print the JSON Schema of a fleet file and exit")
	measuring := fs.Bool("measure", false, "then run the mechanisms on simulated GPUs and show measured beside expected; artifacts go to DIR/simulated")
	mo := measureOptions{simulatedTime: a.simulatedTime, quantum: a.quantum}
	fs.Float64Var(&mo.seconds, "seconds", defaultSeconds, "with -measure: length of each run")
	fs.Uint64Var(&mo.seed, "seed", 1, "with -measure: of arrivals, prompts and kernel lengths")
	fs.Func("mechanisms", "with -measure: comma-separated `LIST` (default exclusive, time-slicing, mps, mig and those recommended)", mo.parseMechanisms)
	fs.Usage = func() {
		fmt.Fprint(stderr, `Decides how workloads share GPUs, explains it, and writes the configuration.

usage: quickstart [-input FILE] [-format text|json] [-out DIR] [-strict]
       quickstart -measure [-seconds N] [-seed N] [-mechanisms LIST] [...]

`)
		fs.PrintDefaults()
		fmt.Fprint(stderr, "\nexit: 0 decided, 1 with -strict and a workload that fits nowhere, or -measure interrupted or failed, 2 bad input\n")
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitBadInput
	}
	bad := func(err error) int {
		fmt.Fprintf(stderr, "quickstart: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nquickstart: "))
		return exitBadInput
	}
	if fs.NArg() > 0 {
		return bad(fmt.Errorf("unexpected argument %q; name the file with -input", fs.Arg(0)))
	}
	if *format != "text" && *format != "json" {
		return bad(fmt.Errorf("-format %q: use text or json", *format))
	}
	if err := mo.check(fs, *measuring); err != nil {
		return bad(err)
	}
	if *schema {
		if _, err := stdout.Write(decision.Schema()); err != nil {
			return bad(err)
		}
		return exitOK
	}
	fleet, err := load(*input, stdin)
	if err != nil {
		return bad(err)
	}
	opt, err := evidence(*profiles, *predictor)
	if err != nil {
		return bad(err)
	}
	result, err := decision.Decide(fleet, opt)
	if err != nil {
		return bad(err)
	}
	if *out != "" {
		folder, err := manifest.Build(fleet, result, manifest.Options{})
		if err != nil {
			return bad(err)
		}
		if err := folder.Write(*out); err != nil {
			return bad(err)
		}
		for _, w := range folder.Warnings {
			fmt.Fprintf(stderr, "quickstart: note: %s\n", w)
		}
		fmt.Fprintf(stderr, "quickstart: wrote %d files to %s; read %s/plan.md first\n", len(folder.Files), *out, *out)
	}
	if *format == "text" {
		if err := writeText(stdout, result, *all); err != nil {
			return bad(err)
		}
	}
	code := exitOK
	var found *measured
	if *measuring {
		if *out != "" {
			mo.dir = filepath.Join(*out, "simulated")
		}
		found, err = measure(ctx, stderr, fleet, opt, result, mo)
		if err != nil {
			bad(err)
			code = exitStopped
		}
		if found != nil && *format == "text" {
			err = writeMeasured(stdout, found)
		}
	}
	if *format == "json" {
		err = writeJSON(stdout, result, found)
	}
	if err != nil && code == exitOK {
		return bad(err)
	}
	if *strict && unplaced(result) {
		return exitUnplaced
	}
	return code
}

// writeJSON writes the result, and beside its fields what was measured.
func writeJSON(w io.Writer, result *decision.Result, found *measured) error {
	if found == nil {
		return result.WriteJSON(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		*decision.Result
		Simulated *measured `json:"simulated"`
	}{result, found})
}

func load(path string, stdin io.Reader) (*decision.Fleet, error) {
	switch path {
	case "":
		return decision.ParseFleet(embedded)
	case "-":
		return decision.ReadFleet(stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decision.ReadFleet(f)
}

// evidence reads the profiles and the predictor, where they are given.
func evidence(profiles, predictor string) (decision.Options, error) {
	var opt decision.Options
	if predictor != "" {
		if profiles == "" {
			return opt, errors.New("-predictor needs -profiles")
		}
		data, err := os.ReadFile(predictor)
		if err != nil {
			return opt, err
		}
		if opt.Predictor, err = decision.ParsePredictor(data); err != nil {
			return opt, fmt.Errorf("%s: %w", predictor, err)
		}
	}
	if profiles == "" {
		return opt, nil
	}
	data, err := os.ReadFile(profiles)
	if err != nil {
		return opt, err
	}
	list, err := decision.ParseProfiles(data)
	if err != nil {
		rows, rowsErr := decision.ParseRows(data)
		if rowsErr != nil {
			return opt, fmt.Errorf("%s: neither profiles nor co-location rows: %w", profiles, rowsErr)
		}
		if list, err = rows.Profiles(); err != nil {
			return opt, fmt.Errorf("%s: %w", profiles, err)
		}
	}
	opt.Profiles = &decision.Profiles{}
	if err := opt.Profiles.Add(list...); err != nil {
		return opt, fmt.Errorf("%s: %w", profiles, err)
	}
	return opt, nil
}

func unplaced(r *decision.Result) bool {
	for _, d := range r.Decisions {
		if d.Mechanism == sharing.MechanismNone {
			return true
		}
	}
	return false
}
