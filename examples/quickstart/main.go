// SPDX-License-Identifier: Apache-2.0

// Quickstart decides how a fleet of workloads shares its GPUs: the cost before and after, the mechanism of each
// workload with the reason, and risks. It needs no GPU and no cgo. The program to work with is examples/cotenant.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -fleet fleet.yaml -json
package main

import (
	"context"
	_ "embed"
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
func run(args []string, stdout, stderr io.Writer) int {
	return page.Run(context.Background(), "quickstart", stdout, stderr, func(stdout io.Writer) error {
		flags := page.FlagSet("quickstart")
		file := flags.String("fleet", "", "fleet `FILE` (YAML or JSON); without it an example fleet")
		asJSON := flags.Bool("json", false, "print JSON")
		const usage = "Decides how workloads share GPUs. cotenant decide has more to ask.\n\n"
		if err := page.Parse(flags, args, usage, 1, stdout); err != nil {
			return err
		}
		if flags.NArg() > 0 {
			return page.BadInput(fmt.Errorf("unexpected argument %q; name the file with -fleet", flags.Arg(0)))
		}
		return page.BadInput(decide(*file, *asJSON, stdout))
	})
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
		return page.JSON(stdout, result)
	}
	return result.WriteText(stdout, decision.TextOptions{More: "cotenant decide -explain WORKLOAD, -json"})
}
