package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/telemetry"
)

// point is one run to be made.
type point struct {
	name string // of its directory, when there are several
	plan loadgen.LoadPlan
}

// measurement gathers the runs that were made.
type measurement struct {
	app     *app
	s       *settings
	meta    map[string]any
	several bool
	results []*loadgen.Result
	source  telemetry.Reader // nil without -telemetry
	worker  loadgen.Worker   // all of the load unless the environment says otherwise
	startAt time.Time
}

// measure makes every run that the settings ask for and reports them.
func (a *app) measure(ctx context.Context, s *settings, args []string) (err error) {
	m := &measurement{app: a, s: s, meta: map[string]any{"arguments": safeArguments(args)}}
	inputs, err := a.readInputs(s)
	if err != nil {
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
	case inputs.plan != nil:
		err = m.runPlan(ctx, inputs)
	case len(s.search) > 0:
		err = m.runSearch(ctx, inputs)
	default:
		err = m.runSweep(ctx, inputs)
	}
	return m.finish(ctx, err)
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

// safeArguments are the arguments without the values of headers.
func safeArguments(args []string) []string {
	safe := make([]string, len(args))
	for i, arg := range args {
		flagName, value, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case strings.HasPrefix(arg, "-") && inline && flagName == "header":
			safe[i] = "-header=" + headerName(value)
		case i > 0 && strings.TrimLeft(args[i-1], "-") == "header" && strings.HasPrefix(args[i-1], "-"):
			safe[i] = headerName(arg)
		default:
			safe[i] = arg
		}
	}
	return safe
}

func headerName(header string) string {
	name, _, _ := strings.Cut(header, ":")
	return name + ": [redacted]"
}

// tenant is the flags' tenant, without its load.
func (s *settings) tenant(in inputs, urls []string) (loadgen.Tenant, error) {
	t := loadgen.Tenant{
		Name: "load", Model: s.model, API: s.api, MaxTokens: s.maxTokens, Requests: s.requests, Warmup: s.warmup, SLO: s.slo,
		NonStreaming: s.nonStreaming, Usage: s.usage, Retry: loadgen.Retry{Max: s.retries}, Timeouts: loadgen.Timeouts{Total: s.timeout},
	}
	key := loadgen.Secret("")
	if s.apiKeyEnv != "" {
		key = loadgen.Secret(os.Getenv(s.apiKeyEnv))
	}
	for _, u := range urls {
		t.Endpoints = append(t.Endpoints, loadgen.Endpoint{URL: u, APIKey: key, Header: s.header.Header})
	}
	if in.trace == nil {
		t.Prompts = loadgen.NewPromptCycle(in.prompts...)
		return t, nil
	}
	if !s.set["requests"] {
		t.Requests = 0
	}
	var err error
	t.Prompts, err = in.trace.Prompts(prompt.TraceOptions{Seed: s.seed})
	return t, err
}

// loadPoint is a load and its short name.
type loadPoint struct {
	name string
	load loadgen.OfferedLoad
}

func (s *settings) loads(in inputs) []loadPoint {
	switch {
	case in.trace != nil:
		return []loadPoint{{"trace", loadgen.OfferedLoad{Schedule: in.trace.Schedule(s.trace.speed)}}}
	case len(s.rate) > 0:
		var points []loadPoint
		for _, r := range s.rate {
			points = append(points, loadPoint{fmt.Sprintf("r%v", r), loadgen.OfferedLoad{Schedule: s.schedule(r)}})
		}
		return points
	}
	levels := s.concurrency
	if len(levels) == 0 {
		levels = intList{8}
	}
	var points []loadPoint
	for _, c := range levels {
		points = append(points, loadPoint{fmt.Sprintf("c%d", c), loadgen.OfferedLoad{Concurrency: c, Ramp: s.ramp, ThinkTime: s.think}})
	}
	return points
}

func (s *settings) schedule(rate float64) loadgen.Schedule {
	switch s.arrivals {
	case "poisson":
		return loadgen.Poisson{PerS: rate}
	case "gamma":
		return loadgen.Gamma{PerS: rate, Burstiness: s.burstiness}
	}
	return loadgen.Constant{PerS: rate}
}

// target is what one scenario's load goes to.
type target struct {
	scenario  string
	simulated bool
	urls      []string
	close     func() error
}

func (s *settings) scenarios() []string {
	if s.endpoint != "" {
		return []string{""}
	}
	if len(s.simulate) > 0 {
		return s.simulate
	}
	return []string{"baseline"}
}

func (s *settings) open(name string) (*target, error) {
	if s.endpoint != "" {
		scenario := s.scenario
		if scenario == "" {
			scenario = "endpoint"
		}
		return &target{scenario: scenario, urls: []string{s.endpoint}, close: func() error { return nil }}, nil
	}
	e, err := startScenario(name, s.seed)
	if err != nil {
		return nil, failed("cannot start the embedded server: %w", err)
	}
	if s.scenario != "" {
		name = strings.TrimPrefix(s.scenario+"-"+name, "-")
	}
	return &target{scenario: name, simulated: true, urls: e.urls(), close: e.close}, nil
}

func (m *measurement) runSweep(ctx context.Context, in inputs) error {
	s := m.s
	loads := s.loads(in)
	m.several = len(s.scenarios())*len(loads)*s.repeats > 1
	for _, name := range s.scenarios() {
		t, err := s.open(name)
		if err != nil {
			return err
		}
		err = func() error {
			for _, load := range loads {
				for repeat := range s.repeats {
					tenant, err := s.tenant(in, t.urls)
					if err != nil {
						return err
					}
					tenant.Load = load.load
					p := point{name: t.scenario + "-" + load.name, plan: s.plan(t, repeat, tenant)}
					if s.repeats > 1 {
						p.name += fmt.Sprintf("-%d", repeat+1)
					}
					if _, err := m.run(ctx, p, nil); err != nil {
						return err
					}
				}
			}
			return nil
		}()
		if err := errors.Join(err, t.close()); err != nil {
			return err
		}
	}
	return nil
}

// plan puts a run together. Repeats differ in their seed.
func (s *settings) plan(t *target, repeat int, tenants ...loadgen.Tenant) loadgen.LoadPlan {
	return loadgen.LoadPlan{
		Scenario: t.scenario, Tenants: tenants, Duration: s.duration, Drain: s.drain, Seed: s.seed + uint64(repeat), Simulated: t.simulated,
		Window: loadgen.Window{From: s.window.from, To: s.window.to},
	}
}

// run makes one run and keeps its result, also when it was cut off.
func (m *measurement) run(ctx context.Context, p point, saturation *loadgen.Saturation) (res *loadgen.Result, err error) {
	opts := loadgen.Options{Health: m.app.health, Meta: m.meta, Saturation: saturation, Worker: m.worker, StartAt: m.startAt}
	if m.s.out != "" {
		opts.Dir = m.s.out
		if m.several {
			opts.Dir = filepath.Join(m.s.out, fileName(p.name))
		}
	}
	if opts.Dir != "" {
		b, besideErr := m.recordBeside(ctx, opts.Dir)
		if besideErr != nil {
			return nil, besideErr
		}
		defer func() { err = errors.Join(err, b.end(&p.plan)) }()
	}
	if m.s.progress {
		opts.Progress = (&progress{w: m.app.stderr, label: p.name}).show
	}
	res, err = loadgen.Run(ctx, p.plan, opts)
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
	if reportErr := m.show(); reportErr != nil {
		err = errors.Join(err, reportErr)
	}
	where := ""
	if m.s.out != "" {
		where = "; what was measured is in " + m.s.out
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return failed("interrupted%s", where)
	case err != nil:
		return failed("%w%s", err, strings.Replace(where, "was measured", "could be kept", 1))
	}
	return m.verdict()
}

func (m *measurement) verdict() error {
	var ok int64
	var spoiled []string
	for _, r := range m.results {
		ok += r.Summary.Counts.OK
		if h := r.Summary.ClientHealth; !h.Valid {
			spoiled = append(spoiled, fmt.Sprintf("%s: %s", r.Summary.RunID, strings.Join(h.Reasons, "; ")))
		}
	}
	switch {
	case ok == 0:
		return failed("no request succeeded (%s)", classes(m.results))
	case len(spoiled) > 0:
		return &exitError{exitInvalid, fmt.Errorf("invalid by client health: %s", strings.Join(spoiled, "\n  "))}
	}
	return nil
}

// show prints the results and writes the report.
func (m *measurement) show() error {
	var b bytes.Buffer // written at once: nothing is shown of a report that fails
	summaries := make([]*loadgen.Summary, len(m.results))
	for i, r := range m.results {
		summaries[i] = &r.Summary
	}
	if m.s.asJSON {
		data, err := json.MarshalIndent(summaries, "", "  ")
		if err != nil {
			return err
		}
		b.Write(append(data, '\n'))
	} else if len(summaries) == 1 {
		writeRun(&b, summaries[0])
	} else {
		writeStudy(&b, studyRows(summaries))
	}
	if m.s.report {
		if err := writeReport(m.s.out, m.results); err != nil {
			return err
		}
	}
	if m.s.out != "" && !m.s.asJSON {
		fmt.Fprintf(&b, "\nartifacts: %s\n", m.s.out)
		if m.s.report {
			fmt.Fprintf(&b, "report:    %s\n", filepath.Join(m.s.out, reportFile))
		}
	}
	_, err := m.app.stdout.Write(b.Bytes())
	return err
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
