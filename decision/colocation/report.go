// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/copies"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/sharing"
)

// Report is report.json.
type Report struct {
	// Basis is the basis of every actual figure: measured or simulated.
	Basis    sharing.Basis `json:"basis"`
	GPU      string        `json:"gpu_name,omitempty"`
	Driver   string        `json:"driver,omitempty"`
	Complete bool          `json:"complete"` // all runs were made
	Problem  string        `json:"problem,omitempty"`
	Missing  []missing     `json:"missing,omitempty"`
	Notes    []string      `json:"notes,omitempty"`
	// Invalid lists the folders of runs with figures distorted by the load client, for example by other work on the
	// machine.
	Invalid []string `json:"invalid,omitempty"`
	// Calibrated is the file name of a predictor fitted to this run.
	Calibrated string `json:"calibrated,omitempty"`

	Rows      []reportRow `json:"rows"`
	Agreement []agreement `json:"agreement"`
	Verdicts  []verdict   `json:"verdicts,omitempty"`
	Copies    []copiesRow `json:"copies,omitempty"` // with PlanOptions.Copies
}

// reportRow is one load in one run.
type reportRow struct {
	Basis    sharing.Basis     `json:"basis"`
	Mode     sharing.Mechanism `json:"mode"`
	Case     string            `json:"case"`
	Load     string            `json:"load"`
	Tenants  int               `json:"tenants"`
	Began    time.Time         `json:"began"`
	Run      string            `json:"run"` // folder
	Kind     profile.Kind      `json:"kind,omitzero"`
	Requests int               `json:"requests"`
	Failed   int               `json:"failed"`
	Steps    int               `json:"steps,omitempty"` // of a tenant that serves no tokens

	Actual map[profile.Metric]float64 `json:"actual"`
	// Slowdown is TPOT or step p50 over that of the isolated load under time-slicing.
	Slowdown *float64 `json:"slowdown_factor,omitempty"`

	// Predicted is set for runs of several loads, with the time at which it was written. ErrorFraction is predicted over
	// actual, less one.
	PredictedAt       *time.Time                          `json:"predicted_at,omitempty"`
	PredictionBasis   *sharing.Basis                      `json:"prediction_basis,omitempty"`
	Predicted         map[profile.Metric]profile.Interval `json:"predicted,omitempty"`
	PredictedSlowdown *profile.Interval                   `json:"predicted_slowdown_factor,omitempty"`
	ErrorFraction     map[profile.Metric]float64          `json:"error_fraction,omitempty"`
	Inside            map[profile.Metric]bool             `json:"inside_interval,omitempty"`

	Objectives []objective `json:"objectives,omitempty"`
}

// objective is a limit of a load with its outcome.
type objective struct {
	Load    string         `json:"load"`
	Metric  profile.Metric `json:"metric"`
	LimitMS float64        `json:"limit_ms"`
	// Expected is the prediction's answer, unknown where its interval holds the limit: only the run decides that.
	Expected sharing.Answer `json:"expected"`
	ActualMS *float64       `json:"actual_ms,omitempty"`
	Kept     bool           `json:"kept"` // by every request, of which none failed
	// Failed counts the requests that failed.
	Failed int `json:"failed,omitempty"`
}

// outcome is "met", "MISSED", or the number of failed requests where all others met the objective.
func (o *objective) outcome() string {
	switch {
	case o.Kept:
		return "met"
	case o.ActualMS != nil && *o.ActualMS <= o.LimitMS:
		return plaintext.Count(o.Failed, "request") + " FAILED"
	}
	return "MISSED"
}

// fill puts a load's figures and its prediction into the row. isolated is its row isolated under time-slicing, nil if
// that was not run; p may be nil.
func (r *reportRow) fill(row, isolated *profile.Row, p *tenantPrediction, slo profile.SLO) {
	r.Requests, r.Failed, r.Actual = row.Requests.Or(0), row.Errors.Or(0), maps.Collect(row.All())
	r.Kind, r.Steps = row.Kind, row.Steps.Or(0)
	if isolated != nil {
		of := r.Kind.MainMetric()
		a, ok := isolated.Metric(of)
		if b, ok2 := row.Metric(of); ok && ok2 {
			s := b / a
			r.Slowdown = &s
		}
	}
	if p != nil {
		r.PredictedAt, r.PredictionBasis, r.Predicted, r.PredictedSlowdown = &p.written, &p.Basis, p.Predicted, &p.Slowdown
		r.ErrorFraction, r.Inside = map[profile.Metric]float64{}, map[profile.Metric]bool{}
		for m, v := range p.Predicted {
			if a := r.Actual[m]; a > 0 {
				r.ErrorFraction[m], r.Inside[m] = v.Value/a-1, v.Contains(a)
			}
		}
	}
	for m, limit := range slo.Limits() {
		o := objective{Load: r.Load, Metric: m, LimitMS: inMS(limit), Failed: r.Failed}
		if v, ok := r.Predicted[o.Metric]; ok {
			o.Expected = v.Below(o.LimitMS)
		}
		if a, ok := r.Actual[o.Metric]; ok {
			o.ActualMS, o.Kept = &a, a <= o.LimitMS && r.Failed == 0
		}
		r.Objectives = append(r.Objectives, o)
	}
}

// errInterrupted is the error of a run that its user ended.
var errInterrupted = errors.New("interrupted")

// end records the end of the run.
func (rep *Report) end(failed error, b *runner) {
	rep.Complete, rep.Invalid = failed == nil, slices.Sorted(maps.Keys(b.shaped))
	for i := range rep.Verdicts { // no mode is chosen on results shaped by the client
		rep.Verdicts[i].Best = rep.Verdicts[i].Best && len(rep.Invalid) == 0
	}
	rep.Notes = b.notes
	if failed != nil {
		rep.Problem = failed.Error()
		if errors.Is(failed, errInterrupted) {
			rep.Problem = errInterrupted.Error()
		}
	}
}

// report is made of the runs so far. failed is the reason for an early end.
func (f *planFlow) report(failed error) *Report {
	rep := &Report{Basis: f.site.basis(), Rows: []reportRow{}}
	rep.GPU, rep.Driver = f.site.gpu()
	rep.end(failed, &f.runner)
	rep.Missing = f.missing
	for _, r := range f.runs {
		for j, load := range r.loads {
			row := reportRow{Basis: rep.Basis, Mode: r.mode, Case: r.name, Load: load, Tenants: r.rows[j].Tenants,
				Began: r.began, Run: r.dir}
			p := f.expected[predictedRun{r.mode, r.name, load}]
			row.fill(&r.rows[j], f.soloRow(load), p, f.plan.load(load).SLO)
			rep.Rows = append(rep.Rows, row)
		}
	}
	rep.Agreement = agreements(rep.Rows)
	rep.Verdicts, rep.Copies = f.verdicts(rep.Rows), f.copies()
	return rep
}

// agreement sums up the errors of the predictions of a metric in all modes. The intervals are meant to hold 90% of the
// outcomes.
type agreement struct {
	Metric            profile.Metric `json:"metric"`
	Points            int            `json:"points"`
	Inside            int            `json:"inside_interval"`
	MeanErrorFraction float64        `json:"mean_absolute_error_fraction"`
	MeanWidthFraction float64        `json:"mean_interval_width_fraction"`
}

func agreements(rows []reportRow) []agreement {
	out := []agreement{}
	for metric := range profile.Metric(profile.MetricCount) {
		a := agreement{Metric: metric}
		for i := range rows {
			r := &rows[i]
			e, ok := r.ErrorFraction[metric]
			if !ok {
				continue
			}
			if a.Points++; r.Inside[metric] {
				a.Inside++
			}
			a.MeanErrorFraction += math.Abs(e)
			a.MeanWidthFraction += r.Predicted[metric].WidthFraction()
		}
		if n := float64(a.Points); n > 0 {
			a.MeanErrorFraction, a.MeanWidthFraction = a.MeanErrorFraction/n, a.MeanWidthFraction/n
			out = append(out, a)
		}
	}
	return out
}

// verdict holds a case's outcome in a mode against the loads' objectives.
type verdict struct {
	Case       string            `json:"case"`
	Mode       sharing.Mechanism `json:"mode"`
	TokensPerS float64           `json:"tokens_per_s"` // of all loads
	// KeptRate is the mean over the loads, where some serve no tokens, of tokens or steps a second together over those
	// isolated under time-slicing; 0 where one was not run isolated.
	KeptRate   float64     `json:"kept_rate_fraction,omitempty"`
	Objectives []objective `json:"objectives,omitempty"`
	// Kept is set where every objective was met.
	Kept bool `json:"kept"`
	// Best marks the mode to choose for the case: of those that meet every objective the one with most tokens a second,
	// or with tenants that serve none, the one with the highest KeptRate.
	Best bool `json:"best,omitempty"`
}

// choices returns the mode to choose for each case, by measurements and not by predictions. No mode is chosen where the
// load client shaped a run of the case, and a case shares no GPU where no mode meets every objective.
func (rep *Report) choices() (all []string) {
	var cases []string
	for _, v := range rep.Verdicts {
		if slices.Contains(cases, v.Case) {
			continue
		}
		cases = append(cases, v.Case)
		text := fmt.Sprintf("%s: give each workload a GPU of its own: no measured mode meets every objective.",
			v.Case)
		if i := slices.IndexFunc(rep.Verdicts, func(o verdict) bool { return o.Case == v.Case && o.Best }); i >= 0 {
			best := rep.Verdicts[i]
			text = fmt.Sprintf("%s: choose %s: it met every objective and delivered the most, %s tokens/s.", v.Case, best.Mode,
				webpage.Number(best.TokensPerS))
			if best.KeptRate > 0 {
				text = fmt.Sprintf("%s: choose %s: it met every objective at %.0f%% of the isolated rates, the most.", v.Case,
					best.Mode, 100*best.KeptRate)
			}
		}
		if len(rep.Invalid) > 0 {
			text = v.Case + ": no choice: the load client influenced the figures (measure again on an idle machine)."
		}
		all = append(all, text)
	}
	return all
}

func (f *planFlow) verdicts(rows []reportRow) []verdict {
	var out []verdict
	for _, c := range f.plan.Cases {
		best, most := -1, 0.0
		for _, m := range f.plan.Modes {
			v := verdict{Case: c.Name, Mode: m, Kept: true}
			n, mixed, rates := 0, false, 0
			for i := range rows {
				r := &rows[i]
				if r.Mode != m || r.Case != c.Name {
					continue
				}
				n++
				v.TokensPerS += r.Actual[profile.MetricTokensPerSecond]
				of := profile.MetricTokensPerSecond
				if r.Kind != profile.KindServer {
					mixed, of = true, profile.MetricStepsPerSecond
				}
				if isolated := f.soloRow(r.Load); isolated != nil {
					if a, ok := isolated.Metric(of); ok && r.Actual[of] > 0 {
						v.KeptRate, rates = v.KeptRate+r.Actual[of]/a/float64(len(c.Loads)), rates+1
					}
				}
				for _, o := range r.Objectives {
					v.Kept = v.Kept && o.Kept
					v.Objectives = append(v.Objectives, o)
				}
			}
			if n < len(c.Loads) {
				continue // not run
			}
			if rates < n || !mixed {
				v.KeptRate = 0
			}
			out = append(out, v)
			delivered := v.TokensPerS
			if mixed {
				delivered = v.KeptRate
			}
			if v.Kept && delivered > most {
				best, most = len(out)-1, delivered
			}
		}
		if best >= 0 {
			out[best].Best = true
		}
	}
	return out
}

// copiesRow is the rate of copies in one mode, and its ratio to the rate of one isolated copy under time-slicing.
type copiesRow struct {
	Mode      sharing.Mechanism `json:"mode"`
	Copies    int               `json:"copies"`
	Rate      float64           `json:"rate"` // tokens or steps a second, of all
	Ratio     float64           `json:"ratio"`
	Predicted profile.Interval  `json:"predicted"` // of the ratio, from one isolated copy
}

// copies summarizes the runs of copies, with the predictions from one isolated copy.
func (f *planFlow) copies() (out []copiesRow) {
	if !f.plan.copied {
		return nil
	}
	isolated := f.soloRow(f.plan.Loads[0].Name)
	if isolated == nil {
		return nil
	}
	solo := isolated.Profile()
	server := copies.ServerOf(&solo)
	for i := range f.runs {
		r := &f.runs[i]
		row := copiesRow{Mode: r.mode, Copies: len(r.loads)}
		if r.solo() && (r.mode == sharing.MechanismTimeSlicing || r.rows[0].Case != "solo-"+r.loads[0]) {
			continue
		}
		for k := range r.rows {
			row.Rate += r.rows[k].TokensPerS.Or(r.rows[k].StepsPerS.Or(0))
		}
		row.Ratio = row.Rate / server.Rate
		setting := copies.Setting{Mechanism: r.mode, Copies: row.Copies}
		if f.plan.Loads[0].Rate > 0 {
			setting.Load = copies.LoadOpen
		}
		if e, err := copies.Predict(server, setting); err == nil {
			row.Predicted = e.Ratio
		}
		out = append(out, row)
	}
	return out
}
