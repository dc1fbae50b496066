// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/gpu"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/internal/probe"
)

// probeOpen opens the GPU of a probe, with notes for readers of the figures. Closing
// it may return more notes. Tests replace it.
var probeOpen = gpu.OpenProbe

type probeConfig struct {
	machine
	real, json bool
	out        string
	base       predict.Predictor
}

func runProbe(ctx context.Context, fl *call, std stdio) error {
	c, err := parseProbe(fl, std)
	if err != nil {
		return err
	}
	var site probe.Site = &probe.Simulated{}
	var notes []string
	closeSite := func() ([]string, error) { return nil, nil }
	if c.real {
		if site, closeSite, notes, err = probeOpen(ctx, c.device, c.nvml, c.control); err != nil {
			return refuseReal(err)
		}
	}
	progress := func(what string, done float64) { fmt.Fprintf(std.err, "%3.0f%%  %s\n", 100*done, what) }
	r, err := probe.Run(ctx, site, probe.Options{Progress: progress})
	more, closeErr := closeSite()
	if r != nil {
		closeErr = errors.Join(closeErr, c.report(r, append(notes, more...), std.out))
	}
	switch err = errors.Join(err, closeErr); {
	case ctx.Err() != nil:
		return exitWith(exitInterrupted, err)
	case errors.Is(err, probe.ErrStranger):
		return exitWith(exitInvalid, err)
	}
	return err
}

func parseProbe(fl *call, std stdio) (*probeConfig, error) {
	c := &probeConfig{base: predict.NewPredictor()}
	predictor := ""
	fl.BoolVar(&c.real, "real", false, "probe this machine's GPU, a simulated one otherwise")
	fl.BoolVar(&c.json, "json", false, "print the result as JSON")
	fl.Func("out", "write the predictor to `FILE`", page.Named(&c.out))
	fl.StringVar(&predictor, "predictor", "", "predictor `FILE` to take the other parameters from (default: an H200's)")
	fl.IntVar(&c.device, "device", 0, "with -real: the GPU's `INDEX`, as NVML counts")
	c.flags(fl.FlagSet)
	if err := fl.parse(0, std); err != nil {
		return nil, err
	}
	var errs []error
	if !c.real {
		errs = refuse(fl.FlagSet, "is for -real only (add -real)", "device", "nvml", "control")
	}
	if c.device < 0 {
		errs = append(errs, fmt.Errorf("-device: must be an index, is %d", c.device))
	}
	if predictor != "" {
		p, err := predict.LoadPredictor(predictor)
		if errs = append(errs, err); err == nil {
			c.base = *p
		}
	}
	return c, badInput(errors.Join(errs...))
}

// report writes the file of -out and prints the result.
func (c *probeConfig) report(r *probe.Result, notes []string, w io.Writer) error {
	p, doubt := r.Predictor(c.base)
	if doubt != nil {
		notes = append(notes, doubt.Error())
	}
	var errs []error
	written := ""
	if c.out != "" && len(r.Measured) > 0 {
		err := page.WriteJSON(c.out, p)
		if errs = append(errs, err); err == nil {
			written = fmt.Sprintf("\nWritten to %s: cotenant measure -predictor %s\n", c.out, c.out)
		}
	}
	out := r.Report(&p, notes...)
	if c.json {
		return errors.Join(append(errs, page.JSON(w, out))...)
	}
	_, err := io.WriteString(w, page.Fold(out.String())+written)
	return errors.Join(append(errs, err)...)
}

// machine holds the flags with which -real finds this machine's GPU.
type machine struct {
	device        int
	nvml, control string
}

func (m *machine) flags(fl *flag.FlagSet) {
	fl.StringVar(&m.nvml, "nvml", "", "with -real: path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fl.StringVar(&m.control, "control", "",
		"with -real: path of nvidia-cuda-mps-control (default: on PATH, or the driver's)")
}
