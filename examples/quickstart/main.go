// Quickstart decides how a fleet of workloads shares its GPUs: what it costs before and after, which mechanism each
// workload gets, why, and what can bite. It needs no GPU and no cgo. The program to work with is examples/cotenant.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -fleet fleet.yaml -json
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/examples/internal/page"
)

//go:embed fleet.yaml
var embedded []byte

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 0 answered, 2 bad input, 5 the answer could not be written.
func run(args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("quickstart", stdout, stderr)
	defer done(&code)
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error is reported below
	file := flags.String("fleet", "", "fleet `FILE` (YAML or JSON); without it an example fleet")
	asJSON := flags.Bool("json", false, "print JSON")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, "Decides how workloads share GPUs. cotenant decide has more to ask.\n\n", page.Flags(flags))
		return 0
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; name the file with -fleet", flags.Arg(0))
	}
	if err == nil {
		err = decide(*file, *asJSON, stdout)
	}
	if err != nil {
		page.Fail("quickstart", stderr, err)
		return 2
	}
	return 0
}

func decide(file string, asJSON bool, stdout io.Writer) error {
	fleet, err := decision.ParseFleet(embedded)
	if file != "" {
		fleet, err = decision.LoadFleet(file)
	}
	if err != nil {
		return err
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{Input: file})
	if err != nil {
		return err
	}
	if asJSON {
		return result.WriteJSON(stdout)
	}
	return result.WriteText(stdout, decision.TextOptions{More: "cotenant decide -explain WORKLOAD, -why ID, -json"})
}
