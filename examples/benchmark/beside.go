package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// openNVML opens the GPUs of this machine.
func openNVML() (telemetry.Reader, func() error, error) {
	src, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		return nil, nil, err
	}
	return src, src.Close, nil
}

// beside is what is recorded while a run lasts, besides its requests.
type beside struct {
	dir    string
	stop   context.CancelFunc
	done   chan error
	tmp    string
	log    string
	offset int64
}

// recordBeside starts the sampler and notes where the server's log stands. The
// run's directory must not exist yet, so the samples go beside it until the end.
func (m *measurement) recordBeside(ctx context.Context, dir string) (*beside, error) {
	b := &beside{dir: dir, log: m.s.serverLog}
	if b.log != "" {
		info, err := os.Stat(b.log)
		if err != nil {
			return nil, fmt.Errorf("-server-log: %w", err)
		}
		b.offset = info.Size()
	}
	if m.source == nil {
		return b, nil
	}
	sampler, err := telemetry.NewSampler(m.source, telemetry.SamplerOptions{})
	if err != nil {
		return nil, failed("telemetry: %w", err)
	}
	b.tmp = dir + ".telemetry.csv.partial"
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(b.tmp)
	if err != nil {
		return nil, err
	}
	// An interrupted run is drained; the sampler stays until it has ended.
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.done = make(chan error, 1)
	go func() {
		w := bufio.NewWriter(f)
		out := telemetry.NewCSVWriter(w)
		err := sampler.Stream(ctx, out)
		b.done <- errors.Join(err, out.Flush(), w.Flush(), f.Close())
	}()
	return b, nil
}

// end stops the sampler and puts what was recorded into the run's directory.
func (b *beside) end(plan *loadgen.LoadPlan) error {
	if b == nil {
		return nil
	}
	var errs []error
	if b.stop != nil {
		b.stop()
		errs = append(errs, <-b.done)
		if _, err := os.Stat(b.dir); err == nil {
			errs = append(errs, os.Rename(b.tmp, filepath.Join(b.dir, loadgen.ArtifactTelemetry)))
		} else {
			errs = append(errs, os.Remove(b.tmp)) // the run never began
		}
	}
	if b.log != "" {
		errs = append(errs, b.copyLog(plan))
	}
	return errors.Join(errs...)
}

// copyLog copies what the server wrote during the run, without the plan's keys.
func (b *beside) copyLog(plan *loadgen.LoadPlan) error {
	f, err := os.Open(b.log)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(b.offset, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, 256<<20))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, loadgen.ArtifactServerLog), []byte(plan.Redact(string(data))), 0o644)
}
