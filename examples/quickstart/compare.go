package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
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

func expectationOf(i decision.Interval) expectation {
	return expectation{i.Value, &i.Low, &i.High}
}

// expectedRow is what one replica of a workload is expected to see.
type expectedRow struct {
	Basis     sharing.Basis                   `json:"basis"` // simulated: of the profiles it is computed from
	Model     sharing.Basis                   `json:"model_basis"`
	Scene     string                          `json:"scene"`
	Mechanism sharing.Mechanism               `json:"mechanism"`
	Workload  string                          `json:"workload"`
	Figures   map[decision.Metric]expectation `json:"figures,omitempty"`
	Slowdown  *expectation                    `json:"slowdown_factor,omitempty"`
	Problem   string                          `json:"problem,omitempty"` // why nothing is expected
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
	Recommended bool             `json:"recommended"`
	Verdict     decision.Verdict `json:"verdict"`
	Code        string           `json:"code,omitempty"` // of the deciding reason
	Reason      string           `json:"reason,omitempty"`

	Measured map[decision.Metric]float64     `json:"measured"`
	Expected map[decision.Metric]expectation `json:"expected,omitempty"`
	Inside   map[decision.Metric]bool        `json:"inside_interval,omitempty"`
	Slowdown slowdown                        `json:"slowdown_factor"`
	Limits   []limit                         `json:"limits,omitempty"`

	serves bool
}

// slowdown is TPOT over that alone on a whole GPU.
type slowdown struct {
	Decision *float64     `json:"by_the_decision,omitempty"`
	Expected *expectation `json:"expected,omitempty"`
	Measured *float64     `json:"measured,omitempty"`
}

// limit is an objective of a workload held against what was measured.
type limit struct {
	Metric     decision.Metric `json:"metric"`
	LimitMS    float64         `json:"limit_ms"`
	Expected   sharing.Answer  `json:"expected"` // unknown where the interval holds the limit
	MeasuredMS *float64        `json:"measured_ms,omitempty"`
	Kept       bool            `json:"kept"`
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

// collect puts the figures of a run's replicas together, by scene and workload.
func collect(u *setup, res *loadgen.Result, series *telemetry.Series) []group {
	var out []group
	histograms := map[string]map[loadgen.Metric]*loadgen.Histogram{}
	for _, h := range res.Histograms {
		histograms[h.Tenant] = h.ByMetric
	}
	merged := func(members []int, m loadgen.Metric) *decision.Millis {
		all := loadgen.NewHistogram()
		for _, i := range members {
			if h := histograms[u.clients[i].tenant][m]; h != nil {
				all.Merge(h)
			}
		}
		return colocation.Millis(all.Figures())
	}
	done := map[[2]string]bool{}
	for i, c := range u.clients {
		key := [2]string{c.scene.Name, c.workload}
		if done[key] {
			continue
		}
		done[key] = true
		var members []int
		for j := i; j < len(u.clients); j++ {
			if o := u.clients[j]; o.scene == c.scene && o.workload == c.workload {
				members = append(members, j)
			}
		}
		g := group{scene: c.scene, workload: c.workload, sim: u.sims[i], replicas: len(members)}
		g.row = decision.Row{Mechanism: sharing.TimeSlicing, Case: "simulated/" + c.workload, Tenants: 1, Server: g.sim.serverKey(0), Load: g.sim.load,
			TTFT: merged(members, loadgen.TTFT), TPOT: merged(members, loadgen.TPOT), ITL: merged(members, loadgen.ITL), E2E: merged(members, loadgen.E2E)}
		requests, failed, rate := 0, 0, 0.0
		var rows decision.Rows
		for _, j := range members {
			if t, ok := res.Summary.Tenant(u.clients[j].tenant); ok {
				requests, failed, rate = requests+int(t.Counts.OK), failed+int(t.Counts.Failed), rate+t.OutputTokensPerS
			}
			var r decision.Row
			colocation.AddUtilisation(&r, series, u.clients[j].gpu, res.Summary.Window)
			rows = append(rows, r)
		}
		rate /= float64(len(members)) // of a replica
		g.row.Requests, g.row.Errors, g.row.TokensPerS = &requests, &failed, &rate
		g.row.GPM = &decision.RowGPM{
			GraphicsUtil: mean(rows, func(r *decision.RowGPM) *float64 { return r.GraphicsUtil }),
			SMUtil:       mean(rows, func(r *decision.RowGPM) *float64 { return r.SMUtil }),
			DRAMBwUtil:   mean(rows, func(r *decision.RowGPM) *float64 { return r.DRAMBwUtil }),
		}
		out = append(out, g)
	}
	return out
}

// mean is the mean over rows, nil without a figure.
func mean(rows decision.Rows, of func(*decision.RowGPM) *float64) *float64 {
	sum, n := 0.0, 0
	for i := range rows {
		if v := of(rows[i].GPM); v != nil {
			sum, n = sum+*v, n+1
		}
	}
	if n == 0 {
		return nil
	}
	sum /= float64(n)
	return &sum
}

// expect predicts what a scene's workloads will see under a mechanism from their
// profiles.
func (m *measurer) expect(how sharing.Mechanism, s *scene) {
	for _, w := range s.workloads() {
		row := expectedRow{Basis: sharing.BasisSimulated, Model: sharing.BasisPrior, Scene: s.Name, Mechanism: how, Workload: w, Figures: map[decision.Metric]expectation{}}
		var err error
		if how == sharing.MIG {
			err = m.expectSlice(&row, s)
		} else {
			err = m.expectBeside(&row, s)
		}
		if err != nil {
			row.Problem = err.Error()
		}
		m.report.Expected = append(m.report.Expected, row)
	}
}

// expectSlice expects of a slice what the one workload that was measured on
// slices showed. It says nothing of the spread, so there is no interval.
func (m *measurer) expectSlice(row *expectedRow, s *scene) error {
	profiles, why := s.slices(m.result)
	if why != "" {
		return fmt.Errorf("%s", why)
	}
	i := slices.IndexFunc(s.Tenants, func(t sceneTenant) bool { return t.Workload == row.Workload })
	t := s.Tenants[i].sim
	solo, err := m.profiles.Solo(t.serverKey(0), t.load)
	if err != nil {
		return err
	}
	alone := decision.Row{TTFT: solo.TimeSlicing.TTFT, TPOT: solo.TimeSlicing.TPOT, E2E: solo.TimeSlicing.E2E}
	for metric, v := range colocation.Figures(&alone) {
		curve, err := decision.FitSlice([]decision.SlicePoint{{SMFraction: 1, Latency: milliseconds(v)}})
		if err != nil {
			return err
		}
		row.Figures[metric] = expectation{Value: float64(curve.Latency(s.smShare(profiles[i]))) / float64(time.Millisecond)}
		if metric == decision.TPOTP50 {
			row.Slowdown = &expectation{Value: row.Figures[metric].Value / v}
		}
	}
	return nil
}

// smShare is a slice's share of the whole GPU's SMs.
func (s *scene) smShare(p *mig.Profile) float64 {
	of, ok := p.SMs.Get()
	all, ok2 := s.gpu.SMs.Get()
	if ok && ok2 {
		return min(1, float64(of)/float64(all))
	}
	return float64(p.ComputeSlices) / float64(p.Model().ComputeSlices)
}

// expectBeside predicts a workload on a shared GPU, or alone on one. Replicas
// of a workload see much the same: the middle of them is expected, within any
// one's interval.
func (m *measurer) expectBeside(row *expectedRow, s *scene) error {
	how, percent := row.Mechanism, 0.0
	tenants := s.Tenants
	switch how {
	case sharing.Exclusive:
		how = sharing.TimeSlicing // with nobody else
		i := slices.IndexFunc(tenants, func(t sceneTenant) bool { return t.Workload == row.Workload })
		tenants = tenants[i : i+1]
	case sharing.MIGLikeEmulation:
		how, percent = sharing.MPS, s.emulationPercent()
	}
	var solos []decision.Solo
	for _, t := range tenants {
		solo, err := m.profiles.Solo(t.sim.serverKey(percent), t.sim.load)
		if err != nil {
			return err
		}
		solos = append(solos, solo)
	}
	predictions, err := m.predictor.Predict(how, solos, decision.Simulated)
	if err != nil {
		return err
	}
	var of []*decision.Prediction
	for i := range predictions {
		if tenants[i].Workload == row.Workload {
			of = append(of, &predictions[i])
		}
	}
	row.Model = of[0].Basis
	for _, metric := range decision.Metrics() {
		if v, ok := middle(of, func(p *decision.Prediction) (decision.Interval, bool) { return p.Get(metric) }); ok {
			row.Figures[metric] = expectationOf(v)
		}
	}
	v, _ := middle(of, func(p *decision.Prediction) (decision.Interval, bool) { return p.Slowdown, true })
	e := expectationOf(v)
	row.Slowdown = &e
	return nil
}

// middle is the mean of predictions, with the widest bounds.
func middle(of []*decision.Prediction, get func(*decision.Prediction) (decision.Interval, bool)) (out decision.Interval, ok bool) {
	for i, p := range of {
		v, ok := get(p)
		if !ok {
			return decision.Interval{}, false
		}
		if i == 0 {
			out.Low, out.High = v.Low, v.High
		}
		out.Value += v.Value / float64(len(of))
		out.Low, out.High = min(out.Low, v.Low), max(out.High, v.High)
	}
	return out, len(of) > 0
}

// add adds what was measured of a scene's workload under a mechanism.
func (m *measured) add(how sharing.Mechanism, g group, run string) {
	row := measuredRow{Basis: sharing.BasisSimulated, Scene: g.scene.Name, Mechanism: how, Workload: g.workload, Run: run, Replicas: g.replicas,
		Requests: *g.row.Requests, Failed: *g.row.Errors, Recommended: how == g.scene.Recommended, Measured: colocation.Figures(&g.row), Inside: map[decision.Metric]bool{}, serves: g.sim.serves}
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
		metric decision.Metric
		at     *decision.Duration
	}{{decision.TTFTP99, slo.TTFTP99}, {decision.TPOTP99, slo.TPOTP99}, {decision.E2EP99, slo.E2EP99}} {
		if o.at == nil {
			continue
		}
		l := limit{Metric: o.metric, LimitMS: float64(*o.at) / float64(time.Millisecond)}
		if e, ok := row.Expected[o.metric]; ok && e.Low != nil {
			l.Expected = decision.Interval{Value: e.Value, Low: *e.Low, High: *e.High}.Below(l.LimitMS)
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
