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
	result, err := decision.Decide(fleet, decision.Options{})
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

func unplaced(r *decision.Result) bool {
	for _, d := range r.Decisions {
		if d.Mechanism == sharing.None {
			return true
		}
	}
	return false
}
