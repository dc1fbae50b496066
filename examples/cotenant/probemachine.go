package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

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

// check names what is wrong with the flags, of which more are for -real only.
func (m *machine) check(fl *flag.FlagSet, real bool, more ...string) (errs []error) {
	if !real {
		errs = refuse(fl, "is for -real only (add -real)", append(more, "nvml", "control")...)
	}
	if m.device < 0 {
		errs = append(errs, fmt.Errorf("-device: must be an index, is %d", m.device))
	}
	return errs
}

// open opens NVML.
func (m *machine) open() (*telemetrynvml.Reader, error) {
	return telemetrynvml.Open(telemetrynvml.Options{LibraryPath: m.nvml})
}

// openProbe opens this machine's GPU after a look at it through NVML, which may be missing: that is a note.
func openProbe(ctx context.Context, m *machine) (probe.Site, func() ([]string, error), []string, error) {
	opts := cudaprobe.Options{Device: m.device}
	if m.control != "" {
		opts.Program = &mps.Program{Path: m.control}
	}
	nvml, unseen := m.open()
	if unseen != nil && !errors.Is(unseen, telemetrynvml.ErrUnavailable) {
		return nil, nil, nil, unseen
	}
	var notes []string
	closeNVML := func() error { return nil }
	if unseen != nil {
		notes = append(notes, "the processes that hold the GPU are unknown: "+unseen.Error())
	} else {
		closeNVML = nvml.Close
		look, err := probe.LookAt(ctx, nvml, m.device)
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
			came = probe.Newcomers(opts.Others, probe.Holders(context.WithoutCancel(ctx), nvml, m.device))
		}
		return came, errors.Join(err, closeNVML())
	}, notes, nil
}
