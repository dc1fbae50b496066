// Command measure finds out how workloads get on together on one GPU: it runs
// each of them alone, predicts what they will see side by side, runs them side
// by side under time-slicing, under MPS and under MPS with percentages and
// memory limits, and says how good the prediction was and what to decide.
//
// Without -real it does so on a simulated GPU. With -input it decides a fleet and
// simulates the GPUs that the decision fills, under what was recommended and what
// was not.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/colocation"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

//go:embed plans/*.yaml
var plans embed.FS

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `Measures how workloads get on together on one GPU, and predicts it first.

  go run ./examples/measure                      on a simulated GPU, some 70 s
  go run ./examples/measure -input FLEET         a decision, on simulated GPUs, some 40 s
  go run ./examples/measure -print-plan          a plan to start from
  go run ./examples/measure -real -plan FILE -out DIR

Each load of the plan is run alone, and with -real under time-slicing for some
seconds beside a neighbour that spins, which counts the time slices of its step
(rows.json and the profiles keep them); then what they will see side by side is
predicted and written down, then they are run side by side; all of that under
time-slicing, under MPS (a daemon of its own, started and stopped; a load that
alone was spared what MPS costs is run again, twice at most), and under MPS with
percentages and memory limits, which is as near to MIG as processes come without
being isolated. It never changes compute mode, clocks, persistence, MIG or
compute policy.

With -input a fleet file is decided first, as examples/quickstart does. Then the
GPUs that the decision fills are simulated: each workload alone, the prediction,
and side by side under what was recommended and what was not. Expected stands
beside measured, and what contradicts the decision is said.

DIR keeps for every run what loadgen and telemetry saw, the predictions as they
were before the runs side by side (DIR/MODE/predictions.json), DIR/rows.json in
the form that examples/predict reads, DIR/predictor.json calibrated on this run
(the report ends with the line that uses it), and DIR/report.json. Ctrl-C ends the run
and keeps what was measured.

exit: 0 measured, 1 interrupted or failed, 2 bad input

Flags:
`

// app is the program with its doors to the world.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	// For tests: what takes the machine's place, the clock, all in simulated time,
	// and the quantum of a fleet's simulated GPUs, which the predictor does not know.
	site          func(*config, *colocation.Plan) (site, func() error, error)
	now           func() time.Time
	simulatedTime bool
	quantum       time.Duration
}

type config struct {
	real, simulate, json, printPlan, noTelemetry bool
	input, plan, out, dir, use, nvml, control    string
	profiles                                     string
	spinner                                      time.Duration       // how long each load runs beside a spinning neighbour
	silent                                       time.Duration       // a server that answers nothing for so long has stopped
	mechanisms                                   []sharing.Mechanism // empty = those of the decision, and the usual ones
	seed                                         uint64
	seconds                                      float64
	price                                        cost.Money // of a GPU hour; zero without -price
	args                                         []string   // all of them, as they were given
}

func main() {
	if code, is := cudaprobe.Child(); is {
		os.Exit(code)
	}
	page.OutlivePipe()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, now: time.Now}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is the program; it returns the exit code.
func (a *app) run(ctx context.Context, args []string) (code int) {
	stdout, done := page.Check("measure", a.stdout, a.stderr)
	a.stdout = stdout
	defer done(&code)
	c, err := a.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err == nil && c.printPlan:
		text, err := plans.ReadFile("plans/two-models.yaml")
		if err == nil {
			_, err = a.stdout.Write(text)
		}
		return a.exit(err, exitFailed)
	}
	var f interface{ run(context.Context) error }
	switch {
	case err != nil:
	case c.input != "":
		f, err = newFleetFlow(a, c)
	default:
		f, err = newPlanFlow(a, c)
	}
	if err == nil {
		err = c.newFolder(a.now())
	}
	if err != nil {
		return a.exit(err, exitUsage)
	}
	return a.exit(f.run(ctx), exitFailed)
}

// exit reports the error, if there is one, and returns the exit code.
func (a *app) exit(err error, code int) int {
	if err == nil {
		return exitOK
	}
	page.Fail("measure", a.stderr, err)
	return code
}

func (a *app) parse(args []string) (*config, error) {
	c := &config{args: args}
	fl := flag.NewFlagSet("measure", flag.ContinueOnError)
	fl.SetOutput(io.Discard) // run reports the error, once
	fl.BoolVar(&c.real, "real", false, "measure this machine's GPU")
	fl.BoolVar(&c.simulate, "simulate", false, "measure embedded servers on a simulated GPU (the default)")
	fl.StringVar(&c.input, "input", "", "fleet `FILE` to decide and simulate, - for standard input")
	fl.StringVar(&c.profiles, "profiles", "", "with -input: `FILE` of workloads measured alone, as examples/quickstart takes it")
	fl.Func("mechanisms", "with -input: comma-separated `LIST` to run (default: exclusive, time-slicing, mps, mig and those recommended)", c.parseMechanisms)
	fl.Uint64Var(&c.seed, "seed", 1, "with -input: of arrivals, prompts and kernel lengths")
	fl.StringVar(&c.plan, "plan", "", "plan, YAML (default: the built-in one for the simulation)")
	fl.StringVar(&c.out, "out", "", "new folder for the results (default: measure-TIME)")
	fl.StringVar(&c.dir, "dir", "", "working folder of the servers' commands (default: this one)")
	fl.Float64Var(&c.seconds, "seconds", 0, "length of each run (default: the plan's; 7 with -input)")
	fl.StringVar(&c.use, "use", "", "predictor to predict with, as examples/predict saves it; with -input to decide with")
	fl.Func("price", "`PRICE` of a GPU hour, \"2.90 USD\": adds what a million tokens cost each tenant", func(s string) (err error) {
		c.price, err = cost.ParsePrice(s)
		return err
	})
	fl.BoolVar(&c.json, "json", false, "print the report as JSON")
	fl.BoolVar(&c.printPlan, "print-plan", false, "print a plan for -real and exit")
	fl.BoolVar(&c.noTelemetry, "no-telemetry", false, "measure without NVML: the predictions are then wider")
	fl.StringVar(&c.nvml, "nvml", "", "path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fl.DurationVar(&c.silent, "silent", defaultSilent, "with -real: give a server up that answers nothing for so long, not even when asked for one token")
	fl.DurationVar(&c.spinner, "spinner", 4*time.Second, "with -real: run each load so long beside a spinning neighbour, to count the time slices of its step; 0 = do not")
	fl.StringVar(&c.control, "control", "", "path of nvidia-cuda-mps-control (default: on PATH)")
	err := fl.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(a.stdout, usage)
		fmt.Fprint(a.stdout, page.Flags(fl))
	case err != nil:
		err = fmt.Errorf("%w (see -h)", err)
	default:
		err = c.check(fl)
	}
	return c, err
}

// check names everything that is wrong with the flags.
func (c *config) check(fl *flag.FlagSet) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if fl.NArg() > 0 {
		bad("unexpected %q (use flags only; see -h)", fl.Args())
	}
	if c.real && c.simulate {
		bad("-real and -simulate contradict each other (use one of them)")
	}
	if c.real && c.plan == "" && !c.printPlan && c.input == "" {
		bad("-plan: -real needs a plan of the servers to measure (-print-plan prints one to start from)")
	}
	if c.silent < time.Second {
		bad("-silent: must be 1s or more, is %v", c.silent)
	}
	if c.spinner < 0 || c.spinner > 0 && c.spinner < time.Second || c.spinner > 10*time.Minute {
		bad("-spinner: must be 0, or lie between 1s and 10m, is %v", c.spinner)
	}
	others := []string{"profiles", "mechanisms", "seed"}
	if c.input != "" {
		others = []string{"price", "real", "plan", "print-plan", "dir", "no-telemetry", "nvml", "control", "silent", "spinner"}
		if c.seconds == 0 {
			c.seconds = fleetSeconds
		}
		if !(c.seconds >= 1 && c.seconds <= 600) {
			bad("-seconds: must lie between 1 and 600, is %v", c.seconds)
		}
	}
	fl.Visit(func(f *flag.Flag) {
		switch {
		case !slices.Contains(others, f.Name):
		case c.input != "":
			bad("-%s: does not go with -input, which is simulated (leave one of them out)", f.Name)
		default:
			bad("-%s: is for -input only (add -input)", f.Name)
		}
	})
	return errors.Join(errs...)
}

// parseMechanisms reads a comma-separated list.
func (c *config) parseMechanisms(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		m, err := sharing.ParseMechanism(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		if m == sharing.MechanismNone {
			return errors.New("none is no way to run")
		}
		if !slices.Contains(c.mechanisms, m) {
			c.mechanisms = append(c.mechanisms, m)
		}
	}
	return nil
}

// newFolder makes the folder for the results, or takes an empty one.
func (c *config) newFolder(now time.Time) error {
	if c.out == "" {
		c.out = "measure-" + now.UTC().Format("20060102T150405Z")
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	entries, err := os.ReadDir(c.out)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("-out: %s is not empty; name a new folder", c.out)
	}
	return err
}

// bench is what the flows measure with.
type bench struct {
	*config
	app       *app
	predictor *predict.Predictor
	simulated bool
	notes     []string
	shaped    map[string]bool // runs whose figures are the client's too
}

// say reports progress.
func (b *bench) say(format string, args ...any) {
	if b.simulated {
		format = "simulated: " + format
	}
	fmt.Fprintf(b.app.stderr, format+"\n", args...)
}

// note keeps what a reader of the figures must know.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
	b.say("note: "+format, args...)
}

// write writes a file of the results.
func (b *bench) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, name), append(data, '\n'), 0o644)
}

// record makes a run of the plan's tenants, who find the source's devices busy.
// What there is of an interrupted one comes with the error.
func (b *bench) record(ctx context.Context, dir string, plan loadgen.LoadPlan, source telemetry.Reader, progress func(loadgen.Progress)) (*colocation.Recording, error) {
	plan.Simulated = b.simulated
	opts := loadgen.Options{Progress: progress, Dir: filepath.Join(b.out, dir), Meta: map[string]any{"run": filepath.ToSlash(dir)}}
	if b.app.simulatedTime {
		opts.Receive, opts.Pacing = loadgen.ReceivePlain, loadgen.PacingTimer
	}
	r, err := colocation.Record(ctx, plan, opts, source)
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
		if r == nil || r.Result == nil {
			return nil, err
		}
		return r, err
	}
	if h := &r.Summary.ClientHealth; !h.Valid {
		if b.shaped == nil {
			b.shaped = map[string]bool{}
		}
		b.shaped[dir] = true
		b.note("%s: the client shaped the figures: %s", dir, strings.Join(h.Reasons, "; "))
	}
	return r, nil
}
