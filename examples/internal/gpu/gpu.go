// SPDX-License-Identifier: Apache-2.0

// Package gpu reaches this machine's GPUs: their list, and one to probe.
package gpu

import (
	"context"
	"errors"
	"os"

	"github.com/cotenant/cotenant/internal/probe"
	"github.com/cotenant/cotenant/internal/probe/cudaprobe"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// Inventory returns the driver's GPUs and the host's name, which is its node's where it is one.
func Inventory(ctx context.Context) (host string, inv telemetry.Inventory, err error) {
	r, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		return "", inv, err
	}
	defer r.Close()
	if inv, err = r.Inventory(ctx); err == nil {
		host, err = os.Hostname()
	}
	return host, inv, err
}

// OpenProbe opens this machine's GPU after a look at it through NVML, which may be missing: that is a note.
func OpenProbe(ctx context.Context, device int, nvmlPath, control string) (probe.Site, func() ([]string, error),
	[]string,
	error) {
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
