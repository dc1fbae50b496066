package cudaprobe

import (
	"context"
	"errors"
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
