package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/loadgen"
)

const syntheticNote = "SYNTHETIC: from a simulated GPU, not a measurement of a real one"

// studyRow is a line of the LLM-serving table: the runs of a scenario under one
// load. Figures are medians over the runs.
type studyRow struct {
	Scenario    string  `json:"scenario"`
	Load        string  `json:"load"` // e.g. "8 users" or "15 requests/s"
	Level       float64 `json:"level,omitempty"`
	Unit        string  `json:"unit"` // of Level: "users", "requests/s" or "mixed" (Level is then 0)
	Runs        int     `json:"runs"`
	TokensPerS  float64 `json:"output_tokens_per_s"`
	P99S        float64 `json:"e2e_p99_s,omitempty"` // absent when nothing succeeded
	OK          int64   `json:"ok"`
	Failed      int64   `json:"failed"`
	Simulated   bool    `json:"simulated"`
	Invalid     int     `json:"invalid_runs"`
	P99IsMax    bool    `json:"p99_is_maximum,omitempty"` // fewer than 100 requests in a run
	FailuresInf bool    `json:"p99_infinite_with_failures,omitempty"`
}

const (
	unitUsers = "users"
	unitRate  = "requests/s"
	unitMixed = "mixed" // closed and open loops together: no single level
)

// level reads how much load a run offered: users of closed loops, or the rate of
// open ones. text says both where there are both.
func level(s *loadgen.Summary) (value float64, unit, text string) {
	users, rate := 0.0, 0.0
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if t.Probe {
			continue
		}
		if after, closed := strings.CutPrefix(t.Load, "closed loop, concurrency "); closed {
			n, _, _ := strings.Cut(after, ",")
			v, err := strconv.ParseFloat(n, 64)
			if err == nil {
				users += v
			}
			continue
		}
		rate += offered(t)
	}
	switch {
	case rate > 0 && users > 0:
		return 0, unitMixed, fmt.Sprintf("%v %s, %v %s", users, unitUsers, rate, unitRate)
	case rate > 0:
		return rate, unitRate, fmt.Sprintf("%v %s", rate, unitRate)
	}
	return users, unitUsers, fmt.Sprintf("%v %s", users, unitUsers)
}

// offered is the rate that the schedule was to offer, or what it did offer where
// that is not one number.
func offered(t *loadgen.TenantSummary) float64 {
	fields := strings.Fields(t.Load)
	if i := slices.IndexFunc(fields, func(f string) bool { return f == "constant" || f == "poisson" || f == "gamma" }); i >= 0 && i+1 < len(fields) {
		if v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(fields[i+1], ","), "/s"), 64); err == nil {
			return v
		}
	}
	return math.Round(t.OfferedPerS*100) / 100
}

func studyRows(summaries []*loadgen.Summary) []studyRow {
	type key struct {
		scenario, unit, load string
		level                float64
		simulated            bool
	}
	groups := map[key][]*loadgen.Summary{}
	var order []key
	for _, s := range summaries {
		l, unit, text := level(s)
		k := key{s.Scenario, unit, text, l, s.Basis != "measured"}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], s)
	}
	var rows []studyRow
	for _, k := range order {
		r := studyRow{Scenario: k.scenario, Level: k.level, Unit: k.unit, Load: k.load, Simulated: k.simulated}
		var tokens, p99 []float64
		for _, s := range groups[k] {
			r.Runs++
			r.OK += s.Counts.OK
			r.Failed += s.Counts.Failed
			if !s.ClientHealth.Valid {
				r.Invalid++
			}
			tokens = append(tokens, s.OutputTokensPerS)
			if s.E2E.Count > 0 {
				p99 = append(p99, float64(s.E2E.P99)/1e3)
				r.P99IsMax = r.P99IsMax || s.E2E.Count < 100
			}
			r.FailuresInf = r.FailuresInf || math.IsInf(float64(s.E2EFailuresInfinite.P99), 1)
		}
		r.TokensPerS, r.P99S = medianOf(tokens), medianOf(p99)
		rows = append(rows, r)
	}
	// Scenarios keep their order of appearance, as in the study's table.
	first := map[string]int{}
	for i, k := range order {
		if _, seen := first[k.scenario]; !seen {
			first[k.scenario] = i
		}
	}
	slices.SortStableFunc(rows, func(a, b studyRow) int {
		return cmp.Or(cmp.Compare(first[a.Scenario], first[b.Scenario]), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Level, b.Level))
	})
	return rows
}

func medianOf(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// marks explain a row's figures.
func (r *studyRow) marks() string {
	var m []string
	if r.Simulated {
		m = append(m, "SYNTHETIC")
	}
	if r.Invalid > 0 {
		m = append(m, fmt.Sprintf("%d of %d INVALID", r.Invalid, r.Runs))
	}
	if r.P99IsMax {
		m = append(m, "P99 is the maximum")
	}
	if r.FailuresInf {
		m = append(m, "P99 infinite with failures")
	}
	return strings.Join(m, ", ")
}

func (r *studyRow) p99() string {
	if r.P99S == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", r.P99S)
}

// writeStudy writes the table for people.
func writeStudy(w io.Writer, rows []studyRow) {
	if slices.ContainsFunc(rows, func(r studyRow) bool { return r.Simulated }) {
		fmt.Fprintln(w, syntheticNote)
	}
	unit := "Concurrency"
	if slices.ContainsFunc(rows, func(r studyRow) bool { return r.Unit != unitUsers }) {
		unit = "Load"
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "Scenario\t%s\tThroughput (tokens/s)\tP99 latency (s)\tok\tfailed\truns\t\n", unit)
	for i := range rows {
		r := &rows[i]
		load := r.Load
		if unit == "Concurrency" {
			load = fmt.Sprint(r.Level)
		}
		fmt.Fprintf(tw, "%s\t%s\t%.1f\t%s\t%d\t%d\t%d\t%s\n", r.Scenario, load, r.TokensPerS, r.p99(), r.OK, r.Failed, r.Runs, r.marks())
	}
	_ = tw.Flush() // a buffer cannot fail
}

// figureRow is one distribution of a run.
type figureRow struct {
	Name string
	F    loadgen.Figures
}

func figureRows(m *loadgen.Measures) []figureRow {
	return []figureRow{
		{"ttft", m.TTFT}, {"ttft_service", m.TTFTService}, {"tpot", m.TPOT}, {"chunk_gap", m.ChunkGap}, {"itl", m.ITL},
		{"e2e", m.E2E}, {"e2e_service", m.E2EService}, {"schedule_delay", m.ScheduleDelay},
		{"connected", m.Connected}, {"written", m.Written}, {"first_byte", m.FirstByte},
	}
}

// writeRun writes one run for people: the totals, and each tenant where there
// are several.
func writeRun(w io.Writer, s *loadgen.Summary) {
	if s.Basis != "measured" {
		fmt.Fprintln(w, syntheticNote)
	}
	fmt.Fprintf(w, "run %s\n", s.RunID)
	if s.Stopped != "" {
		fmt.Fprintf(w, "stopped: %s\n", s.Stopped)
	}
	if len(s.Tenants) == 1 {
		writeMeasures(w, s.Tenants[0].Load, &s.Measures)
	} else {
		writeMeasures(w, "all tenants", &s.Measures)
		for i := range s.Tenants {
			t := &s.Tenants[i]
			label := fmt.Sprintf("%s, %s", t.Name, t.Load)
			if t.Probe {
				label += ", probe"
			}
			writeMeasures(w, label, &t.Measures)
		}
	}
	switch h := &s.ClientHealth; {
	case h.Valid && h.Stamps != "":
		fmt.Fprintf(w, "client health: valid (receive times: %s)\n", h.Stamps)
	case h.Valid:
		fmt.Fprintln(w, "client health: valid")
	default:
		fmt.Fprintf(w, "client health: INVALID: %s\n", strings.Join(h.Reasons, "; "))
	}
	fmt.Fprintf(w, "steady state: %s (%s)\n", s.SteadyState.Verdict, s.SteadyState.Reason)
}

func writeMeasures(w io.Writer, label string, m *loadgen.Measures) {
	fmt.Fprintf(w, "\n%s\n  requests %d, ok %d, failed %d", label, m.Counts.Total, m.Counts.OK, m.Counts.Failed)
	if m.Counts.Failed > 0 {
		fmt.Fprintf(w, " (%s)", byClass(m.Counts.ByClass))
	}
	fmt.Fprintf(w, "; %.2f s; %.1f requests/s; %.1f tokens/s (%s)\n", m.DurationS, m.CompletedPerS, m.OutputTokensPerS, tokensText(m))
	for _, line := range failureLines(&m.Counts) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if g := m.Goodput; g != nil {
		fmt.Fprintf(w, "  goodput %.2f requests/s: %.1f%% keep the SLO\n", g.PerS, 100*g.Fraction)
	}
	rows := slices.DeleteFunc(figureRows(m), func(r figureRow) bool { return r.F.Count == 0 })
	if len(rows) == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "  ms\tcount\tmean\tp50\tp90\tp95\tp99\tmax\t")
	for _, r := range rows {
		fmt.Fprintf(tw, "  %s\t%d", r.Name, r.F.Count)
		for _, v := range []loadgen.Millis{r.F.Mean, r.F.P50, r.F.P90, r.F.P95, r.F.P99, r.F.Max} {
			fmt.Fprintf(tw, "\t%.2f", float64(v))
		}
		fmt.Fprintln(tw, "\t")
	}
	_ = tw.Flush() // a buffer cannot fail
}

func tokensText(m *loadgen.Measures) string {
	if m.TokenSource == loadgen.TokensUnknown {
		return "no tokens"
	}
	return fmt.Sprintf("%d tokens by %s", m.OutputTokens, m.TokenSource)
}

// failureLines are an error of each class that failed.
func failureLines(counts *loadgen.Counts) []string {
	var lines []string
	for _, c := range loadgen.Classes() {
		if text := counts.Examples[c]; text != "" {
			lines = append(lines, fmt.Sprintf("%s, for example: %s", c, text))
		}
	}
	return lines
}

// byClass lists the classes other than ok that occurred.
func byClass(counts map[loadgen.Class]int64) string {
	var parts []string
	for _, c := range loadgen.Classes() {
		if n := counts[c]; n > 0 && c != loadgen.ClassOK {
			parts = append(parts, fmt.Sprintf("%s %d", c, n))
		}
	}
	return strings.Join(parts, ", ")
}

func classes(results []*loadgen.Result) string {
	total := map[loadgen.Class]int64{}
	for _, r := range results {
		for c, n := range r.Summary.Counts.ByClass {
			total[c] += n
		}
	}
	if s := byClass(total); s != "" {
		return s
	}
	return "none was sent"
}

// tableCommand prints the table of run directories.
func tableCommand(_ context.Context, a *app, args []string) error {
	fs := a.flags("table", "[-json] RUN...", "The LLM-serving table from run directories, or from directories of them.")
	asJSON := fs.Bool("json", false, "JSON instead of text")
	if err := fs.Parse(args); err != nil {
		return err
	}
	results, err := readRuns(fs.Args())
	if err != nil {
		return err
	}
	rows := studyRows(summariesOf(results))
	if *asJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	writeStudy(a.stdout, rows)
	return nil
}

func summariesOf(results []*loadgen.Result) []*loadgen.Summary {
	var s []*loadgen.Summary
	for _, r := range results {
		s = append(s, &r.Summary)
	}
	return s
}
