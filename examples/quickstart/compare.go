package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/sharing"
)

// measured is what -measure found: expected beside measured, all of it on
// simulated GPUs.
type measured struct {
	Basis         sharing.Basis `json:"basis"` // simulated
	Seed          uint64        `json:"seed"`
	SecondsPerRun float64       `json:"seconds_per_run"`
	Complete      bool          `json:"complete"`
	Problem       string        `json:"problem,omitempty"`

	Assumed  []assumption  `json:"assumed"`
	Scenes   []scene       `json:"scenes"`
	Expected []expectedRow `json:"expected"` // before any run side by side
	Rows     []measuredRow `json:"rows"`
	NotRun   []notRun      `json:"not_run,omitempty"`
	Findings []finding     `json:"findings"`
	Notes    []string      `json:"notes,omitempty"`

	alone map[string]float64 // TPOT P50 in ms, by workload
}

// assumption is what stands for what the fleet file does not say of a workload.
type assumption struct {
	Workload string   `json:"workload"`
	Assumed  []string `json:"assumed"`
}

// expectation is what is expected of a figure. Low and High are the 90%
// interval, absent where nothing says how wide it is.
type expectation struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

func expectationOf(i predict.Interval) expectation {
	return expectation{i.Value, &i.Low, &i.High}
}

// expectedRow is what one replica of a workload is expected to see.
type expectedRow struct {
	Basis     sharing.Basis                  `json:"basis"` // simulated: of the profiles it is computed from
	Model     sharing.Basis                  `json:"model_basis"`
	Scene     string                         `json:"scene"`
	Mechanism sharing.Mechanism              `json:"mechanism"`
	Workload  string                         `json:"workload"`
	Figures   map[predict.Metric]expectation `json:"figures,omitempty"`
	Slowdown  *expectation                   `json:"slowdown_factor,omitempty"`
	Problem   string                         `json:"problem,omitempty"` // why nothing is expected
}

// measuredRow is a workload's replicas on one GPU under one mechanism.
type measuredRow struct {
	Basis     sharing.Basis     `json:"basis"` // simulated
	Scene     string            `json:"scene"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Workload  string            `json:"workload"`
	Run       string            `json:"run"` // folder of its artifacts, where they are kept
	Replicas  int               `json:"replicas_measured"`
	Requests  int               `json:"requests"`
	Failed    int               `json:"failed"`

	// What the decision says of the mechanism for the workload.
	Recommended bool         `json:"recommended"`
	Verdict     gate.Verdict `json:"verdict"`
	Code        string       `json:"code,omitempty"` // of the deciding reason
	Reason      string       `json:"reason,omitempty"`

	Measured map[predict.Metric]float64     `json:"measured"`
	Expected map[predict.Metric]expectation `json:"expected,omitempty"`
	Inside   map[predict.Metric]bool        `json:"inside_interval,omitempty"`
	Slowdown slowdown                       `json:"slowdown_factor"`
	Limits   []limit                        `json:"limits,omitempty"`

	unchecked string // why the decision could not check the limits
}

// slowdown is TPOT over that alone on a whole GPU.
type slowdown struct {
	Decision *float64     `json:"by_the_decision,omitempty"`
	Expected *expectation `json:"expected,omitempty"`
	Measured *float64     `json:"measured,omitempty"`
}

// limit is an objective of a workload held against what was measured.
type limit struct {
	Metric     predict.Metric `json:"metric"`
	LimitMS    float64        `json:"limit_ms"`
	Expected   sharing.Answer `json:"expected"` // unknown where the interval holds the limit
	MeasuredMS *float64       `json:"measured_ms,omitempty"`
	Kept       bool           `json:"kept"`
}

func (m *measured) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// assume lists what was assumed, once a workload.
func (m *measured) assume() {
	for _, s := range m.Scenes {
		for _, t := range s.Tenants {
			if !slices.ContainsFunc(m.Assumed, func(a assumption) bool { return a.Workload == t.Workload }) {
				m.Assumed = append(m.Assumed, assumption{t.Workload, t.sim.assumed})
			}
		}
	}
	slices.SortFunc(m.Assumed, func(a, b assumption) int { return cmp.Compare(a.Workload, b.Workload) })
}

// add adds what was measured of a scene's workload under a mechanism.
func (m *measured) add(how sharing.Mechanism, g group, run string) {
	row := measuredRow{Basis: sharing.BasisSimulated, Scene: g.scene.Name, Mechanism: how, Workload: g.workload, Run: run, Replicas: g.replicas,
		Requests: *g.row.Requests, Failed: *g.row.Errors, Recommended: how == g.scene.Recommended, Measured: colocation.Figures(&g.row), Inside: map[predict.Metric]bool{}}
	if e := m.expected(g.scene.Name, how, g.workload); e != nil {
		row.Expected, row.Slowdown.Expected = e.Figures, e.Slowdown
		for metric, v := range e.Figures {
			if got, ok := row.Measured[metric]; ok && v.Low != nil {
				row.Inside[metric] = got >= *v.Low && got <= *v.High
			}
		}
	}
	slo := g.sim.workload.SLO
	for _, o := range []struct {
		metric predict.Metric
		at     *predict.Duration
	}{{predict.TTFTP99, slo.TTFTP99}, {predict.TPOTP99, slo.TPOTP99}, {predict.E2EP99, slo.E2EP99}} {
		if o.at == nil {
			continue
		}
		l := limit{Metric: o.metric, LimitMS: float64(*o.at) / float64(time.Millisecond)}
		if e, ok := row.Expected[o.metric]; ok && e.Low != nil {
			l.Expected = predict.Interval{Value: e.Value, Low: *e.Low, High: *e.High}.Below(l.LimitMS)
		}
		if got, ok := row.Measured[o.metric]; ok {
			l.MeasuredMS, l.Kept = &got, got <= l.LimitMS && row.Failed == 0
		}
		row.Limits = append(row.Limits, l)
	}
	m.Rows = append(m.Rows, row)
}

func (m *measured) expected(scene string, how sharing.Mechanism, workload string) *expectedRow {
	for i := range m.Expected {
		if e := &m.Expected[i]; e.Scene == scene && e.Mechanism == how && e.Workload == workload {
			return e
		}
	}
	return nil
}

// row finds a measured row, nil where there is none.
func (m *measured) row(scene string, how sharing.Mechanism, workload string) *measuredRow {
	for i := range m.Rows {
		if r := &m.Rows[i]; r.Scene == scene && r.Mechanism == how && r.Workload == workload {
			return r
		}
	}
	return nil
}

// kept says whether every limit was kept; limits are there.
func (r *measuredRow) kept() bool {
	return !slices.ContainsFunc(r.Limits, func(l limit) bool { return !l.Kept })
}

// missed lists the limits that were not kept.
func (r *measuredRow) missed() string {
	var out []string
	for _, l := range r.Limits {
		switch {
		case l.Kept:
		case l.MeasuredMS == nil:
			out = append(out, fmt.Sprintf("%s: no answer ended", title(l.Metric)))
		case *l.MeasuredMS > l.LimitMS:
			out = append(out, fmt.Sprintf("%s %s > %s", title(l.Metric), short(*l.MeasuredMS), short(l.LimitMS)))
		default:
			out = append(out, fmt.Sprintf("%d requests failed", r.Failed))
		}
	}
	return strings.Join(slices.Compact(out), ", ")
}
