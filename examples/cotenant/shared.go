// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
)

// The exit codes of every command.
const (
	exitDone        = page.ExitDone
	exitNo          = page.ExitNo
	exitBadInput    = page.ExitBadInput
	exitInvalid     = page.ExitInvalid
	exitCannot      = page.ExitCannot
	exitInterrupted = page.ExitInterrupted
)

type exitError = page.ExitError

var badInput, exitWith, flagSet = page.BadInput, page.ExitWith, page.FlagSet

// stdio holds the standard streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// call has the flags of a command or of a word after it, and the arguments that they are parsed from.
type call struct {
	*flag.FlagSet
	args  []string
	usage string
}

//go:embed usage
var usages embed.FS

// newCall returns a call with the text of the file of usage with its name; there is none for words of mig.
func newCall(name string, args []string) *call {
	text, _ := usages.ReadFile("usage/" + strings.ReplaceAll(name, " ", "-") + ".txt")
	return &call{flagSet(name), args, strings.ReplaceAll(string(text), "RESOURCES", discover.Resources)}
}

// anyNumber of arguments may follow the flags.
const anyNumber = math.MaxInt

// parse reads the flags, and at most so many arguments after them.
func (c *call) parse(maxArgs int, std stdio) error {
	c.VisitAll(func(*flag.Flag) { c.usage = strings.TrimSuffix(c.usage, "\nflags:\n") + "\nflags:\n" })
	return page.Parse(c.FlagSet, c.args, c.usage, maxArgs, std.out)
}

// isPlugin reports whether kubectl started the program as its plugin: under the name kubectl-cotenant.
func isPlugin() bool {
	return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "kubectl-cotenant"
}

// columns returns the width of the terminal that an output is, which $COLUMNS overrides; 0 is unknown.
func columns(w io.Writer) (width int) {
	if file, ok := w.(interface{ Fd() uintptr }); ok {
		width, _, _ = term.GetSize(int(file.Fd())) // 0 where it is no terminal
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return width
}

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
