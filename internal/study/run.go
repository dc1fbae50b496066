// SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// Outcome holds the results of a load test in the order of its runs.
type Outcome struct {
	Results []*loadgen.Result
	// Search is nil unless there was one.
	Search *loadgen.SearchResult

	demo   bool
	failIf []report.Condition
}

// searchFile is the name of a search's outcome in Config.Dir.
const searchFile = "search.json"

var (
	// ErrNothingSucceeded is returned when no request of a load test was answered.
	ErrNothingSucceeded = errors.New("study: no request succeeded")
	// ErrInvalid is returned when the client spoiled a run, or a server's token counts
	// contradict its answers; see loadgen.ClientHealth and loadgen.Summary.Implausible.
	ErrInvalid = errors.New("study: invalid")
)

// test gathers the runs that are made.
type test struct {
	Config
	*Outcome
	several bool // each run has a folder of its own
}

// run makes one run and keeps its result, also when it was cut off.
func (t *test) run(ctx context.Context, name string, plan loadgen.LoadPlan) (*loadgen.Result, error) {
	opts := loadgen.Options{Health: t.Health, Meta: t.Meta}
	if t.Dir != "" {
		opts.Dir = t.Dir
		if t.several {
			opts.Dir = filepath.Join(t.Dir, fileName(name))
		}
	}
	if t.Progress != nil {
		opts.Progress = func(now loadgen.Progress) { t.Progress(name, now) }
	}
	res, err := loadgen.Run(ctx, plan, opts)
	if res != nil {
		t.Results = append(t.Results, res)
	}
	return res, err
}

func (t *test) repeated(name string, repeat int) string {
	if t.Repeats > 1 {
		return fmt.Sprintf("%s-%d", name, repeat+1)
	}
	return name
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

// write puts a file into the directory of the runs, if there is one.
func (t *test) write(name string, v any) error {
	if t.Dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	return errors.Join(err, os.MkdirAll(t.Dir, 0o755), os.WriteFile(filepath.Join(t.Dir, name), append(data, '\n'), 0o644))
}
