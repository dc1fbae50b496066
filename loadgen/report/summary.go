// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/loadgen"
)

// WriteSummary writes one run as text: the totals, and each tenant if there are several.
func WriteSummary(w io.Writer, s *loadgen.Summary) error {
	b := bufio.NewWriter(plaintext.NewWriter(w))
	if synthetic(s) {
		fmt.Fprintln(b, syntheticNote)
	}
	fmt.Fprintf(b, "run %s\n", s.RunID)
	if s.Stopped != "" {
		fmt.Fprintf(b, "stopped: %s\n", s.Stopped)
	}
	if len(s.Tenants) == 1 {
		writeMeasures(b, s.Tenants[0].Load, &s.Measures)
	} else {
		writeMeasures(b, "all tenants", &s.Measures)
		for i := range s.Tenants {
			t := &s.Tenants[i]
			writeMeasures(b, fmt.Sprintf("%s, %s", t.Name, t.Load), &t.Measures)
		}
	}
	switch h := &s.ClientHealth; {
	case h.Valid && h.Stamps != "":
		merged := ""
		if h.MergedBy == "server" {
			merged = fmt.Sprintf("; %.0f%% of the reads brought several events, which the server had sent together",
				100*float64(h.MergedReads)/float64(h.Reads))
		}
		fmt.Fprintf(b, "client health: valid (receive times: %s%s)\n", h.Stamps, merged)
	case h.Valid:
		fmt.Fprintln(b, "client health: valid")
	default:
		fmt.Fprintf(b, "client health: INVALID: %s\n", strings.Join(h.Reasons, "; "))
	}
	for _, reason := range s.Implausible() {
		fmt.Fprintf(b, "token counts: INVALID: %s\n", reason)
	}
	return b.Flush()
}

// ofWhich is the number of requests of a goodput, where others have no SLO.
func ofWhich(m *loadgen.Measures) string {
	if m.Goodput.Of == m.Counts.Total || m.Goodput.Of == 0 {
		return ""
	}
	return fmt.Sprintf(" (of the %d requests that have one)", m.Goodput.Of)
}

func writeMeasures(b *bufio.Writer, label string, m *loadgen.Measures) {
	fmt.Fprintf(b, "\n%s\n  requests %d, ok %d, failed %d", label, m.Counts.Total, m.Counts.OK, m.Counts.Failed)
	if m.Counts.Failed > 0 {
		fmt.Fprintf(b, " (%s)", FailedByClass(&m.Counts))
	}
	fmt.Fprintf(b, "; %.2f s; %.1f requests/s; %.1f tokens/s (%s)\n", m.DurationS, m.CompletedPerS, m.OutputTokensPerS,
		tokens(m))
	for _, line := range remarks(m) {
		fmt.Fprintf(b, "  %s\n", line)
	}
	if g := m.Goodput; g != nil {
		if share, ok := g.Fraction.Get(); ok {
			fmt.Fprintf(b, "  goodput %.2f requests/s: %.1f%% keep the SLO%s\n", g.PerS.Or(0), 100*share, ofWhich(m))
		} else {
			fmt.Fprintf(b, "  goodput unknown: %d requests lack a figure that the SLO bounds\n", g.Unknown)
		}
	}
	if c := m.PromptCache; c != nil {
		fmt.Fprintf(b, "  prompt cache: %.1f%% of %d prompt tokens, in %d of %d requests\n", 100*c.HitRate.Or(0),
			c.PromptTokens, c.Hits, c.Requests)
	}
	rows := shown(m)
	if len(rows) == 0 {
		return
	}
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "  ms\tcount\tmean\tp50\tp90\tp95\tp99\tmax\t")
	for _, r := range rows {
		fmt.Fprintf(tw, "  %s\t%d", r.Metric, r.Count)
		for _, v := range []loadgen.Millis{r.Mean, r.P50, r.P90, r.P95, r.P99, r.Max} {
			fmt.Fprintf(tw, "\t%.2f", float64(v))
		}
		fmt.Fprintln(tw, "\t")
	}
	_ = tw.Flush() // b keeps its error
}

// shown are the distributions that texts and pages show.
func shown(m *loadgen.Measures) []loadgen.MetricFigures {
	return slices.DeleteFunc(m.Distributions(), func(d loadgen.MetricFigures) bool {
		return d.Count == 0 || d.Metric == "ttfv" || d.Metric == "e2e_close"
	})
}

func tokens(m *loadgen.Measures) string {
	if m.TokenSource == "unknown" {
		return "no tokens"
	}
	return fmt.Sprintf("%d tokens by %s", m.OutputTokens, m.TokenSource)
}

// remarks are an error of each class that failed, and oddities of the answers.
func remarks(m *loadgen.Measures) (lines []string) {
	for _, c := range loadgen.Classes() {
		if text := m.Counts.Examples[c]; text != "" {
			lines = append(lines, fmt.Sprintf("%s, for example: %s", c, text))
		}
	}
	for _, r := range []struct {
		n    int64
		what string
	}{
		{m.Refusals, "are refusals"}, {m.ShortAnswers, "have fewer tokens than requested"},
		{m.ShortIgnoringEOS, "do so although ignore_eos was set: ANOMALY, the server may not know it"},
	} {
		if r.n > 0 {
			lines = append(lines, fmt.Sprintf("%d of %d answers %s", r.n, m.Counts.OK, r.what))
		}
	}
	return lines
}

// FailedByClass lists the classes of failed requests, with the reason why a connection failed, for example "http_5xx 4,
// connect 2: connection refused".
func FailedByClass(counts *loadgen.Counts) string {
	var parts []string
	for _, c := range loadgen.Classes() {
		n := counts.ByClass[c]
		if n == 0 || c == loadgen.ClassOK {
			continue
		}
		part := fmt.Sprintf("%s %d", c, n)
		if text := counts.Examples[c]; text != "" &&
			slices.Contains([]loadgen.Class{loadgen.ClassConnect, loadgen.ClassTruncated, loadgen.ClassClientLimit}, c) {
			part += ": " + strings.TrimSpace(text[strings.LastIndexByte(text, ':')+1:])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// loadLevel is the load that a run offered: users of closed loops, or the rate of open ones.
type loadLevel struct {
	Value float64
	Unit  string // "users", "requests/s", or "mixed" (Value is then 0)
	Text  string // e.g. "8 users"; both where there are both
}

// The units of a loadLevel.
const (
	unitUsers = "users"
	unitRate  = "requests/s"
	unitMixed = "mixed" // closed and open loops together: no single level
)

// LoadText names the load that a run offered: "8 users", "15 requests/s", or both.
func LoadText(s *loadgen.Summary) string { return levelOf(s).Text }

// levelOf returns the load that a run offered.
func levelOf(s *loadgen.Summary) loadLevel {
	users, rate := 0.0, 0.0
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if after, closed := strings.CutPrefix(t.Load, "closed loop, concurrency "); closed {
			n, _, _ := strings.Cut(after, ",")
			if v, err := strconv.ParseFloat(n, 64); err == nil {
				users += v
			}
			continue
		}
		rate += offered(t)
	}
	usersText, rateText := fmt.Sprintf("%v %s", users, unitUsers), fmt.Sprintf("%v %s", math.Round(1e4*rate)/1e4, unitRate)
	switch {
	case rate > 0 && users > 0:
		return loadLevel{0, unitMixed, usersText + ", " + rateText}
	case rate > 0:
		return loadLevel{rate, unitRate, rateText}
	}
	return loadLevel{users, unitUsers, usersText}
}

// offered is the rate that the schedule was to offer, or the actual one where that is not one number.
func offered(t *loadgen.TenantSummary) float64 {
	fields := strings.Fields(t.Load)
	if i := slices.IndexFunc(fields,
		func(f string) bool { return f == "constant" || f == "poisson" || f == "gamma" }); i >= 0 && i+1 < len(fields) {
		if v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(fields[i+1], ","), "/s"), 64); err == nil {
			return v
		}
	}
	return math.Round(t.OfferedPerS*100) / 100
}

// syntheticNote heads texts of simulated runs.
const syntheticNote = "SYNTHETIC: from a simulated GPU, not a measurement of a real one"

func synthetic(s *loadgen.Summary) bool { return s.Basis != "measured" }
