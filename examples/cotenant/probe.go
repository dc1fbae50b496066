// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
	"github.com/cotenant/cotenant/timeslice"
)

// probeOpen is openProbe; tests replace it.
var probeOpen = openProbe

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
	site := probe.Simulated(timeslice.Scheduler{})
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
	fl.BoolVar(&c.real, "real", false, "probe this machine's GPU instead of a simulated one")
	fl.BoolVar(&c.json, "json", false, "print the result as JSON")
	fl.Func("out", "write the predictor to `FILE`", page.Named(&c.out))
	fl.StringVar(&predictor, "predictor", "", "predictor `FILE` to take the other parameters from (default: an H200's)")
	fl.IntVar(&c.device, "device", 0, "with -real: the GPU's `INDEX`, in NVML")
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

// openProbe opens this machine's GPU, with notes for readers of the figures; closing it may return more. It looks at
// the GPU through NVML first, which may be missing: that is a note.
func openProbe(ctx context.Context, device int, nvmlPath, control string) (probe.Site, func() ([]string, error),
	[]string, error) {
	opts := cudaprobe.Options{Device: device}
	if control != "" {
		opts.Program = &mps.Program{Path: control}
	}
	nvml, unseen := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: nvmlPath})
	if unseen != nil && !errors.Is(unseen, telemetrynvml.ErrUnavailable) {
		return nil, nil, nil, unseen
	}
	var notes []string
	closeNVML := func() error { return nil }
	if unseen != nil {
		notes = append(notes, "the processes that hold the GPU are unknown: "+unseen.Error())
	} else {
		closeNVML = nvml.Close
		look, err := probe.Inspect(ctx, nvml, device)
		if err != nil {
			return nil, nil, nil, errors.Join(err, closeNVML())
		}
		opts.UUID, opts.Others = look.Device.UUID, look.Holders
	}
	site, err := cudaprobe.Open(ctx, opts)
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeNVML())
	}
	return site, func() (came []string, err error) {
		err = site.Close()
		if unseen == nil {
			came = probe.Newcomers(opts.Others, probe.Holders(context.WithoutCancel(ctx), nvml, device))
		}
		return came, errors.Join(err, closeNVML())
	}, notes, nil
}
