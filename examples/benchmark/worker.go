package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
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
	if err := s.oneRun(); err != nil {
		return err
	}
	s.out = filepath.Join(s.out, strconv.Itoa(m.worker.Index))
	if text := os.Getenv(loadgen.StartAtEnv); text != "" {
		if m.startAt, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("%s: %q is not a time (write e.g. 2026-01-02T15:04:05Z)", loadgen.StartAtEnv, text)
		}
	}
	return nil
}

// oneRun refuses what workers can't share.
func (s *settings) oneRun() error {
	if len(s.concurrency) > 1 || len(s.rate) > 1 || len(s.simulate) > 1 || s.repeats > 1 || s.study || len(s.search) > 0 {
		return errors.New("a worker makes one run: no sweep, repeats, study or search")
	}
	return nil
}

// jobCommand writes the manifest of a Job whose pods share one run's load.
func jobCommand(_ context.Context, a *app, args []string) error {
	var j loadgen.Job
	fs := a.flags("job", "-name NAME -image IMAGE -workers N [flags] -- RUN FLAGS...",
		"Write the manifest of an indexed Kubernetes Job: each pod makes its share of one run, see merge.")
	fs.StringVar(&j.Name, "name", "", "of the Job")
	fs.StringVar(&j.Namespace, "namespace", "", "of the Job; empty leaves it to kubectl")
	fs.StringVar(&j.Image, "image", "", "container `IMAGE` whose entry point is this program")
	fs.IntVar(&j.Workers, "workers", 0, "pods that share the load")
	fs.StringVar(&j.StartAt, "start-at", "", "`TIME` at which all start, e.g. 2026-01-02T15:04:05Z")
	fs.StringVar(&j.SecretName, "secret", "", "Secret whose key api-key is the endpoint's API key")
	fs.StringVar(&j.ClaimName, "claim", "", "PersistentVolumeClaim for the runs; without it they are lost with the pods")
	fs.StringVar(&j.CPU, "cpu", "", "of each pod; 2 by default")
	fs.StringVar(&j.Memory, "memory", "", "of each pod; 512Mi by default")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if j.StartAt != "" {
		if _, err := time.Parse(time.RFC3339, j.StartAt); err != nil {
			return fmt.Errorf("-start-at: %q is not a time (write e.g. 2026-01-02T15:04:05Z)", j.StartAt)
		}
	}
	s, err := a.settings(fs.Args())
	if err != nil {
		return fmt.Errorf("run flags: %w", err)
	}
	if s.out != "" {
		return errors.New("run flags: -out is the job's to set: leave it out")
	}
	if err := errors.Join(s.check(), s.oneRun()); err != nil {
		return fmt.Errorf("run flags: %w", err)
	}
	given := loadgen.LoadPlan{Tenants: []loadgen.Tenant{{Endpoints: []loadgen.Endpoint{{URL: s.endpoint, Header: s.header}}}}}
	if text := strings.Join(fs.Args(), "\n"); given.Redact(text) != text {
		return errors.New("run flags: a credential in -header or -endpoint would stand in the manifest (put it into a Secret and name that with -secret)")
	}
	j.Args = append(append([]string{}, fs.Args()...), "-progress=false", "-out", "/runs")
	return j.WriteYAML(a.stdout)
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
	if err := loadgen.SaveResult(*out, merged); err != nil {
		return err
	}
	if err := report.WriteSummary(a.stdout, &merged.Summary); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "\n%d workers merged into %s\n", merged.Summary.Workers, *out)
	return err
}
