package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/loadgen"
)

const searchFile = "search.json"

// runSearch looks for the highest rate that keeps the SLOs. Only here is a run
// stopped when the server is over-saturated.
func (m *measurement) runSearch(ctx context.Context, in inputs) error {
	s := m.s
	m.several = true
	if len(s.scenarios()) > 1 {
		return errors.New("-search: searches one scenario at a time")
	}
	t, err := s.open(s.scenarios()[0])
	if err != nil {
		return err
	}
	search := loadgen.Search{Low: s.search[0], High: s.search[1]}
	found, err := search.Run(ctx, func(ctx context.Context, rate float64, repeat int) (loadgen.Trial, error) {
		tenant, err := s.tenant(in, t.urls)
		if err != nil {
			return loadgen.Trial{}, err
		}
		tenant.Load = loadgen.OfferedLoad{Schedule: s.schedule(rate)}
		p := point{name: fmt.Sprintf("%s-r%.4g-%d", t.scenario, rate, repeat+1), plan: s.plan(t, repeat, tenant)}
		res, err := m.run(ctx, p, &loadgen.Saturation{})
		if err != nil {
			return loadgen.Trial{}, err
		}
		return loadgen.TrialOf(rate, repeat, &res.Summary), nil
	})
	err = errors.Join(err, t.close())
	if found == nil {
		return err
	}
	var b strings.Builder
	if t.simulated {
		fmt.Fprintln(&b, syntheticNote)
	}
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "rate/s\tkeep the SLO\tat least\tat most\tverdict")
	for _, r := range found.Rates {
		fmt.Fprintf(tw, "%.4g\t%.2f%%\t%.2f%%\t%.2f%%\t%s\n", r.RatePerS, 100*r.Attainment, 100*r.Lower, 100*r.Upper, r.Verdict)
	}
	if flushErr := tw.Flush(); flushErr != nil {
		return errors.Join(err, flushErr)
	}
	highest := "none found"
	if rate, ok := found.PassesPerS.Get(); ok {
		highest = fmt.Sprintf("%.4g/s", rate)
	}
	fmt.Fprintf(&b, "highest rate that keeps the SLO for %.0f%% of the requests (confidence %.0f%%): %s\n\n", 100*found.Attainment, 100*found.Confidence, highest)
	if _, writeErr := m.app.stdout.Write([]byte(b.String())); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	if s.out != "" {
		if writeErr := errors.Join(os.MkdirAll(s.out, 0o755), writeJSON(filepath.Join(s.out, searchFile), found)); writeErr != nil {
			err = errors.Join(err, writeErr)
		}
	}
	return err
}
