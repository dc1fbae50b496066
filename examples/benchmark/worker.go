package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// asWorker takes this process's part of the load from the environment, as a
// loadgen.Job sets it: the run then goes into a folder of -out named by the
// worker's index, to be merged with the others'.
func (m *measurement) asWorker() error {
	var err error
	if m.worker, err = loadgen.WorkerFromEnv(os.LookupEnv); err != nil || m.worker.Count == 0 {
		return err
	}
	s := m.s
	if s.out == "" {
		return fmt.Errorf("-out: a worker needs a directory (%s is set)", loadgen.WorkerCountEnv)
	}
	if len(s.concurrency) > 1 || len(s.rate) > 1 || len(s.simulate) > 1 || s.repeats > 1 || s.study || len(s.search) > 0 {
		return errors.New("a worker makes one run: no sweep, repeats, study or search")
	}
	s.out = filepath.Join(s.out, strconv.Itoa(m.worker.Index))
	if text := os.Getenv(loadgen.StartAtEnv); text != "" {
		if m.startAt, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("%s: %q is not a time (write e.g. 2026-01-02T15:04:05Z)", loadgen.StartAtEnv, text)
		}
	}
	return nil
}

// mergeCommand puts the runs of one plan's workers together.
func mergeCommand(_ context.Context, a *app, args []string) error {
	fs := a.flags("merge", "-out DIR RUN...", "Merge the runs of several workers into one: counts add, histograms merge.")
	out := fs.String("out", "", "`DIR` for the merged run; must not exist or must be empty")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("-out: missing (name the directory to write into)")
	}
	results, err := readRuns(fs.Args())
	if err != nil {
		return err
	}
	merged, err := loadgen.Merge(results...)
	if err != nil {
		return err
	}
	if err := loadgen.WriteResult(*out, merged); err != nil {
		return err
	}
	writeRun(a.stdout, &merged.Summary)
	_, err = fmt.Fprintf(a.stdout, "\n%d workers merged into %s\n", merged.Summary.Workers, *out)
	return err
}
