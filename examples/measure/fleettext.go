package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/predict"
)

// shown are the figures of the table; the JSON has all.
var shown = []predict.Metric{predict.MetricTTFTP99, predict.MetricTPOTP99}

// writeMeasured prints for people what was found of a fleet.
func writeMeasured(w io.Writer, m *measured) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "\nSIMULATED: expected beside measured, on embedded servers on simulated GPUs and on no real one (%v s a run, seed %d)\n", m.SecondsPerRun, m.Seed)
	if !m.Complete {
		fmt.Fprintf(b, "NOT COMPLETE: %s\n", m.Problem)
	}
	for i := range m.Scenes {
		m.writeScene(b, &m.Scenes[i])
	}
	if len(m.NotRun) > 0 {
		fmt.Fprintln(b, "\nSIMULATED: not run")
		for _, n := range m.NotRun {
			what := n.Workload
			if n.Mechanism != nil {
				what = fmt.Sprintf("%s by %s", n.Scene, n.Mechanism)
			}
			fmt.Fprintf(b, "  %s: %s\n", what, n.Reason)
		}
	}
	m.writeFindings(b)
	if len(m.Assumed) > 0 {
		fmt.Fprintln(b, "\nSIMULATED: assumed, for the fleet file does not say")
		for _, a := range m.Assumed {
			fmt.Fprintf(b, "  %s: %s\n", a.Workload, strings.Join(a.Assumed, "; "))
		}
	}
	for _, n := range m.Notes {
		fmt.Fprintf(b, "  simulated: note: %s\n", n)
	}
	return b.Flush()
}

func (m *measured) writeScene(b io.Writer, s *scene) {
	counts := map[string]int{}
	for _, t := range s.Tenants {
		counts[t.Workload]++
	}
	var who []string
	for _, w := range s.workloads() {
		who = append(who, fmt.Sprintf("%d x %s", counts[w], w))
	}
	note := ""
	if s.Note != "" {
		note = ", here " + s.Note
	}
	fmt.Fprintf(b, "\nSIMULATED %s (%s): %s, who ask for %.0f%% of a GPU; recommended: %s%s\n", s.Name, s.GPU, strings.Join(who, ", "), 100*s.busy(), s.Recommended, note)
	if !slices.ContainsFunc(m.Rows, func(r measuredRow) bool { return r.Scene == s.Name }) {
		return
	}
	tw := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "  workload\tmechanism\tdecision\tTTFT P99, expected\tmeasured\tTPOT P99, expected\tmeasured\tslower, decided\texpected\tmeasured\trequests\tlimits")
	last := ""
	for i := range m.Rows {
		r := &m.Rows[i]
		if r.Scene != s.Name {
			continue
		}
		name := r.Workload
		if name == last {
			name = ""
		}
		last = r.Workload
		cells := []string{"  " + name, r.Mechanism.String(), r.word()}
		for _, metric := range shown {
			cells = append(cells, expectedCell(r.Expected, metric), r.measuredCell(metric))
		}
		decided, expected, got := "-", "-", "-"
		if v := r.Slowdown.Decision; v != nil {
			decided = short(*v) + "x"
		}
		if e := r.Slowdown.Expected; e != nil {
			expected = short(e.Value) + "x"
		}
		if v := r.Slowdown.Measured; v != nil {
			got = short(*v) + "x"
		}
		fmt.Fprintln(tw, strings.Join(append(cells, decided, expected, got, r.requestsCell(), r.limitsCell()), "\t"))
	}
	tw.Flush()
}

// word is the decision's word on the row's mechanism.
func (r *measuredRow) word() string {
	switch {
	case r.Recommended:
		return "recommended"
	case r.Code != "":
		return fmt.Sprintf("%s: %s", r.Verdict, r.Code)
	}
	return r.Verdict.String()
}

func (r *measuredRow) limitsCell() string {
	switch {
	case len(r.Limits) == 0:
		return "none"
	case r.kept():
		return "kept"
	}
	return "MISSED: " + r.missed()
}

func (r *measuredRow) requestsCell() string {
	if r.Failed > 0 {
		return fmt.Sprintf("%d, %d failed", r.Requests, r.Failed)
	}
	return fmt.Sprint(r.Requests)
}

func expectedCell(figures map[predict.Metric]expectation, metric predict.Metric) string {
	e, ok := figures[metric]
	switch {
	case !ok:
		return "-"
	case e.Low == nil:
		return short(e.Value) + " (prior)"
	}
	return fmt.Sprintf("%s (%s-%s)", short(e.Value), short(*e.Low), short(*e.High))
}

// measuredCell marks what is outside its interval.
func (r *measuredRow) measuredCell(metric predict.Metric) string {
	v, ok := r.Measured[metric]
	if !ok {
		return "-"
	}
	if inside, ok := r.Inside[metric]; ok && !inside {
		return short(v) + " !"
	}
	return short(v)
}

// sayExpected reports what is expected, before it is tried.
func (m *measured) sayExpected(say func(string, ...any)) {
	for _, e := range m.Expected {
		if e.Problem != "" {
			say("expected of %s on %s by %s: nothing: %s", e.Workload, e.Scene, e.Mechanism, strings.ReplaceAll(e.Problem, "\n", "; "))
			continue
		}
		say("expected of %s on %s by %s: TTFT P99 %s ms, TPOT P99 %s ms", e.Workload, e.Scene, e.Mechanism,
			expectedCell(e.Figures, predict.MetricTTFTP99), expectedCell(e.Figures, predict.MetricTPOTP99))
	}
}

func (m *measured) writeFindings(b io.Writer) {
	if len(m.Rows) == 0 {
		return
	}
	fmt.Fprintln(b, "\nSIMULATED: findings (latencies in ms with 90% intervals; ! is outside; a P99 of under 100 requests is about their maximum)")
	for _, of := range []struct {
		name    string
		metrics []predict.Metric
	}{{"P50s", []predict.Metric{predict.MetricTTFTP50, predict.MetricTPOTP50}}, {"P99s", shown}} {
		inside, points := m.inside(of.metrics)
		fmt.Fprintf(b, "  %d of %d TTFT and TPOT %s lie inside their intervals\n", inside, points, of.name)
	}
	contradicted := false
	for _, f := range m.Findings {
		word := "as decided"
		if f.Contradicts {
			contradicted = true
			word = "CONTRADICTS THE DECISION"
		}
		fmt.Fprintf(b, "  %s: %s by %s: %s\n", word, f.Workload, f.Mechanism, f.Text)
	}
	if !contradicted && m.Complete {
		fmt.Fprintln(b, "  nothing that was simulated contradicts the decision")
	}
}

// inside counts the figures that have an interval, and those inside it.
func (m *measured) inside(metrics []predict.Metric) (inside, points int) {
	for i := range m.Rows {
		for _, metric := range metrics {
			if in, ok := m.Rows[i].Inside[metric]; ok {
				points++
				if in {
					inside++
				}
			}
		}
	}
	return inside, points
}

// title is a metric's name for people.
func title(m predict.Metric) string {
	switch m {
	case predict.MetricTTFTP99:
		return "TTFT P99"
	case predict.MetricTPOTP99:
		return "TPOT P99"
	case predict.MetricE2EP99:
		return "E2E P99"
	}
	return m.String()
}
