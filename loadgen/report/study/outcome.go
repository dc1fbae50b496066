package study

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// WriteText writes the outcome for people: the slow-downs and the search where there
// are any, then the summary of a single run or the table of several.
func (o *Outcome) WriteText(w io.Writer) error {
	for _, table := range o.Slowdowns {
		if err := table.WriteText(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if o.Search != nil {
		if o.Results[0].Summary.Basis != "measured" {
			fmt.Fprintln(w, report.SyntheticNote)
		}
		if err := o.Search.WriteText(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	switch {
	case o.demo:
		return writeDemo(w, o.Results)
	case len(o.Results) == 1:
		return report.WriteSummary(w, &o.Results[0].Summary)
	}
	return report.ScenariosOf(o.Results).WriteText(w)
}

// Verdict returns nil when requests succeeded, the client spoiled no run, the servers'
// token counts are plausible and none of
// the conditions of Config.FailIf holds. Otherwise the error wraps ErrNothingSucceeded, ErrInvalid or
// report.ErrGate, the first that applies. A search makes spoiled trials again: they
// do not make it invalid while one of its trials is valid.
func (o *Outcome) Verdict() error {
	all := loadgen.Counts{ByClass: map[loadgen.Class]int64{}, Examples: map[loadgen.Class]string{}}
	var spoiled, implausible []string
	for _, r := range o.Results {
		for c, n := range r.Summary.Counts.ByClass {
			all.ByClass[c] += n
			all.Examples[c] = cmp.Or(all.Examples[c], r.Summary.Counts.Examples[c])
		}
		if h := r.Summary.ClientHealth; !h.Valid {
			spoiled = append(spoiled, fmt.Sprintf("%s: %s", r.Summary.RunID, strings.Join(h.Reasons, "; ")))
		}
		for _, reason := range r.Summary.Implausible() {
			implausible = append(implausible, r.Summary.RunID+": "+reason)
		}
	}
	switch {
	case len(all.ByClass) == 0:
		return fmt.Errorf("%w (none was sent)", ErrNothingSucceeded)
	case all.ByClass[loadgen.ClassOK] == 0 && all.ByClass[loadgen.ClassClientLimit] == 0:
		return fmt.Errorf("%w (%s)", ErrNothingSucceeded, report.FailedByClass(&all))
	case len(spoiled) > 0 && (o.Search == nil || len(spoiled) == len(o.Results)):
		return fmt.Errorf("%w: by client health: %s", ErrInvalid, strings.Join(spoiled, "\n  "))
	case len(implausible) > 0:
		return fmt.Errorf("%w: by token counts: %s", ErrInvalid, strings.Join(implausible, "\n  "))
	}
	var missed []error
	for _, r := range o.Results {
		if len(o.failIf) > 0 {
			missed = append(missed, report.Gate(&r.Summary, o.failIf...))
		}
	}
	return errors.Join(missed...)
}
