// Quickstart decides how a fleet of workloads shares its GPUs: what it costs
// before and after, which mechanism each workload gets, why, what can bite, and
// with -out the configuration to apply. It needs no GPU.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -explain chat
//	go run ./examples/quickstart -why mps-fault-spreads
//	go run ./examples/quickstart -input fleet.yaml -format json
//	go run ./examples/quickstart -input fleet.yaml -out plan/
//
// To run what it decides, and what it decides against, on simulated GPUs:
//
//	go run ./examples/measure -input fleet.yaml
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/examples/internal/page"
	"golang.org/x/term"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/predict"
)

//go:embed fleet.yaml
var embedded []byte

const (
	exitOK       = 0
	exitFailed   = 1 // the answer could not be written
	exitUnplaced = 1 // with -strict: none, or in part
	exitBadInput = 2
)

const usage = `Decides how workloads share GPUs, explains it, and writes the configuration.

usage: quickstart [-input FILE] [-format text|json] [-out DIR] [-confidence C] [-strict]
       quickstart [-input FILE] -explain WORKLOAD
       quickstart [-input FILE] -why ID

The text wraps to the terminal's width ($COLUMNS, where it is set, and 100 columns
where there is no terminal). It is coloured on a terminal, unless NO_COLOR is set.

exit: 0 answered, also where a workload is placed in part or not at all; 1 that,
with -strict, or the answer could not be written; 2 bad input

`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("quickstart", stdout, stderr)
	defer done(&code)
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported below
	input := flags.String("input", "", "fleet `FILE` (YAML or JSON), - for standard input; without it an example fleet")
	format := flags.String("format", "text", "text or json")
	out := flags.String("out", "", "`DIR` to write the configuration and plan.md to; it must not exist, or be empty")
	profiles := flags.String("profiles", "", "`FILE` of workloads measured alone: profiles, or rows in the co-location format; those that the fleet names are predicted")
	predictor := flags.String("predictor", "", "`FILE` of a fitted predictor, as examples/predict -save writes it")
	confidence := flags.Float64("confidence", decision.DefaultConfidence, "how sure decisions must be that objectives are kept, 0.5 to 0.999")
	strict := flags.Bool("strict", false, "exit 1 when a workload is placed in part or not at all")
	explain := flags.String("explain", "", "text: show everything about one `WORKLOAD`, every candidate and its reasons")
	why := flags.String("why", "", "text: show the trap or the source of this `ID` in full")
	schema := flags.Bool("schema", false, "print the JSON Schema of a fleet file and exit")
	measure := flags.Bool("measure", false, "has become a program: go run ./examples/measure -input FILE")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fmt.Fprint(stdout, page.Flags(flags))
		return exitOK
	case err != nil:
		err = fmt.Errorf("%w (see -h)", err)
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; name the file with -input", flags.Arg(0))
	case *measure:
		err = errors.New("-measure has become a program: go run ./examples/measure -input FILE")
	case *format != "text" && *format != "json":
		err = fmt.Errorf("-format %q: use text or json", *format)
	case *format == "json" && (*explain != "" || *why != ""):
		err = errors.New("-explain and -why are text; -format json has everything about every workload")
	case *explain != "" && *why != "":
		err = errors.New("-explain and -why are one question each; ask them one after the other")
	case !(*confidence >= 0.5 && *confidence <= 0.999):
		err = fmt.Errorf("-confidence %v: use 0.5 to 0.999", *confidence)
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
	opts.Confidence, opts.Input = *confidence, *input
	switch *input {
	case "":
		opts.Input = "examples/quickstart/fleet.yaml"
	case "-":
		opts.Input = ""
	}
	result, err := decision.Decide(fleet, opts)
	if err != nil {
		return exit(stderr, err)
	}
	var text bytes.Buffer
	if *format == "text" {
		show := decision.TextOptions{Explain: *explain, Why: *why, More: "-explain WORKLOAD, -why ID, -format json"}
		show.Width, show.Color = screen(stdout)
		if err := result.WriteText(&text, show); err != nil {
			return exit(stderr, err)
		}
	}
	if *out != "" {
		folder, err := manifest.Build(fleet, result, manifest.Options{})
		if err != nil {
			return exit(stderr, err)
		}
		if err := folder.Write(*out); err != nil {
			code := exit(stderr, err)
			if failed := new(fs.PathError); errors.As(err, &failed) {
				code = exitFailed
			}
			return code
		}
		for _, w := range folder.Warnings {
			fmt.Fprintf(stderr, "quickstart: note: %s\n", w)
		}
		fmt.Fprintf(stderr, "quickstart: wrote %d files to %s; read %s/plan.md first\n", len(folder.Files), *out, *out)
	}
	if *format == "json" {
		err = result.WriteJSON(stdout)
	} else {
		_, err = text.WriteTo(stdout)
	}
	if err == nil && *strict && slices.ContainsFunc(result.Decisions, func(d decision.Decision) bool { return d.Unplaced > 0 }) {
		return exitUnplaced
	}
	return exit(stderr, err)
}

// screen is how wide the output is, and whether it has colours.
func screen(stdout io.Writer) (width int, color bool) {
	if file, ok := stdout.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		width, _, _ = term.GetSize(int(file.Fd())) // 0 where it cannot be told
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return width, color
}

// exit reports the error, if there is one, a line for each problem.
func exit(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	page.Fail("quickstart", stderr, err)
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
