package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/planfile"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/loadgen/report"
	"github.com/cotenant/cotenant/telemetry"
)

//go:embed testdata/prompts.jsonl
var builtinPrompts []byte

// measurement gathers the runs that are made.
type measurement struct {
	app     *app
	s       *settings
	meta    map[string]any
	several bool // each run has a folder of its own
	// discards says that spoiled runs were left out of the answer.
	discards bool
	results  []*loadgen.Result
	source   telemetry.Reader // nil without -telemetry
	worker   loadgen.Worker   // all of the load unless the environment says otherwise
	startAt  time.Time
}

// measureCommand reads the flags and measures.
func measureCommand(ctx context.Context, a *app, args []string) (err error) {
	s, err := a.settings(args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		s.demo(time.Now())
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := a.read(s); err != nil {
		return err
	}
	m := &measurement{app: a, s: s, meta: map[string]any{"arguments": safeArguments(args)}}
	if _, err := s.trust(); err != nil {
		return err
	}
	if err := m.asWorker(); err != nil {
		return err
	}
	if err := s.claimOut(); err != nil {
		return err
	}
	if s.telemetry {
		src, closeSource, openErr := a.openGPUs()
		if openErr != nil {
			return fmt.Errorf("-telemetry: %w", openErr)
		}
		m.source = src
		defer func() { err = errors.Join(err, closeSource()) }()
	}
	switch {
	case s.scene:
		err = m.runScene(ctx)
	case s.plan != "":
		err = m.runPlan(ctx)
	case len(s.search) > 0:
		err = m.runSearch(ctx)
	default:
		err = m.runSweep(ctx)
	}
	return m.finish(ctx, err)
}

// read reads the plan, or the files of the flags.
func (a *app) read(s *settings) (err error) {
	opts := planfile.Options{Stdin: a.stdin}
	if opts.Prompts, err = prompt.Read(bytes.NewReader(builtinPrompts)); err != nil {
		return err
	}
	if s.plan != "" {
		file, err := planfile.Load(s.plan, opts)
		if err != nil {
			return fmt.Errorf("-plan %w", err)
		}
		s.file = *file
		return nil
	}
	if s.trace.File != "" {
		s.tenant().Trace = &s.trace
	}
	if s.endpoint != "" {
		s.tenant().Endpoints = []planfile.Endpoint{{URL: s.endpoint, APIKeyEnv: s.apiKeyEnv}}
	} else {
		s.file.Embedded = "concurrent" // each scenario says how
	}
	s.levels()[0].apply(s.tenant())
	return s.file.Resolve(opts)
}

// claimOut refuses, before anything is sent, a directory that holds something.
func (s *settings) claimOut() error {
	if s.out == "" {
		return nil
	}
	entries, err := os.ReadDir(s.out)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("-out: %w: %s (choose another one, or remove it)", loadgen.ErrRunExists, s.out)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("-out: %w", err)
	}
	return nil
}

// safeArguments are the arguments without the values of headers. Credentials in other
// places are the run's to remove.
func safeArguments(args []string) []string {
	safe := slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "header=") || i > 0 && strings.TrimLeft(args[i-1], "-") == "header" {
			name, _, _ := strings.Cut(arg, ":")
			safe[i] = name + ": [redacted]"
		}
	}
	return safe
}

// run makes one run and keeps its result, also when it was cut off.
func (m *measurement) run(ctx context.Context, name string, plan loadgen.LoadPlan, saturation *loadgen.Saturation) (res *loadgen.Result, err error) {
	opts := loadgen.Options{Health: m.app.health, Meta: m.meta, Saturation: saturation, Worker: m.worker, StartAt: m.startAt}
	if m.s.out != "" {
		opts.Dir = m.s.out
		if m.several {
			opts.Dir = filepath.Join(m.s.out, fileName(name))
		}
		b, besideErr := m.recordBeside(ctx, opts.Dir)
		if besideErr != nil {
			return nil, besideErr
		}
		defer func() { err = errors.Join(err, b.end(&plan)) }()
	}
	if m.s.progress {
		opts.Progress = (&progress{w: m.app.stderr, label: name}).show
	}
	res, err = loadgen.Run(ctx, plan, opts)
	if res != nil {
		m.results = append(m.results, res)
	}
	return res, err
}

// fileName turns a name into one path element.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>| `, r) {
			return '-'
		}
		return r
	}, name)
}

// finish reports what was measured and gives the verdict.
func (m *measurement) finish(ctx context.Context, err error) error {
	if err != nil && len(m.results) == 0 {
		if ctx.Err() != nil {
			return failed("interrupted before anything was measured")
		}
		return err
	}
	err = errors.Join(err, m.show())
	where := ""
	if m.s.out != "" {
		where = "; what was measured is in " + m.s.out
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return failed("interrupted%s", where)
	case errors.As(err, new(*exitError)):
		return err
	case err != nil:
		return failed("%w%s", err, strings.Replace(where, "was measured", "could be kept", 1))
	}
	return m.verdict()
}

func (m *measurement) verdict() error {
	all := loadgen.Counts{ByClass: map[loadgen.Class]int64{}, Examples: map[loadgen.Class]string{}}
	var spoiled []string
	for _, r := range m.results {
		for c, n := range r.Summary.Counts.ByClass {
			all.ByClass[c] += n
			all.Examples[c] = cmp.Or(all.Examples[c], r.Summary.Counts.Examples[c])
		}
		if h := r.Summary.ClientHealth; !h.Valid {
			spoiled = append(spoiled, fmt.Sprintf("%s: %s", r.Summary.RunID, strings.Join(h.Reasons, "; ")))
		}
	}
	switch {
	case len(all.ByClass) == 0:
		return failed("no request succeeded (none was sent)")
	case all.ByClass[loadgen.ClassOK] == 0 && all.ByClass[loadgen.ClassClientLimit] == 0:
		return failed("no request succeeded (%s)", report.FailedByClass(&all))
	case len(spoiled) > 0 && m.discards:
		fmt.Fprintf(m.app.stderr, "benchmark: %d trials were discarded, invalid by client health: %s\n", len(spoiled), spoiled[0])
	case len(spoiled) > 0:
		return &exitError{exitInvalid, fmt.Errorf("invalid by client health: %s", strings.Join(spoiled, "\n  "))}
	}
	var missed []error
	for _, r := range m.results {
		if m.s != nil && len(m.s.failIf) > 0 {
			missed = append(missed, report.GateConditions(&r.Summary, m.s.failIf))
		}
	}
	if err := errors.Join(missed...); err != nil {
		return &exitError{exitMissed, err}
	}
	return nil
}

// show prints the results and writes the report.
func (m *measurement) show() error {
	var b bytes.Buffer // written at once: nothing is shown of a report that fails
	var err error
	switch {
	case m.s.asJSON:
		var all []any
		for _, r := range m.results {
			all = append(all, &r.Summary)
			if m.s.price.Sign() > 0 {
				var costs []tenantCosts
				if costs, err = tokenCosts(&r.Summary, m.s.price); err != nil {
					return err
				}
				all[len(all)-1] = struct {
					*loadgen.Summary
					Costs []tenantCosts `json:"token_costs"`
				}{&r.Summary, costs}
			}
		}
		err = writeJSON(&b, all)
	case m.s.scene:
		err = writeScene(&b, m.results)
	case len(m.results) == 1:
		err = report.WriteSummary(&b, &m.results[0].Summary)
	default:
		err = report.ScenariosOf(m.results).WriteText(&b)
	}
	if err == nil && m.s.price.Sign() > 0 && !m.s.asJSON {
		err = writeCosts(&b, m.results, func(*loadgen.Summary) (cost.Money, error) { return m.s.price, nil })
	}
	if err == nil && m.s.report {
		err = writeReport(m.s.out, m.results)
	}
	if err != nil {
		return err
	}
	if m.s.out != "" && !m.s.asJSON {
		fmt.Fprintf(&b, "\nartifacts: %s\n", m.s.out)
		if m.s.report {
			fmt.Fprintf(&b, "report:    %s\n", filepath.Join(m.s.out, reportFile))
		}
	}
	_, err = m.app.stdout.Write(b.Bytes())
	return err
}
