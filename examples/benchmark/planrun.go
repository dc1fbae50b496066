package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/report"
)

// start starts the embedded servers, if the plan has any.
func (p *planFile) start() (*embedded, error) {
	if p.Embedded == "" {
		return nil, nil
	}
	var models []loadgentest.Model
	for i := range p.Tenants {
		m := simulatedModel
		m.SMShare, m.BandwidthShare = p.Tenants[i].SMShare, p.Tenants[i].BWShare
		models = append(models, m)
	}
	e, err := startEmbedded(p.sharing, uint64(p.Seed), models...)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return e, nil
}

// runPlan runs the plan once for each repeat, or its study.
func (m *measurement) runPlan(ctx context.Context, in inputs) (err error) {
	e, err := in.plan.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	var urls []string
	if e != nil {
		urls = e.urls()
	}
	cases := func() ([]loadgen.StudyCase, error) {
		plan, err := in.plan.build(urls)
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
		first := len(m.results)
		for i := range all {
			fresh, err := cases() // each case's prompts start over
			if err != nil {
				return err
			}
			c := fresh[i]
			c.Plan.Seed += uint64(repeat)
			name := c.Name
			if name == "" {
				name = "plan"
			}
			if m.s.repeats > 1 {
				name += fmt.Sprintf("-%d", repeat+1)
			}
			if _, err := m.run(ctx, point{name: name, plan: c.Plan}, nil); err != nil {
				return err
			}
		}
		if m.s.study {
			if err := m.showSlowdowns(summariesOf(m.results[first:])); err != nil {
				return err
			}
		}
	}
	return nil
}

// showSlowdowns prints what each tenant loses beside the others. The last run is
// the one with all of them.
func (m *measurement) showSlowdowns(runs []*loadgen.Summary) error {
	together := runs[len(runs)-1]
	w := m.app.stdout
	if together.Basis != "measured" {
		fmt.Fprintln(w, syntheticNote)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "together / alone\tttft p50\tttft p99\ttpot p50\tchunk gap p99\te2e p99\ttokens/s\tvalid")
	for _, d := range report.Slowdowns(together, runs[:len(runs)-1]) {
		fmt.Fprintf(tw, "%s", d.Tenant)
		for _, factor := range []report.Optional[float64]{d.TTFTP50, d.TTFTP99, d.TPOTP50, d.ChunkGapP99, d.E2EP99, d.TokenRate} {
			if f, ok := factor.Get(); ok {
				fmt.Fprintf(tw, "\t%.2fx", f)
			} else {
				fmt.Fprint(tw, "\t-")
			}
		}
		fmt.Fprintf(tw, "\t%v\n", d.Valid)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
