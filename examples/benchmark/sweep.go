package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/planfile"
	"github.com/cotenant/cotenant/loadgen/report"
)

// level is a load of a sweep and its short name.
type level struct {
	name        string
	concurrency int
	rate        float64 // 0 of both: the trace's
}

func (s *settings) levels() []level {
	var out []level
	for _, r := range append(s.rate, s.search...) {
		out = append(out, level{name: fmt.Sprintf("r%v", r), rate: r})
	}
	for _, c := range s.concurrency {
		out = append(out, level{name: fmt.Sprintf("c%d", c), concurrency: c})
	}
	switch {
	case s.trace.File != "":
		return []level{{name: "trace"}}
	case len(out) == 0:
		return []level{{name: "c8", concurrency: 8}}
	}
	return out
}

func (l level) apply(t *planfile.Tenant) {
	if t.Concurrency, t.Rate = l.concurrency, l.rate; l.rate == 0 {
		t.Arrivals = ""
	}
}

// target is what one scenario's load goes to.
type target struct {
	scenario string
	embedded *loadgentest.Simulation // nil with -endpoint
}

// targets are the names of what is measured.
func (s *settings) targets() []string {
	switch {
	case s.endpoint != "":
		return []string{"endpoint"}
	case len(s.simulate) > 0:
		return s.simulate
	}
	return []string{"baseline"}
}

func (s *settings) open(name string) (*target, error) {
	t := &target{scenario: name}
	if s.endpoint != "" {
		if s.file.Scenario != "" {
			t.scenario = s.file.Scenario
		}
		return t, nil
	}
	if s.file.Scenario != "" {
		t.scenario = s.file.Scenario + "-" + name
	}
	var err error
	t.embedded, err = embedScenario(name, s.file.Seed)
	return t, err
}

// at is the flags' plan at a level of load, with prompts from their beginning.
// Repeats differ in their seed.
func (s *settings) at(t *target, l level, repeat int) (loadgen.LoadPlan, error) {
	f := s.file
	f.Tenants = []planfile.Tenant{*s.tenant()}
	l.apply(&f.Tenants[0])
	plan, err := f.Plan(t.embedded.Endpoints())
	if err != nil {
		return plan, err
	}
	if t.embedded != nil {
		plan.Tenants[0].Endpoints = t.embedded.Endpoints() // each replica
	} else {
		e := &plan.Tenants[0].Endpoints[0]
		e.Header = s.header
		if e.TLS, err = s.trust(); err != nil {
			return plan, err
		}
	}
	plan.Scenario = t.scenario
	plan.Seed += uint64(repeat)
	return plan, nil
}

func (m *measurement) runSweep(ctx context.Context) error {
	s := m.s
	m.several = len(s.targets())*len(s.levels())*s.repeats > 1
	for _, name := range s.targets() {
		t, err := s.open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(m.sweep(ctx, t), t.embedded.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) sweep(ctx context.Context, t *target) error {
	for _, l := range m.s.levels() {
		for repeat := range m.s.repeats {
			plan, err := m.s.at(t, l, repeat)
			if err != nil {
				return err
			}
			if _, err := m.run(ctx, m.repeated(t.scenario+"-"+l.name, repeat), plan, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// repeated is the name of a repeat.
func (m *measurement) repeated(name string, repeat int) string {
	if m.s.repeats > 1 {
		return fmt.Sprintf("%s-%d", name, repeat+1)
	}
	return name
}

// runPlan runs the plan once for each repeat, or its study.
func (m *measurement) runPlan(ctx context.Context) (err error) {
	e, err := embedTenants(&m.s.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	cases := func() ([]loadgen.StudyCase, error) {
		plan, err := m.s.file.Plan(e.Endpoints())
		if m.s.study {
			return loadgen.Study(plan), err
		}
		return []loadgen.StudyCase{{Name: plan.Scenario, Plan: plan}}, err
	}
	all, err := cases()
	if err != nil {
		return err
	}
	m.several = len(all)*m.s.repeats > 1
	for repeat := range m.s.repeats {
		var alone []*loadgen.Summary // the last run is the one with all tenants
		var together *loadgen.Summary
		for i := range all {
			fresh, err := cases() // each case's prompts start over
			if err != nil {
				return err
			}
			c := fresh[i]
			c.Plan.Seed += uint64(repeat)
			if c.Name == "" {
				c.Name = "plan"
			}
			res, err := m.run(ctx, m.repeated(c.Name, repeat), c.Plan, nil)
			if err != nil {
				return err
			}
			if together != nil {
				alone = append(alone, together)
			}
			together = &res.Summary
		}
		if m.s.study {
			if err := report.Slowdowns(together, alone).WriteText(m.app.stdout); err != nil {
				return err
			}
			fmt.Fprintln(m.app.stdout)
		}
	}
	return nil
}

// lengthen makes a trial long enough for its requests to decide, and says how long
// it is then, "" when it is long enough.
func lengthen(plan *loadgen.LoadPlan, rate float64, requests int) string {
	t := &plan.Tenants[0]
	var notes []string
	if t.Requests > 0 && t.Requests < requests {
		notes = append(notes, fmt.Sprintf("make %d requests instead of %d", requests, t.Requests))
		t.Requests = requests
	}
	expected := float64(requests)
	if _, even := t.Load.Schedule.(loadgen.Constant); !even {
		expected += 3 * math.Sqrt(expected) // random arrivals: hardly ever fewer
	}
	if needs := time.Duration(math.Ceil(expected/rate*10)) * 100 * time.Millisecond; plan.Duration > 0 && plan.Duration < needs {
		notes = append(notes, fmt.Sprintf("last %v instead of %v", needs, plan.Duration))
		plan.Duration = needs
	}
	if len(notes) == 0 {
		return ""
	}
	return strings.Join(notes, " and ") + fmt.Sprintf(": %d requests each are needed to decide", requests)
}

const searchFile = "search.json"

// runSearch looks for the highest rate that keeps the SLOs. Only here is a run
// stopped when the server is over-saturated.
func (m *measurement) runSearch(ctx context.Context) error {
	s := m.s
	m.several = true
	t, err := s.open(s.targets()[0])
	if err != nil {
		return err
	}
	search := loadgen.Search{Low: s.search[0], High: s.search[1]}
	lengthened := map[float64]bool{}
	found, err := search.Run(ctx, func(ctx context.Context, rate float64, repeat int) (loadgen.Trial, error) {
		l := level{name: fmt.Sprintf("r%.4g", rate), rate: rate}
		plan, err := s.at(t, l, repeat)
		if err != nil {
			return loadgen.Trial{}, err
		}
		if note := lengthen(&plan, rate, search.TrialRequests()); note != "" && !lengthened[rate] {
			lengthened[rate] = true
			fmt.Fprintf(m.app.stderr, "search: trials at %.4g/s %s\n", rate, note)
		}
		res, err := m.run(ctx, fmt.Sprintf("%s-%s-%d", t.scenario, l.name, repeat+1), plan, &loadgen.Saturation{})
		if err != nil {
			return loadgen.Trial{}, err
		}
		return loadgen.TrialOf(rate, repeat, &res.Summary), nil
	})
	err = errors.Join(err, t.embedded.Close())
	if found == nil {
		return err
	}
	m.discards = true // trials that the client spoiled were made again
	if !slices.ContainsFunc(found.Trials, func(t loadgen.Trial) bool { return t.Valid }) && errors.Is(err, loadgen.ErrNoRate) {
		err = &exitError{exitInvalid, err}
	}
	if t.embedded != nil {
		fmt.Fprintln(m.app.stdout, report.SyntheticNote)
	}
	err = errors.Join(err, found.WriteText(m.app.stdout))
	fmt.Fprintln(m.app.stdout)
	if s.out != "" {
		data, jsonErr := json.MarshalIndent(found, "", "  ")
		err = errors.Join(err, jsonErr, os.MkdirAll(s.out, 0o755), os.WriteFile(filepath.Join(s.out, searchFile), append(data, '\n'), 0o644))
	}
	return err
}
