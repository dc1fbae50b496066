// SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/loadgen"
)

// searchTrial is the length of a search's trials where neither a duration nor a number of requests bounds them, and the
// least time that is left to requests in flight at their end.
const searchTrial = 30 * time.Second

// search looks for the highest rate that keeps the SLOs. The time limit, noted before the first run, allows each run
// the time of its load, and some for the requests in flight then.
func (t *test) search(ctx context.Context) error {
	t.several = true
	f := &t.File
	if f.Tenants[0].Requests == 0 {
		f.Duration = cmp.Or(f.Duration, searchTrial)
	}
	// By the requests, at the lowest rate.
	longest := time.Duration(float64(f.Tenants[0].Requests) / t.Config.Search.Low * 1e9)
	if f.Duration > 0 && (longest == 0 || f.Duration < longest) {
		longest = f.Duration
	}
	f.Drain = cmp.Or(f.Drain, min(max(longest, searchTrial), f.Tenants[0].Timeouts.Total))
	s := t.Config.Search
	s.Limit = cmp.Or(s.Limit, time.Duration(s.MaxTrials())*(longest+f.Drain+time.Second).Round(time.Second))
	t.Note(fmt.Sprintf("search: at most %d runs of up to %v each; ends within %v (-search-limit)", s.MaxTrials(),
		longest.Round(100*time.Millisecond), s.Limit))
	return t.targets(func(to target) error {
		trials := 0
		trial := func(ctx context.Context, rate float64) (*loadgen.Summary, error) {
			l := rateLevel(rate)
			plan, err := t.at(to, &l, trials)
			if err != nil {
				return nil, err
			}
			trials++
			name := fmt.Sprintf("%s-%s-%d", to.scenario, l.name, trials)
			res, err := t.run(ctx, name, plan)
			if err != nil {
				return nil, err
			}
			if h := res.Summary.ClientHealth; !h.Valid {
				t.Note(name + ": disturbed, discarded (" + strings.Join(h.Reasons, "; ") + ")")
			}
			return &res.Summary, nil
		}
		var err error
		if t.Outcome.Search, err = s.Run(ctx, trial); t.Outcome.Search == nil {
			return err
		}
		return errors.Join(err, t.write(searchFile, t.Outcome.Search))
	})
}

// writeSearch writes the highest rate that passed, and the rates that were tried.
func writeSearch(w io.Writer, r *loadgen.SearchResult) error {
	highest, note := "none found", ""
	if rate, ok := r.PassesPerS.Get(); ok {
		highest = fmt.Sprintf("%.4g/s", rate)
		for _, v := range r.Rates {
			if needs := requestsToPass(r.Attainment, r.Confidence); v.RatePerS == rate && !v.Shown {
				note = fmt.Sprintf("%.4g/s kept it with %d requests, which are too few to show it at confidence %.0f%%: %d are "+
					"needed, all in time, which take %.0f s (-duration)\n", rate, v.Requests, 100*r.Confidence, needs,
					math.Ceil(float64(needs)/rate))
			}
		}
	}
	if r.CutOff {
		note += "the time limit ended the search before the bracket was narrow (-search-limit)\n"
	}
	fmt.Fprintf(w, "highest rate that keeps the SLO for %.4g%% of the requests: %s\n%s\n", 100*r.Attainment, highest, note)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "rate/s\trequests\tkeep the SLO\tat least\tat most\tverdict")
	for _, v := range r.Rates {
		verdict := map[bool]string{true: "passes", false: "fails"}[v.Passes]
		if !v.Shown {
			verdict += ", not shown"
		}
		fmt.Fprintf(tw, "%.4g\t%d\t%.2f%%\t%.2f%%\t%.2f%%\t%s\n", v.RatePerS, v.Requests, 100*v.Attainment, 100*v.Lower,
			100*v.Upper, verdict)
	}
	return tw.Flush()
}

// requestsToPass is the least number of requests that can show a rate to pass, with every one of them in time.
func requestsToPass(attainment, confidence float64) int {
	z := distuv.UnitNormal.Quantile(confidence)
	return int(math.Ceil(z*z*attainment/(1-attainment) - 1e-9))
}
