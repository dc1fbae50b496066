package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `Measures what a GPU does when processes share it, in under a minute, and writes
the predictor for that GPU and driver.

  go run ./examples/calibrate                              a simulated GPU
  go run ./examples/calibrate -real -out predictor.json    this machine's GPU
  go run ./examples/calibrate -real -json -plot turns.svg

examples/predict and examples/measure predict with it (-use FILE). What is
measured replaces the parameters of another predictor (-use, by default an
H200's); the rest of them is carried over.

It needs an NVIDIA driver from 450 on, a GPU from Volta on, 1 GiB of its memory,
and nobody else on it; no CUDA toolkit, no root. For MPS it starts a daemon of
its own and stops it. It never changes compute mode, time-slice policy, MIG,
clocks, power or persistence. What cannot be measured is listed with the reason.

exit: 0 measured, 1 interrupted or failed (what was measured is kept), 2 bad input

Flags:
`

type config struct {
	real, simulate, json          bool
	out, plot, use, nvml, control string
	device                        int

	written bool // the predictor, to out
}

// app is the program with its doors to the world.
type app struct {
	stdout, stderr io.Writer
	// open opens a GPU, with notes of what a reader must know; what closes it has
	// more.
	open func(context.Context, *config) (s probe.Site, closeSite func() ([]string, error), notes []string, err error)
}

// run is the program; it returns the exit code.
func (a *app) run(ctx context.Context, args []string) (code int) {
	stdout, done := page.Check("calibrate", a.stdout, a.stderr)
	a.stdout = stdout
	defer done(&code)
	c, err := a.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	base := predict.NewPredictor()
	if err == nil && c.use != "" {
		var p *predict.Predictor
		if p, err = predict.LoadPredictor(c.use); err == nil {
			base = *p
		}
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return a.exit(err, exitUsage)
	}
	return a.exit(a.calibrate(ctx, c, base), exitFailed)
}

// exit reports the error, if there is one, and returns the exit code.
func (a *app) exit(err error, code int) int {
	if err == nil {
		return exitOK
	}
	page.Fail("calibrate", a.stderr, err)
	return code
}

func (a *app) parse(args []string) (*config, error) {
	c := &config{}
	fl := flag.NewFlagSet("calibrate", flag.ContinueOnError)
	fl.SetOutput(io.Discard) // run reports the error, once
	fl.BoolVar(&c.real, "real", false, "probe this machine's GPU")
	fl.BoolVar(&c.simulate, "simulate", false, "probe a simulated GPU (the default)")
	fl.StringVar(&c.out, "out", "", "write the predictor to `FILE`")
	fl.StringVar(&c.plot, "plot", "", "draw when processes were on the GPU, to the SVG `FILE`")
	fl.BoolVar(&c.json, "json", false, "print the result as JSON")
	fl.StringVar(&c.use, "use", "", "predictor `FILE` to take the rest from (default: an H200's)")
	fl.IntVar(&c.device, "device", 0, "with -real: the GPU's `INDEX`, as NVML counts")
	fl.StringVar(&c.nvml, "nvml", "", "with -real: path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fl.StringVar(&c.control, "control", "", "with -real: path of nvidia-cuda-mps-control (default: on PATH, or the driver's)")
	err := fl.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(a.stdout, usage)
		fmt.Fprint(a.stdout, page.Flags(fl))
		return c, err
	case err != nil:
		return c, fmt.Errorf("%w (see -h)", err)
	}
	var errs []error
	if fl.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected %q (use flags only; see -h)", fl.Args()))
	}
	if c.real && c.simulate {
		errs = append(errs, errors.New("-real and -simulate contradict each other (use one of them)"))
	}
	if c.device < 0 {
		errs = append(errs, fmt.Errorf("-device: must be an index, is %d", c.device))
	}
	fl.Visit(func(f *flag.Flag) {
		if !c.real && (f.Name == "device" || f.Name == "nvml" || f.Name == "control") {
			errs = append(errs, fmt.Errorf("-%s: is for -real only (add -real)", f.Name))
		}
	})
	return c, errors.Join(errs...)
}

// check makes sure that the files can be written, and that programs and libraries
// that were named are there, before anything is measured.
func (c *config) check() error {
	var errs []error
	if c.out != "" && filepath.Clean(c.out) == filepath.Clean(c.plot) {
		errs = append(errs, errors.New("-out and -plot name the same file (name two)"))
	}
	for _, f := range []struct {
		name, path string
		check      func(path string) error
	}{
		{"-out", c.out, page.CanWrite}, {"-plot", c.plot, page.CanWrite},
		{"-nvml", c.nvml, func(path string) (err error) {
			if strings.ContainsRune(path, filepath.Separator) { // else the linker finds it
				_, err = os.Stat(path)
			}
			return err
		}},
		{"-control", c.control, func(path string) error { _, err := exec.LookPath(path); return err }},
	} {
		if f.path == "" {
			continue
		}
		if err := f.check(f.path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// output is what -json prints. Parameters are the predictor's, by the names of
// its own JSON.
type output struct {
	GPU         string              `json:"gpu"`
	Driver      string              `json:"driver"`
	Simulated   bool                `json:"simulated"`
	Parameters  predict.Parameters  `json:"parameters"`
	Measured    []probe.Measurement `json:"measured"`
	NotMeasured []probe.NotMeasured `json:"not_measured"`
	Warnings    []string            `json:"warnings"`
	Seconds     float64             `json:"seconds"`
}

// calibrate probes, and writes and prints what was found. After an error that
// leaves something, that is written and printed too.
func (a *app) calibrate(ctx context.Context, c *config, base predict.Predictor) error {
	var site probe.Site = &probe.Simulated{}
	var notes []string
	closeSite := func() ([]string, error) { return nil, nil }
	if c.real {
		var err error
		if site, closeSite, notes, err = a.open(ctx, c); err != nil {
			if ctx.Err() == nil {
				err = fmt.Errorf("%w\nwithout -real a simulated GPU shows what this program does", err)
			}
			return err
		}
	}
	r, err := probe.Run(ctx, site, probe.Options{Progress: a.progress})
	more, cerr := closeSite()
	notes, err = append(notes, more...), errors.Join(err, cerr)
	if r == nil {
		return err
	}
	p, doubt := r.Predictor(base)
	if doubt != nil {
		notes = append(notes, doubt.Error())
	}
	out := output{p.GPU, p.Driver, r.Basis == sharing.BasisSimulated, p.Parameters, r.Measured, r.NotMeasured, append(notes, r.Warnings...), r.Took.Seconds()}
	// Empty lists are lists.
	out.Measured, out.NotMeasured, out.Warnings = append([]probe.Measurement{}, out.Measured...), append([]probe.NotMeasured{}, out.NotMeasured...), append([]string{}, out.Warnings...)
	if len(r.Measured) > 0 {
		err = errors.Join(err, c.write(&p, r))
	}
	if c.json {
		data, jerr := json.MarshalIndent(out, "", "  ")
		if jerr == nil {
			_, jerr = a.stdout.Write(append(data, '\n'))
		}
		return errors.Join(err, jerr)
	}
	return errors.Join(err, out.writeText(a.stdout, c))
}

// progress says on standard error what is measured next.
func (a *app) progress(what string, done float64) {
	fmt.Fprintf(a.stderr, "%3.0f%%  %s\n", 100*done, what)
}

// write writes the predictor and the plot, where they are asked for.
func (c *config) write(p *predict.Predictor, r *probe.Result) error {
	var errs []error
	if c.out != "" {
		data, err := json.MarshalIndent(p, "", "  ")
		if err == nil {
			err = page.WriteFile(c.out, append(data, '\n'))
		}
		c.written = err == nil
		errs = append(errs, err)
	}
	if c.plot != "" {
		var svg bytes.Buffer
		err := drawTurns(&svg, r)
		if err == nil {
			err = page.WriteFile(c.plot, svg.Bytes())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
