// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Question asks of one tenant of a measured mix whether a latency stays at most at a limit. Its ID is that of the
// mix, the tenant and the limit; a submission answers by it.
type Question struct {
	ID        string            `json:"id"`
	Series    string            `json:"series"`
	Case      string            `json:"case"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Tenant    int               `json:"tenant"` // in the order of the case's rows, from 0
	Metric    profile.Metric    `json:"metric"`
	LimitMS   float64           `json:"limit_ms"`

	kept   bool
	times  float64
	others int
	mix    *predict.Mix
}

// Score is one line of the leaderboard.
type Score struct {
	Name   string `json:"name"`
	Source string `json:"source"` // who answered, and by what
	Tally
	Points float64 `json:"points"`
}

// wrongCosts is taken from the points for a yes that is wrong: as much as so many that are right give.
const wrongCosts = 5

// Benchmark is the open benchmark of GPU co-location: questions about measured mixes, without the answers, and the
// scores of those who answered them. See its rules in tools/research/benchmark.
type Benchmark struct {
	Questions []Question `json:"questions"`
	Kept      int        `json:"kept"`   // of them, in truth
	Scores    []Score    `json:"scores"` // most points first
}

// NewBenchmark asks every question that measured mixes answer the same each time that they were measured, and scores
// [predict.Predictor.Predict], calibrated without the series in question, and the rules of thumb. When ctx ends it
// returns its error.
func NewBenchmark(ctx context.Context, mixes []predict.Mix) (*Benchmark, error) {
	b := &Benchmark{}
	asks, disputed := questions(mixes)
	seen := map[string]bool{}
	for i := range asks {
		a := &asks[i]
		for k, id := range a.id {
			if disputed[id] || seen[id] {
				continue
			}
			seen[id] = true
			b.Questions = append(b.Questions, Question{id, a.mix.Series, a.mix.Rows[0].Case, a.mix.Rows[0].Mechanism, k,
				a.metric, a.limits[k].Seconds() * 1e3, a.kept[k], a.times, len(a.kept), a.mix})
			if a.kept[k] {
				b.Kept++
			}
		}
	}
	predicted := map[*predict.Mix][]predict.Prediction{}
	rules := []struct {
		name, source string
		answer       func(*Question) sharing.Answer
	}{
		{"predict", "decision/predict, each series by the others", func(q *Question) sharing.Answer {
			if _, ok := predicted[q.mix]; !ok {
				predicted[q.mix], _ = q.mix.Predictor.Predict(q.Mechanism, q.mix.Group, predict.MethodClosedForm)
			}
			if p := predicted[q.mix]; p != nil {
				if v, ok := p[q.Tenant].Get(q.Metric); ok {
					return v.Below(q.LimitMS)
				}
			}
			return sharing.AnswerUnknown
		}},
		{"N tenants, N times slower", "rule of thumb",
			func(q *Question) sharing.Answer { return sharing.AnswerOf(q.times >= float64(q.others)) }},
		{"flat 1.75 times", "rule of thumb", func(q *Question) sharing.Answer { return sharing.AnswerOf(q.times >= 1.75) }},
		{"always share", "rule of thumb", func(*Question) sharing.Answer { return sharing.AnswerYes }},
		{"never share", "rule of thumb", func(*Question) sharing.Answer { return sharing.AnswerNo }},
	}
	for _, r := range rules {
		s := Score{Name: r.name, Source: r.source}
		for i := range b.Questions {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s.add(r.answer(&b.Questions[i]), b.Questions[i].kept)
		}
		b.take(s)
	}
	return b, nil
}

func (b *Benchmark) take(s Score) {
	s.Points = 100 * float64(s.KeptTrue-wrongCosts*s.KeptFalse) / float64(max(1, len(b.Questions)))
	b.Scores = append(b.Scores, s)
	slices.SortStableFunc(b.Scores, func(x, y Score) int { return cmp.Compare(y.Points, x.Points) })
}

// Submission is somebody's answers, "yes", "no" or "unknown", by question; one that is missing is unknown.
type Submission struct {
	Name    string                    `json:"name"`
	Source  string                    `json:"source"`
	Answers map[string]sharing.Answer `json:"answers"`
}

// Submit scores a submission, which is JSON, and puts it among the others. The error names unknown questions.
func (b *Benchmark) Submit(data []byte) error {
	var s Submission
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("judge: a submission: %w", err)
	}
	var list problem.List
	list.If(s.Name == "", "name", "", "is empty")
	list.If(s.Source == "", "source", "say who answered, and by what", "is empty")
	known := map[string]bool{}
	score := Score{Name: s.Name, Source: s.Source}
	for i := range b.Questions {
		known[b.Questions[i].ID] = true
		score.add(s.Answers[b.Questions[i].ID], b.Questions[i].kept)
	}
	for id := range s.Answers {
		list.If(!known[id], "answers", "use the IDs that -benchmark -json lists", "%q is no question", problem.Clip(id))
	}
	if err := list.Err(); err != nil {
		return err
	}
	b.take(score)
	return nil
}

// WriteText writes the leaderboard.
func (b *Benchmark) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d questions, of which %d are kept in truth; a right yes gives a point, a wrong one takes %d; points "+
		"of 100 questions\n\n", len(b.Questions), b.Kept, wrongCosts)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tpoints\tyes, right\tyes, wrong\tno, wrong\tleft open\tby")
	for _, s := range b.Scores {
		fmt.Fprintf(tw, "%s\t%.1f\t%d\t%d\t%d\t%d\t%s\n", s.Name, s.Points, s.KeptTrue, s.KeptFalse, s.Lost, s.Unknown,
			s.Source)
	}
	return tw.Flush()
}
