package cudaprobe

import (
	"context"
	"errors"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// BesideSpinner opens the GPU of an index and, where it is not empty, a UUID, calls
// run beside a spinning neighbour there (see Site.BesideSpinner), and closes it.
func BesideSpinner(ctx context.Context, device int, uuid string, run func(context.Context) error) error {
	s, err := Open(ctx, Options{Device: device, UUID: uuid})
	if err != nil {
		return err
	}
	return errors.Join(s.BesideSpinner(ctx, run), s.Close())
}

// Within opens the GPU likewise, calls use with what runs a task as a client of the MPS daemon in a pipe directory,
// whose control program is program, and closes it.
func Within(ctx context.Context, device int, uuid string, program *mps.Program, pipe string,
	use func(run func(context.Context, probe.Task) (probe.Reading, error)) error) error {
	s, err := Open(ctx, Options{Device: device, UUID: uuid, Program: program, Pipe: pipe})
	if err != nil {
		return err
	}
	return errors.Join(use(func(ctx context.Context, t probe.Task) (probe.Reading, error) {
		readings, err := s.Run(ctx, sharing.MechanismMPS, t)
		if err != nil {
			return probe.Reading{}, err
		}
		return readings[0], nil
	}), s.Close())
}
