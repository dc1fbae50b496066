//go:build linux && cgo

package cudaprobe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/sharing"
)

// spinFor bounds one spin of the neighbour, after which it is asked to go on.
const spinFor = 2 * time.Second

// BesideSpinner calls run while a process of the probe spins on the GPU without MPS: whatever runs there takes
// turns with it. A workload's decode step, alone and in run, tells predict.Predictor.TurnsBesideSpinner how many
// turns it takes. run's ctx ends when the neighbour fails, and the error then says why.
func (s *Site) BesideSpinner(ctx context.Context, run func(ctx context.Context) error) error {
	processes, err := s.processes(ctx, sharing.MechanismTimeSlicing, 1)
	if err != nil {
		return err
	}
	p := processes[0]
	spin := func(d time.Duration) error {
		_, err := p.ask(ctx, request{Task: &probe.Task{Kind: probe.KindSpin, For: d}}, 16*d+extra)
		return err
	}
	if err := spin(time.Millisecond); err != nil { // it is there before run begins
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	spun := make(chan struct{})
	go func() {
		defer close(spun)
		for ctx.Err() == nil {
			if err := spin(spinFor); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("the spinning neighbour: %w", err))
			}
		}
	}()
	err = run(ctx)
	failed := context.Cause(ctx)
	cancel(nil) // which ends the neighbour: nobody waits for its kernel
	<-spun
	if failed != nil {
		return errors.Join(err, failed)
	}
	return err
}
