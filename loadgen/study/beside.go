// SPDX-License-Identifier: Apache-2.0

package study

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/cotenant/cotenant/loadgen"
)

// sampled starts Sample during a run and returns the function that ends it and puts the CSV into the run's folder. That
// must not exist yet, so the samples are next to it until the end.
func (t *test) sampled(ctx context.Context, dir string) (end func() error, err error) {
	if t.Sample == nil {
		return func() error { return nil }, nil
	}
	partial := dir + ".telemetry.csv.partial"
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(partial)
	if err != nil {
		return nil, err
	}
	// An interrupted run is drained; the sampler stays until it has ended.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(f)
		done <- errors.Join(t.Sample(ctx, w), w.Flush(), f.Close())
	}()
	return func() error {
		stop()
		err := <-done
		if _, statErr := os.Stat(dir); statErr != nil {
			return errors.Join(err, os.Remove(partial)) // the run never began
		}
		return errors.Join(err, os.Rename(partial, filepath.Join(dir, loadgen.ArtifactTelemetry)))
	}, nil
}
