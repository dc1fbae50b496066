package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/sharing"
)

// report is report.json.
type report struct {
	// Basis is that of every actual figure: measured or simulated.
	Basis    sharing.Basis `json:"basis"`
	GPU      string        `json:"gpu_name,omitempty"`
	Driver   string        `json:"driver,omitempty"`
	Complete bool          `json:"complete"` // every run of the plan was made
	Problem  string        `json:"problem,omitempty"`
	Notes    []string      `json:"notes,omitempty"`

	Rows      []reportRow     `json:"rows"`
	Agreement []agreement     `json:"agreement"`
	Verdicts  []verdict       `json:"verdicts"`
	Decision  *decisionReport `json:"decision,omitempty"`
}

// reportRow is one load in one run.
type reportRow struct {
	Basis    sharing.Basis `json:"basis"`
	Mode     mode          `json:"mode"`
	Case     string        `json:"case"`
	Load     string        `json:"load"`
	Tenants  int           `json:"tenants"`
	Began    time.Time     `json:"began"`
	Run      string        `json:"run"` // folder
	Requests int           `json:"requests"`
	Failed   int           `json:"failed"`

	Actual map[predict.Metric]float64 `json:"actual"`
	// Slowdown is TPOT p50 over that of the load alone under time-slicing.
	Slowdown *float64 `json:"slowdown_factor,omitempty"`

	// Predicted stands for runs side by side only, with the time at which it
	// was written down. ErrorFraction is predicted over actual, less one.
	PredictedAt       *time.Time                          `json:"predicted_at,omitempty"`
	PredictionBasis   *sharing.Basis                      `json:"prediction_basis,omitempty"`
	Predicted         map[predict.Metric]predict.Interval `json:"predicted,omitempty"`
	PredictedSlowdown *predict.Interval                   `json:"predicted_slowdown_factor,omitempty"`
	ErrorFraction     map[predict.Metric]float64          `json:"error_fraction,omitempty"`
	Inside            map[predict.Metric]bool             `json:"inside_interval,omitempty"`
}

// agreement is how good the predictions of a metric in a mode were. The
// intervals are meant to hold 90% of the outcomes.
type agreement struct {
	Mode              *mode          `json:"mode,omitempty"` // absent: all modes
	Metric            predict.Metric `json:"metric"`
	Points            int            `json:"points"`
	Inside            int            `json:"inside_interval"`
	MeanErrorFraction float64        `json:"mean_absolute_error_fraction"`
	MeanWidthFraction float64        `json:"mean_interval_width_fraction"`
}

func (f *flow) newReport(failed error) *report {
	rep := &report{Basis: f.site.basis(), Complete: failed == nil, Notes: f.notes, Rows: []reportRow{}, Agreement: []agreement{}, Verdicts: []verdict{}}
	rep.GPU, rep.Driver = f.site.gpu()
	if failed != nil {
		rep.Problem = failed.Error()
		if errors.Is(failed, context.Canceled) {
			rep.Problem = "interrupted"
		}
	}
	for i := range f.runs {
		for j := range f.runs[i].loads {
			rep.Rows = append(rep.Rows, f.reportRow(&f.runs[i], j))
		}
	}
	rep.Agreement = agreements(rep.Rows, f.plan.Modes)
	rep.Verdicts = f.verdicts(rep.Rows)
	rep.Decision = f.decide(rep.Rows)
	return rep
}

func (f *flow) reportRow(r *run, i int) reportRow {
	row := &r.rows[i]
	out := reportRow{Basis: f.site.basis(), Mode: r.mode, Case: r.name, Load: r.loads[i], Tenants: len(r.loads), Began: r.began, Run: r.dir,
		Requests: *row.Requests, Failed: *row.Errors, Actual: colocation.Figures(row)}
	if alone := f.soloRow(modeTimeSlicing, r.loads[i]); alone != nil {
		if a, b := colocation.Figures(alone)[predict.MetricTPOTP50], out.Actual[predict.MetricTPOTP50]; a > 0 && b > 0 {
			s := b / a
			out.Slowdown = &s
		}
	}
	p, written := f.predicted(r.mode, r.name, r.loads[i])
	if p == nil {
		return out
	}
	out.PredictedAt, out.PredictionBasis, out.Predicted, out.PredictedSlowdown = &written, &p.Basis, p.Predicted, &p.Slowdown
	out.ErrorFraction, out.Inside = map[predict.Metric]float64{}, map[predict.Metric]bool{}
	for m, v := range p.Predicted {
		if a := out.Actual[m]; a > 0 {
			out.ErrorFraction[m], out.Inside[m] = v.Value/a-1, v.Contains(a)
		}
	}
	return out
}

// soloRow is the row of a load alone in a mode, nil if it was not run.
func (f *flow) soloRow(m mode, load string) *predict.Row {
	for i := range f.runs {
		if r := &f.runs[i]; r.mode == m && r.solo() && r.loads[0] == load {
			return &r.rows[0]
		}
	}
	return nil
}

// agreements sums up the rows by mode and metric, then over all modes.
func agreements(rows []reportRow, modes []mode) []agreement {
	out := []agreement{}
	sum := func(m *mode) {
		for _, metric := range predict.Metrics() {
			a := agreement{Mode: m, Metric: metric}
			for i := range rows {
				r := &rows[i]
				e, ok := r.ErrorFraction[metric]
				if !ok || m != nil && r.Mode != *m {
					continue
				}
				a.Points++
				if r.Inside[metric] {
					a.Inside++
				}
				a.MeanErrorFraction += math.Abs(e)
				a.MeanWidthFraction += r.Predicted[metric].WidthFraction()
			}
			if a.Points > 0 {
				a.MeanErrorFraction /= float64(a.Points)
				a.MeanWidthFraction /= float64(a.Points)
				out = append(out, a)
			}
		}
	}
	for _, m := range modes {
		sum(&m)
	}
	sum(nil)
	return out
}

// verdict says how a case did in a mode against the loads' objectives.
type verdict struct {
	Case       string      `json:"case"`
	Mode       mode        `json:"mode"`
	TokensPerS float64     `json:"tokens_per_s"` // of all loads
	Objectives []objective `json:"objectives,omitempty"`
	// Kept says that every objective was kept.
	Kept bool `json:"kept"`
	// Best marks the mode to choose for the case: of those that keep every
	// objective the one that delivers most.
	Best bool `json:"best,omitempty"`
}

type objective struct {
	Load    string         `json:"load"`
	Metric  predict.Metric `json:"metric"`
	LimitMS float64        `json:"limit_ms"`
	// Expected is what the prediction answered, unknown where its interval
	// holds the limit: only the run could settle that.
	Expected sharing.Answer `json:"expected"`
	ActualMS float64        `json:"actual_ms"`
	Kept     bool           `json:"kept"`
}

// limits are a load's objectives that the rows can be held against.
func (l *loadPlan) limits() []objective {
	var out []objective
	for _, s := range []struct {
		m predict.Metric
		d *predict.Duration
	}{{predict.MetricTTFTP99, l.SLO.TTFTP99}, {predict.MetricTPOTP99, l.SLO.TPOTP99}, {predict.MetricE2EP99, l.SLO.E2EP99}} {
		if s.d != nil {
			out = append(out, objective{Load: l.Name, Metric: s.m, LimitMS: float64(time.Duration(*s.d)) / float64(time.Millisecond)})
		}
	}
	return out
}

func (f *flow) verdicts(rows []reportRow) []verdict {
	out := []verdict{}
	for _, c := range f.plan.Cases {
		best, most := -1, 0.0
		for _, m := range f.plan.Modes {
			v := verdict{Case: c.Name, Mode: m, Kept: true}
			n := 0
			for i := range rows {
				r := &rows[i]
				if r.Mode != m || r.Case != c.Name {
					continue
				}
				n++
				v.TokensPerS += r.Actual[predict.MetricTokensPerSecond]
				for _, o := range f.plan.load(r.Load).limits() {
					a, ok := r.Actual[o.Metric]
					if p, has := r.Predicted[o.Metric]; has {
						o.Expected = p.Below(o.LimitMS)
					}
					o.ActualMS, o.Kept = a, ok && a <= o.LimitMS
					v.Kept = v.Kept && o.Kept
					v.Objectives = append(v.Objectives, o)
				}
			}
			if n < len(c.Loads) {
				continue // not run
			}
			out = append(out, v)
			if v.Kept && v.TokensPerS > most {
				best, most = len(out)-1, v.TokensPerS
			}
		}
		if best >= 0 {
			out[best].Best = true
		}
	}
	return out
}
