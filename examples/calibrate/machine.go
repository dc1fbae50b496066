package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// openMachine opens this machine's GPU, after a look at it through NVML. What
// NVML could have told is a note where there is none.
func openMachine(ctx context.Context, c *config) (s probe.Site, closeSite func() ([]string, error), notes []string, err error) {
	opts := cudaprobe.Options{Device: c.device}
	if c.control != "" {
		opts.Program = &mps.Program{Path: c.control}
	}
	if err := look(ctx, c, &opts); errors.Is(err, telemetrynvml.ErrUnavailable) {
		notes = append(notes, "who else holds the GPU is not known: "+err.Error())
	} else if err != nil {
		return nil, nil, nil, err
	}
	site, err := cudaprobe.Open(ctx, opts)
	if err != nil {
		return nil, nil, notes, err
	}
	return site, func() ([]string, error) {
		err := site.Close()
		var now cudaprobe.Options
		if notes != nil || look(context.WithoutCancel(ctx), c, &now) != nil {
			return nil, err
		}
		return newcomers(opts.Others, now.Others), err
	}, notes, nil
}

// newcomers are notes of processes that hold the GPU now and did not before. An
// MPS server does nothing by itself, and the probe's own may take a while to go.
func newcomers(before, now []string) (notes []string) {
	for _, p := range now {
		if !slices.Contains(before, p) && !strings.Contains(p, "nvidia-cuda-mps-server") {
			notes = append(notes, p+" came to the GPU meanwhile: what it does is part of what was measured")
		}
	}
	return notes
}

// look finds the GPU's UUID and who holds it, and refuses one in MIG mode.
func look(ctx context.Context, c *config, opts *cudaprobe.Options) error {
	source, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: c.nvml})
	if err != nil {
		return err
	}
	err = lookThrough(ctx, source, c, opts)
	return errors.Join(err, source.Close())
}

func lookThrough(ctx context.Context, source telemetry.Reader, c *config, opts *cudaprobe.Options) error {
	devices, err := source.Devices(ctx)
	if err != nil {
		return err
	}
	if c.device >= len(devices) {
		return fmt.Errorf("-device: there is no GPU %d, the machine has %d", c.device, len(devices))
	}
	d := devices[c.device]
	if d.MIG == sharing.AnswerYes {
		return fmt.Errorf("%w: GPU %d, %s; what is measured on an instance is not true of the whole GPU, and this program does not change MIG", cudaprobe.ErrMIG, c.device, d.Name)
	}
	opts.UUID = d.UUID
	var r telemetry.Reading
	if err := source.Read(ctx, c.device, telemetry.GroupProcesses, &r); err != nil {
		opts.Others = []string{fmt.Sprintf("somebody, perhaps (the processes could not be listed: %v),", err)}
	}
	for _, p := range r.Processes {
		opts.Others = append(opts.Others, fmt.Sprintf("process %d (%s)", p.PID, p.Name))
	}
	return nil
}
