// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
)

func printText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// answer prints v as JSON or its text.
func answer(w io.Writer, asJSON bool, v any, text string) error {
	if asJSON {
		return page.JSON(w, v)
	}
	return printText(w, page.Fold(text))
}

// refuse names the given flags that were set although they do not go with others.
func refuse(fl *flag.FlagSet, why string, names ...string) (errs []error) {
	fl.Visit(func(f *flag.Flag) {
		if slices.Contains(names, f.Name) {
			errs = append(errs, fmt.Errorf("-%s: %s", f.Name, why))
		}
	})
	return errs
}

// loadFleet reads the fleet of a file, or of standard input for "-". opts gets its
// name, and the profiles and the predictor of the files that are named.
func loadFleet(file, profiles, predictor string, stdin io.Reader, opts *decision.Options) (
	fleet *decision.Fleet, err error) {
	if file == "-" {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(stdin, 32<<20)); err == nil { // ParseFleet refuses half as much
			fleet, err = decision.ParseFleet(data)
		}
	} else {
		opts.Input = file
		fleet, err = decision.LoadFleet(file)
	}
	if err == nil && predictor != "" {
		opts.Predictor, err = predict.LoadPredictor(predictor)
	}
	if err == nil && profiles != "" {
		opts.Profiles, err = profile.LoadProfiles(profiles)
	}
	return fleet, err
}

// planFleet plans a fleet from its present state, writes the steps' files and the page of the flags, and prints the
// plan.
func (c *decideConfig) planFleet(ctx context.Context, fleet *decision.Fleet, opts decision.Options, std stdio) error {
	plan, err := migrate.Make(ctx, fleet, opts)
	if err != nil {
		return badInput(err)
	}
	if c.out != "" {
		folder, err := manifest.Migration(plan)
		if err == nil {
			err = writeFolder(folder, c.out, "decide", std.err)
		}
		if err != nil {
			return badInput(err)
		}
	}
	if err := page.WriteHTML(c.report, pages.Plan(plan)); err != nil {
		return err
	}
	err = showPlan(plan, c.json, c.long, std)
	if err == nil && c.strict && len(plan.Waits()) > 0 {
		return &exitError{Code: exitNo}
	}
	return err
}

// showPlan prints a plan, in its long form with the reasons for unchanged workloads.
func showPlan(plan *migrate.Plan, asJSON, long bool, std stdio) error {
	if asJSON {
		return page.JSON(std.out, plan)
	}
	width := columns(std.out)
	return plan.WriteText(std.out, width, long)
}

// writeFolder writes a configuration to dir, with its warnings on stderr.
func writeFolder(folder *manifest.Folder, dir, command string, stderr io.Writer) error {
	if err := folder.Write(dir); err != nil {
		if failed := new(fs.PathError); errors.As(err, &failed) {
			return exitWith(exitCannot, err)
		}
		return badInput(err)
	}
	for _, w := range folder.Warnings {
		fmt.Fprintf(stderr, "cotenant %s: note: %s\n", command, w)
	}
	fmt.Fprintf(stderr, "cotenant %s: wrote %d files to %s; read %s/plan.md first\n", command, len(folder.Files), dir,
		dir)
	return nil
}

// refuseReal completes the error of a GPU that cannot be reached.
func refuseReal(err error) error {
	const instead = "without -real the command shows what it does on a simulated GPU"
	return fmt.Errorf("%w\nthis build is %s; %s", err, build(), instead)
}
