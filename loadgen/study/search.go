// SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// searchTrial is the length of a search's trials where neither a duration nor a number of requests bounds them, and the
// least time that is left to requests in flight at their end.
const searchTrial = 30 * time.Second

// search looks for the highest rate that keeps the SLOs. Only here is a run stopped when the server is over-saturated.
// The time limit is noted before the first trial: each has its load's time, and time for the requests in flight then.
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
	trials := s.MaxRates() + loadgen.SpoiledTrials
	s.Limit = cmp.Or(s.Limit, time.Duration(trials)*(longest+f.Drain+time.Second).Round(time.Second))
	t.Note(fmt.Sprintf("search: at most %d rates of up to %v each, and %d trials again; ends within %v (-search-limit)",
		s.MaxRates(), longest.Round(100*time.Millisecond), loadgen.SpoiledTrials, s.Limit))
	return t.targets(func(to target) error {
		trials := 0
		trial := func(ctx context.Context, rate float64) (loadgen.Trial, error) {
			l := rateLevel(rate)
			plan, err := t.at(to, &l, trials)
			if err != nil {
				return loadgen.Trial{}, err
			}
			trials++
			name := fmt.Sprintf("%s-%s-%d", to.scenario, l.name, trials)
			res, err := t.run(ctx, name, plan, true)
			if err != nil {
				return loadgen.Trial{}, err
			}
			if h := res.Summary.ClientHealth; !h.Valid {
				t.Note(name + ": disturbed, discarded (" + strings.Join(h.Reasons, "; ") + ")")
			}
			return loadgen.TrialOf(rate, &res.Summary), nil
		}
		var err error
		if t.Outcome.Search, err = s.Run(ctx, trial); t.Outcome.Search == nil {
			return err
		}
		return errors.Join(err, t.write(searchFile, t.Outcome.Search))
	})
}

// write puts a file into the directory of the runs, if there is one.
func (t *test) write(name string, v any) error {
	if t.Dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	return errors.Join(err, os.MkdirAll(t.Dir, 0o755), os.WriteFile(filepath.Join(t.Dir, name), append(data, '\n'), 0o644))
}
