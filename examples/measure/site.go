package main

import (
	"context"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// site is where servers run: this machine, or a simulation.
type site interface {
	// basis says whether its figures are measured or simulated.
	basis() sharing.Basis
	// gpu names the GPU and its driver, "" where that is not known.
	gpu() (name, driver string)
	// start has the plan's servers serve in a mode; logs go below dir. What is
	// returned must be closed.
	start(ctx context.Context, m mode, dir string) (*stand, error)
}

// stand is the plan's servers, serving in one mode.
type stand struct {
	endpoints []loadgen.Endpoint // by server
	source    telemetry.Reader   // of the GPU; nil = nobody looks
	device    int                // the GPU's index in source
	notes     []string           // what a reader of the figures must know
	close     func() error
}
