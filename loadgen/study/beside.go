package study

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cotenant/cotenant/loadgen"
)

// maxServerLog bounds what is copied of a server's log for one run, in bytes.
const maxServerLog = 256 << 20

// beside records the telemetry and the server's log of one run.
type beside struct {
	dir    string
	stop   context.CancelFunc // nil without telemetry
	done   chan error
	tmp    string
	log    string
	offset int64
}

// recordBeside starts the sampler and notes where the server's log stands. The
// run's folder must not exist yet, so the samples go beside it until the end.
func (t *test) recordBeside(ctx context.Context, dir string) (*beside, error) {
	b := &beside{dir: dir, log: t.ServerLog}
	if b.log != "" {
		info, err := os.Stat(b.log)
		if err != nil {
			return nil, fmt.Errorf("server log: %w", err)
		}
		b.offset = info.Size()
	}
	if t.Sample == nil {
		return b, nil
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
		b.done <- errors.Join(t.Sample(ctx, w), w.Flush(), f.Close())
	}()
	return b, nil
}

// end stops the sampler and puts what was recorded into the run's folder.
func (b *beside) end(plan *loadgen.LoadPlan) (err error) {
	if b.stop != nil {
		b.stop()
		err = <-b.done
		if _, statErr := os.Stat(b.dir); statErr == nil {
			err = errors.Join(err, os.Rename(b.tmp, filepath.Join(b.dir, loadgen.ArtifactTelemetry)))
		} else {
			err = errors.Join(err, os.Remove(b.tmp)) // the run never began
		}
	}
	if b.log != "" {
		err = errors.Join(err, b.copyLog(plan))
	}
	return err
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
	data, err := io.ReadAll(io.LimitReader(f, maxServerLog))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, loadgen.ArtifactServerLog), []byte(plan.Redact(string(data))), 0o644)
}
