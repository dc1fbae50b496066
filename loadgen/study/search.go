package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// search looks for the highest rate that keeps the SLOs. Only here is a run stopped when the server is over-saturated.
func (t *test) search(ctx context.Context) error {
	t.several = true
	lengthened := map[float64]bool{}
	return t.targets(func(to target) error {
		trial := func(ctx context.Context, rate float64, repeat int) (loadgen.Trial, error) {
			l := rateLevel(rate)
			plan, err := t.at(to, &l, repeat)
			if err != nil {
				return loadgen.Trial{}, err
			}
			if note := lengthen(&plan, rate, t.Config.Search.TrialRequests()); note != "" && !lengthened[rate] {
				lengthened[rate] = true
				t.Note(fmt.Sprintf("search: trials at %.4g/s %s", rate, note))
			}
			name := fmt.Sprintf("%s-%s-%d", to.scenario, l.name, repeat+1)
			res, err := t.run(ctx, name, plan, true)
			if err != nil {
				return loadgen.Trial{}, err
			}
			if h := res.Summary.ClientHealth; !h.Valid {
				t.Note(name + ": disturbed, discarded (" + strings.Join(h.Reasons, "; ") + ")")
			}
			return loadgen.TrialOf(rate, repeat, &res.Summary), nil
		}
		var err error
		if t.Outcome.Search, err = t.Config.Search.Run(ctx, trial); t.Outcome.Search == nil {
			return err
		}
		return errors.Join(err, t.write(SearchFile, t.Outcome.Search))
	})
}

// lengthen makes a trial long enough for its requests to decide, and describes the change: "" where there was none.
func lengthen(plan *loadgen.LoadPlan, rate float64, requests int) string {
	t := &plan.Tenants[0]
	var notes []string
	if t.Requests > 0 && t.Requests < requests {
		notes = append(notes, fmt.Sprintf("make %d requests instead of %d", requests, t.Requests))
		t.Requests = requests
	}
	expected := float64(requests)
	if _, even := t.Load.Schedule.(loadgen.Constant); !even {
		expected += 3 * math.Sqrt(expected) // three standard deviations of a Poisson count
	}
	needs := time.Duration(math.Ceil(expected/rate*10)) * 100 * time.Millisecond
	if plan.Duration > 0 && plan.Duration < needs {
		notes = append(notes, fmt.Sprintf("last %v instead of %v", needs, plan.Duration))
		plan.Duration = needs
	}
	if len(notes) == 0 {
		return ""
	}
	return strings.Join(notes, " and ") + fmt.Sprintf(": %d requests each are needed to decide", requests)
}

// write puts a file beside the runs, nowhere without a directory.
func (t *test) write(name string, v any) error {
	if t.Dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	return errors.Join(err, os.MkdirAll(t.Dir, 0o755), os.WriteFile(filepath.Join(t.Dir, name), append(data, '\n'), 0o644))
}
