// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// errIncomparable is returned for runs that cannot be compared.
var errIncomparable = errors.New("loadgen: the runs cannot be compared")

// failedShare names the share of requests that failed, of whatever class.
const failedShare = "failed.share"

// DefaultFigures are the figures that CompareRuns compares by default.
func DefaultFigures() []string {
	return []string{failedShare, "output_tokens_per_s", "ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "tpot_ms.p99",
		"chunk_gap_ms.p99", "e2e_ms.p50", "e2e_ms.p99"}
}

// figureNames lists every figure of a summary that can be compared.
func figureNames() []string {
	names := slices.Collect(maps.Keys(plainFigures))
	for _, d := range distributions(&loadgen.Measures{}) {
		for _, s := range statistics {
			names = append(names, figureName(d.Metric)+"."+s.name)
		}
	}
	slices.Sort(names)
	return names
}

var statistics = []struct {
	name string
	q    float64 // 0 if not a percentile
	of   func(*loadgen.Figures) loadgen.Millis
}{
	{"mean", 0, func(f *loadgen.Figures) loadgen.Millis { return f.Mean }},
	{"p50", 0.5, func(f *loadgen.Figures) loadgen.Millis { return f.P50 }},
	{"p90", 0.9, func(f *loadgen.Figures) loadgen.Millis { return f.P90 }},
	{"p95", 0.95, func(f *loadgen.Figures) loadgen.Millis { return f.P95 }},
	{"p99", 0.99, func(f *loadgen.Figures) loadgen.Millis { return f.P99 }},
	{"max", 0, func(f *loadgen.Figures) loadgen.Millis { return f.Max }},
}

// distributions are those that can be compared, by their names in a summary.
func distributions(m *loadgen.Measures) []loadgen.MetricFigures {
	return slices.DeleteFunc(m.Distributions(), func(d loadgen.MetricFigures) bool {
		return d.Metric == "connected" || d.Metric == "written" || d.Metric == "first_byte" // a request's phases
	})
}

func figureName(m loadgen.LatencyMetric) string { return string(m) + "_ms" }

// plainFigures are those that are of no distribution, with whether a run has them.
var plainFigures = map[string]func(*loadgen.Measures) (float64, bool){
	"completed_per_s":     func(m *loadgen.Measures) (float64, bool) { return m.CompletedPerS, true },
	"output_tokens_per_s": func(m *loadgen.Measures) (float64, bool) { return m.OutputTokensPerS, true },
	failedShare:           func(m *loadgen.Measures) (float64, bool) { return share(m.Counts.Failed, m.Counts.Total) },
	"short.share":         func(m *loadgen.Measures) (float64, bool) { return share(m.ShortAnswers, m.Counts.OK) },
	"goodput.fraction": func(m *loadgen.Measures) (float64, bool) {
		if m.Goodput == nil {
			return 0, false
		}
		return m.Goodput.Fraction.Get()
	},
}

// share is a part of some, and whether there are any.
func share(n, of int64) (float64, bool) { return float64(n) / float64(max(of, 1)), of > 0 }

// figureOf returns the named figure; ok is false when the run doesn't have it, and
// doubt is the reason why its value supports no claim, "" if it does.
func figureOf(m *loadgen.Measures, name string) (value float64, doubt string, ok bool) {
	if of := plainFigures[name]; of != nil {
		value, ok = of(m)
		return value, "", ok
	}
	dist, stat, _ := strings.Cut(name, ".")
	for _, d := range distributions(m) {
		if figureName(d.Metric) != dist || d.Count == 0 {
			continue
		}
		for _, s := range statistics {
			if s.name != stat {
				continue
			}
			if need := percentileNeeds(s.q); d.Count < need {
				doubt = fmt.Sprintf("%s of %d values is their maximum: %d are needed", stat, d.Count, need)
			}
			return float64(s.of(d.Figures)), doubt, true
		}
	}
	return 0, "", false
}

// percentileNeeds is the number of values from which on the q-quantile is not simply the largest.
func percentileNeeds(q float64) int64 {
	if q == 0 {
		return 1
	}
	return int64(math.Ceil(1/(1-q) - 1e-9))
}

// RunComparison compares two groups of runs, figure by figure.
type RunComparison struct {
	Base    string             `json:"base"`  // the groups' scenarios
	Other   string             `json:"other"` //
	Basis   string             `json:"basis"` // "measured" or "simulated"
	Figures []FigureComparison `json:"figures"`
	// Correction names the correction of p-values for the number of figures; "" where nothing was tested.
	Correction string `json:"correction,omitempty"`
	// Withheld is the reason for withholding claims on latencies and rates, which cover only requests that did not fail;
	// "" if none are withheld.
	Withheld string   `json:"withheld,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// CompareRuns compares the figures of two groups of repeated runs; a run is one value. The level applies to all claims
// together: if nothing differs, the probability of any claim is at most 1 minus the confidence. If the groups' shares
// of failed requests differ significantly, claims on latencies and rates are withheld, because a server that refuses
// requests serves the rest faster. It refuses, with every reason, groups that mix simulated and measured runs, hold a
// run twice, or hold runs that are not valid or not complete (unless AllowInvalid). A percentile of a run with too few
// requests for it supports no claim.
func CompareRuns(base, other []loadgen.Summary, opts CompareOptions) (*RunComparison, error) {
	if _, err := opts.confidence(); err != nil {
		return nil, fmt.Errorf("loadgen: invalid comparison: %w", err)
	}
	if opts.Figures == nil {
		opts.Figures = DefaultFigures()
	}
	var l problem.List
	opts.Figures = slices.Clone(opts.Figures)
	for i, name := range opts.Figures {
		if opts.Figures[i] = figureNamed(name); opts.Figures[i] == "" {
			l.Addf(fmt.Sprintf("figures[%d]", i), didYouMean(name, figureNames()), "unknown figure %q", problem.Clip(name))
		}
	}
	rc := &RunComparison{}
	sides := []*side{{name: "base", runs: base}, {name: "other", runs: other}}
	seen := map[string]string{}
	for _, s := range sides {
		s.check(&l, rc, opts, seen)
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errIncomparable, err)
	}
	rc.Base, rc.Other = sides[0].label(), sides[1].label()
	sources := distinct(slices.Concat(sides[0].of, sides[1].of),
		func(m **loadgen.Measures) []string { return []string{(*m).TokenSource} })
	if a, b := sides[0].loads(), sides[1].loads(); a != b {
		rc.Warnings = append(rc.Warnings, fmt.Sprintf("the loads differ: %s against %s", a, b))
	}
	var tested []testedFigure
	for i, name := range opts.Figures {
		c, values, err := compareFigure(name, sides, opts)
		if err != nil {
			return nil, err
		}
		if countsTokens(name) && len(sources) > 1 {
			c.Claim = claimUnsupported
			c.Reasons = append(c.Reasons, "tokens were counted in different ways: "+strings.Join(sources, ", "))
		}
		if c.Claim != claimUnsupported {
			tested = append(tested, testedFigure{i, values[0], values[1]})
		}
		rc.Figures = append(rc.Figures, c)
	}
	conf, _ := opts.confidence()
	rc.correct(tested, 1-conf)
	rc.withhold(sides, 1-conf)
	return rc, nil
}

func didYouMean(name string, known []string) string {
	return problem.Meant(name, known, "use a figure such as ttft_ms.p99, tpot_ms.p50, e2e_ms.p99, output_tokens_per_s, "+
		"failed.share or goodput.fraction")
}

func countsTokens(figure string) bool {
	return strings.HasPrefix(figure, "output_tokens") || strings.HasPrefix(figure, "tpot") ||
		strings.HasPrefix(figure, "itl")
}

type side struct {
	name string
	runs []loadgen.Summary
	of   []*loadgen.Measures
}

func (s *side) check(l *problem.List, rc *RunComparison, opts CompareOptions, seen map[string]string) {
	l.If(len(s.runs) == 0, s.name, "give at least one run", "no runs")
	for i := range s.runs {
		run, path := &s.runs[i], fmt.Sprintf("%s[%d]", s.name, i)
		if first, twice := seen[run.RunID]; twice && run.RunID != "" {
			l.Addf(path, "give each run once", "run %q is %s too", problem.Clip(run.RunID), first)
		}
		seen[run.RunID] = path
		if rc.Basis == "" {
			rc.Basis = run.Basis
		} else if run.Basis != rc.Basis {
			l.Addf(path, "compare like with like", "is %s, other runs are %s", run.Basis, rc.Basis)
		}
		for _, fault := range faults(run) {
			if opts.AllowInvalid {
				rc.Warnings = append(rc.Warnings, path+": "+fault)
			} else {
				l.Addf(path, "repeat it, or allow invalid runs", "%s", fault)
			}
		}
		if opts.Tenant == "" {
			s.of = append(s.of, &run.Measures)
		} else if t, ok := run.Tenant(opts.Tenant); ok {
			s.of = append(s.of, &t.Measures)
		} else {
			l.Addf(path, "choose a tenant that every run has", "has no tenant %q", problem.Clip(opts.Tenant))
		}
	}
}

// faults are the reasons why the run's figures should not be used.
func faults(s *loadgen.Summary) []string {
	var f []string
	if !s.ClientHealth.Valid {
		f = append(f, "invalid by client health: "+strings.Join(s.ClientHealth.Reasons, "; "))
	}
	if reasons := s.Implausible(); len(reasons) > 0 {
		f = append(f, "invalid by token counts: "+strings.Join(reasons, "; "))
	}
	if !s.Complete {
		f = append(f, strings.TrimSuffix("not complete: "+s.Stopped, ": "))
	}
	return f
}

func (s *side) label() string {
	return strings.Join(distinct(s.runs, func(run *loadgen.Summary) []string { return []string{run.Scenario} }), ", ")
}

func (s *side) loads() string {
	return strings.Join(distinct(s.runs, func(run *loadgen.Summary) (loads []string) {
		for i := range run.Tenants {
			loads = append(loads, run.Tenants[i].Load)
		}
		return loads
	}), " and ")
}

// distinct lists the texts of all elements, each once, in order.
func distinct[T any](all []T, texts func(*T) []string) (out []string) {
	for i := range all {
		for _, text := range texts(&all[i]) {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

func compareFigure(name string, sides []*side, opts CompareOptions) (c FigureComparison, values [2][]float64,
	err error) {
	var doubts []string
	for i, s := range sides {
		missing := 0
		for _, m := range s.of {
			v, doubt, ok := figureOf(m, name)
			switch {
			case !ok:
				missing++
			default:
				values[i] = append(values[i], v)
			}
			if doubt != "" && !slices.Contains(doubts, doubt) {
				doubts = append(doubts, doubt)
			}
		}
		if missing > 0 {
			doubts = append(doubts, fmt.Sprintf("%d of %d runs of %s don't have it", missing, len(s.of), s.name))
		}
	}
	c, err = Compare(name, values[0], values[1], opts)
	if len(doubts) > 0 {
		c.Claim = claimUnsupported
		c.Reasons = append(c.Reasons, doubts...)
	}
	return c, values, err
}

// figureNamed is the figure of a name or its short form: "failed" and
// "goodput" for their shares, "ttft.p99" for "ttft_ms.p99"; "" for none.
func figureNamed(name string) string {
	known := figureNames()
	for _, n := range []string{name, name + ".share", name + ".fraction", strings.Replace(name, ".", "_ms.", 1)} {
		if slices.Contains(known, n) {
			return n
		}
	}
	return ""
}

// WriteText writes the comparison as a text table.
func (rc *RunComparison) WriteText(w io.Writer) error {
	var b strings.Builder
	basis := ""
	if rc.Basis != "measured" {
		basis = "SYNTHETIC (" + rc.Basis + "), not a measurement\n"
	}
	fmt.Fprintf(&b, "%sbase: %s; other: %s\n\n", basis, rc.Base, rc.Other)
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "figure\tbase median (n)\tother median (n)\tchange\tp\tcorrected\tverdict")
	var notes []string
	for i := range rc.Figures {
		c := &rc.Figures[i]
		change, p, corrected, note := "-", "-", "-", ""
		if v, ok := c.Change.Get(); ok {
			change = fmt.Sprintf("%+.1f%%", 100*v)
			if ci := c.ShiftCI; ci != nil {
				scale := 100 / math.Abs(c.Base.Median)
				change += fmt.Sprintf(", %+.1f to %+.1f%%", ci.Low*scale, ci.High*scale)
			}
		}
		if v, ok := c.P.Get(); ok {
			p = fmt.Sprintf("%.3f", v)
		}
		if v, ok := c.PCorrected.Get(); ok {
			corrected = fmt.Sprintf("%.3f", v)
		}
		for _, reason := range c.Reasons {
			k := slices.Index(notes, reason)
			if k < 0 {
				notes, k = append(notes, reason), len(notes)
			}
			note += fmt.Sprintf(" [%d]", k+1)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n", c.Figure, c.Base.text(), c.Other.text(), change, p, corrected,
			c.Claim, note)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "[%d] %s\n", i+1, n)
	}
	if rc.Withheld != "" {
		fmt.Fprintf(&b, "withheld: %s\n", rc.Withheld)
	}
	if rc.Correction != "" {
		fmt.Fprintf(&b, "note: claims rest on the corrected p, which allows for all figures that were tested (%s); "+
			"intervals are each figure's own\n", rc.Correction)
	}
	for _, warning := range rc.Warnings {
		fmt.Fprintf(&b, "note: %s\n", warning)
	}
	_, err := io.WriteString(w, plaintext.Show(b.String()))
	return err
}
