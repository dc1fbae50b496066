// Quickstart decides how a fleet of workloads shares its GPUs: which mechanism
// each gets, why, what will bite, what it costs before and after, and with
// -out the configuration to apply. It needs no GPU.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -input fleet.yaml -format json
//	go run ./examples/quickstart -input fleet.yaml -out plan/
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
	"github.com/cotenant/cotenant/sharing"
)

//go:embed fleet.yaml
var embedded []byte

const (
	exitOK       = 0
	exitUnplaced = 1 // with -strict
	exitBadInput = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
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
	fs.Usage = func() {
		fmt.Fprint(stderr, `Decides how workloads share GPUs, explains it, and writes the configuration.

usage: quickstart [-input FILE] [-format text|json] [-out DIR] [-strict]

`)
		fs.PrintDefaults()
		fmt.Fprint(stderr, "\nexit: 0 decided, 1 with -strict and a workload that fits nowhere, 2 bad input\n")
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
		files, warnings, err := manifest.ForResult(fleet, result, manifest.Options{})
		if err != nil {
			return bad(err)
		}
		if err := manifest.WriteDir(*out, files); err != nil {
			return bad(err)
		}
		for _, w := range warnings {
			fmt.Fprintf(stderr, "quickstart: note: %s\n", w)
		}
		fmt.Fprintf(stderr, "quickstart: wrote %d files to %s; read %s/plan.md first\n", len(files), *out, *out)
	}
	if *format == "json" {
		err = result.WriteJSON(stdout)
	} else {
		err = writeText(stdout, result, *all)
	}
	if err != nil {
		return bad(err)
	}
	if *strict && unplaced(result) {
		return exitUnplaced
	}
	return exitOK
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
		if d.Mechanism == sharing.None {
			return true
		}
	}
	return false
}
