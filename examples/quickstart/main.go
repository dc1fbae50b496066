// Quickstart decides how a fleet of workloads shares its GPUs: which mechanism
// each gets, why, what will bite, what it costs before and after, and with
// -out the configuration to apply. It needs no GPU.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -input fleet.yaml -format json
//	go run ./examples/quickstart -input fleet.yaml -out plan/
//
// To run what it decides, and what it decides against, on simulated GPUs:
//
//	go run ./examples/measure -input fleet.yaml
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/predict"
)

//go:embed fleet.yaml
var embedded []byte

const (
	exitOK       = 0
	exitUnplaced = 1 // with -strict
	exitBadInput = 2
)

const usage = `Decides how workloads share GPUs, explains it, and writes the configuration.

usage: quickstart [-input FILE] [-format text|json] [-out DIR] [-strict]

exit: 0 decided, 1 with -strict and a workload that fits nowhere, 2 bad input

`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported below
	input := fs.String("input", "", "fleet `FILE` (YAML or JSON), - for standard input; without it an example fleet")
	format := fs.String("format", "text", "text or json")
	out := fs.String("out", "", "`DIR` to write the configuration and plan.md to; it must not exist, or be empty")
	profiles := fs.String("profiles", "", "`FILE` of workloads measured alone: profiles, or rows in the co-location format; those that the fleet names are predicted")
	predictor := fs.String("predictor", "", "`FILE` of a fitted predictor, as examples/predict -save writes it")
	strict := fs.Bool("strict", false, "exit 1 when a workload fits nowhere")
	all := fs.Bool("all", false, "text: show every rejected candidate, not one line a mechanism")
	schema := fs.Bool("schema", false, "print the JSON Schema of a fleet file and exit")
	measure := fs.Bool("measure", false, "has become a program: go run ./examples/measure -input FILE")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return exitOK
	case err != nil:
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; name the file with -input", fs.Arg(0))
	case *measure:
		err = errors.New("-measure has become a program: go run ./examples/measure -input FILE")
	case *format != "text" && *format != "json":
		err = fmt.Errorf("-format %q: use text or json", *format)
	case *schema:
		_, err = stdout.Write(decision.Schema())
		return exit(stderr, err)
	}
	if err != nil {
		return exit(stderr, err)
	}

	fleet, err := load(*input, stdin)
	if err != nil {
		return exit(stderr, err)
	}
	opts, err := evidence(*profiles, *predictor)
	if err != nil {
		return exit(stderr, err)
	}
	result, err := decision.Decide(fleet, opts)
	if err != nil {
		return exit(stderr, err)
	}
	if *out != "" {
		folder, err := manifest.Build(fleet, result, manifest.Options{})
		if err != nil {
			return exit(stderr, err)
		}
		if err := folder.Write(*out); err != nil {
			return exit(stderr, err)
		}
		for _, w := range folder.Warnings {
			fmt.Fprintf(stderr, "quickstart: note: %s\n", w)
		}
		fmt.Fprintf(stderr, "quickstart: wrote %d files to %s; read %s/plan.md first\n", len(folder.Files), *out, *out)
	}
	if *format == "json" {
		err = result.WriteJSON(stdout)
	} else {
		err = result.WriteText(stdout, decision.TextOptions{All: *all, Rest: "-format json has all"})
	}
	if err == nil && *strict && result.Totals.Unplaced > 0 {
		return exitUnplaced
	}
	return exit(stderr, err)
}

// exit reports the error, if there is one, a line for each problem.
func exit(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "quickstart: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nquickstart: "))
	return exitBadInput
}

func load(path string, stdin io.Reader) (*decision.Fleet, error) {
	switch path {
	case "":
		return decision.ParseFleet(embedded)
	case "-":
		return decision.ReadFleet(stdin)
	}
	return decision.LoadFleet(path)
}

// evidence reads the profiles and the predictor, where they are given.
func evidence(profiles, predictor string) (opts decision.Options, err error) {
	if predictor != "" {
		if profiles == "" {
			return opts, errors.New("-predictor needs -profiles")
		}
		if opts.Predictor, err = predict.LoadPredictor(predictor); err != nil {
			return opts, err
		}
	}
	if profiles != "" {
		opts.Profiles, err = predict.LoadProfiles(profiles)
	}
	return opts, err
}
