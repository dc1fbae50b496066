// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"gonum.org/v1/gonum/stat/combin"
	"math"
	"slices"
	"sort"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// The claims of a comparison, as FigureComparison.Claim has them.
const (
	claimUnsupported  = "unsupported"
	claimNoDifference = "no difference shown"
	claimLower        = "lower"
	claimHigher       = "higher"
)

// ConfidenceInterval is a confidence interval.
type ConfidenceInterval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence is the exact probability with which the procedure covers the true value: at least the requested one.
	Confidence float64 `json:"confidence"`
}

// ComparedSide describes one side of a comparison.
type ComparedSide struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	// CI is the median's confidence interval from order statistics, without any assumption on the distribution;
	// absent (nil) when N is too small for one (less than 6 at 95%).
	CI *ConfidenceInterval `json:"median_ci,omitempty"`
}

// FigureComparison compares two independent samples of one quantity.
type FigureComparison struct {
	Figure string       `json:"figure"`
	Base   ComparedSide `json:"base"`
	Other  ComparedSide `json:"other"`
	// Claim is "lower" or "higher" where the other's values are shown to be so, "no difference shown", which does not
	// prove equality, or "unsupported": the samples cannot support a claim; see Reasons.
	Claim string `json:"verdict"`
	// P is the two-sided p-value of the Mann-Whitney U test, as benchstat computes it; missing where there was nothing
	// to test.
	P loadgen.Optional[float64] `json:"p,omitzero"`
	// PCorrected allows for the other figures that CompareRuns tested; missing where the figure was not among them.
	PCorrected loadgen.Optional[float64] `json:"p_corrected,omitzero"`
	// Shift is the Hodges-Lehmann estimate of other minus base: the median of all pairwise differences. ShiftCI is
	// its interval, absent when the samples are too small for one.
	Shift   float64             `json:"shift"`
	ShiftCI *ConfidenceInterval `json:"shift_ci,omitempty"`
	// Change is Shift as a fraction of the base's median, missing when that is 0.
	Change loadgen.Optional[float64] `json:"change,omitzero"`
	// Reasons list the causes of an unsupported claim, and further caveats.
	Reasons []string `json:"reasons,omitempty"`
}

// CompareOptions tune Compare and CompareRuns. The zero value is the documented default.
type CompareOptions struct {
	// Confidence is that of the intervals; the significance level of the test is 1 minus Confidence. 0 means 0.95.
	Confidence float64
	// Figures are those that CompareRuns compares, by their names in a summary ("ttft_ms.p99") or
	// their short forms, as ParseCondition takes them; nil means DefaultFigures.
	Figures []string
	// Tenant selects a tenant's figures; "" means the totals.
	Tenant string
	// AllowInvalid lets CompareRuns accept runs that are not valid or not complete; Warnings then name them.
	AllowInvalid bool
}

func (o CompareOptions) confidence() (float64, error) {
	if o.Confidence == 0 {
		return 0.95, nil
	}
	if !(o.Confidence >= 0.5 && o.Confidence < 1) {
		return 0, &problem.Problem{Path: "confidence", Message: fmt.Sprintf("is %v", o.Confidence),
			Remedy: "use 0.5 to 0.999..., or 0 for 0.95"}
	}
	return o.Confidence, nil
}

// Compare compares two samples of independent values: one value per run, not per request, since the requests of a run
// depend on one another. It claims a difference only if the Mann-Whitney test shows one at the requested level; if the
// samples are too small to show any, the claim is "unsupported". NaN and infinite values are an error.
func Compare(figure string, base, other []float64, opts CompareOptions) (FigureComparison, error) {
	conf, err := opts.confidence()
	if err != nil {
		return FigureComparison{}, fmt.Errorf("loadgen: invalid comparison: %w", err)
	}
	var l problem.List
	for _, side := range []struct {
		name   string
		values []float64
	}{{"base", base}, {"other", other}} {
		for i, v := range side.values {
			l.If(math.IsNaN(v) || math.IsInf(v, 0), fmt.Sprintf("%s[%d]", side.name, i), "leave missing values out",
				"%v is not a finite number", v)
		}
	}
	if err := l.Err(); err != nil {
		return FigureComparison{}, fmt.Errorf("loadgen: invalid comparison of %s: %w", figure, err)
	}
	c := FigureComparison{Figure: figure, Claim: claimUnsupported, Base: describe(base, conf),
		Other: describe(other, conf)}
	n, m := len(base), len(other)
	if n == 0 || m == 0 {
		c.Reasons = append(c.Reasons, "one side has no values")
		return c, nil
	}
	diffs := make([]float64, 0, n*m)
	for _, b := range base {
		for _, o := range other {
			diffs = append(diffs, o-b)
		}
	}
	slices.Sort(diffs)
	c.Shift = medianOf(diffs)
	c.ShiftCI = shiftInterval(diffs, n, m, conf)
	if c.Base.Median != 0 {
		c.Change = optional.Of(c.Shift / math.Abs(c.Base.Median))
	}
	alpha := 1 - conf
	p := pValue(base, other)
	c.P = optional.Of(p)
	switch least := leastP(n, m); {
	case least > alpha*(1+1e-9):
		c.Reasons = append(c.Reasons, fmt.Sprintf("%d and %d values cannot show a difference at level %.3g: the least "+
			"possible p is %.3g (use at least %d of each)",
			n, m, alpha, least, enoughSamples(alpha)))
	case p > alpha*(1+1e-9):
		c.Claim = claimNoDifference
	case c.Shift < 0:
		c.Claim = claimLower
	case c.Shift > 0:
		c.Claim = claimHigher
	default:
		c.Claim = claimNoDifference
		c.Reasons = append(c.Reasons, "the distributions differ, their location does not")
	}
	return c, nil
}

func describe(values []float64, conf float64) ComparedSide {
	side := ComparedSide{N: len(values)}
	if side.N == 0 {
		return side
	}
	s := benchmath.AssumeNothing.Summary(sample(values), conf)
	side.Median = s.Center
	if !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0) {
		side.CI = &ConfidenceInterval{s.Lo, s.Hi, s.Confidence}
	}
	return side
}

func medianOf(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	// Half of each: the sum of two huge values would overflow.
	return sorted[n/2-1]/2 + sorted[n/2]/2
}

// shiftInterval inverts the Mann-Whitney test over the sorted differences.
func shiftInterval(diffs []float64, n, m int, conf float64) *ConfidenceInterval {
	tail := func(k int) float64 { return stats.UDist{N1: n, N2: m}.CDF(float64(k)) }
	best := sort.Search(len(diffs)/2, func(k int) bool { return tail(k) > (1-conf)/2 }) - 1
	if best < 0 {
		return nil
	}
	return &ConfidenceInterval{diffs[best], diffs[len(diffs)-1-best], 1 - 2*tail(best)}
}

func (s ComparedSide) text() string {
	switch {
	case s.N == 0:
		return "-"
	case s.CI == nil:
		return fmt.Sprintf("%.4g (%d)", s.Median, s.N)
	}
	return fmt.Sprintf("%.4g, %.4g to %.4g (%d)", s.Median, s.CI.Low, s.CI.High, s.N)
}

// sample is some values as benchmath takes them, which sorts them.
func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

// pValue is the two-sided p-value of the Mann-Whitney U test; 1 where all values are equal. The sample with the lower
// values is first: with ties the test looks up the smaller U in the distribution of the first sample's.
func pValue(a, b []float64) float64 {
	higher := 0
	for _, x := range a {
		for _, y := range b {
			higher += cmp.Compare(x, y)
		}
	}
	if higher > 0 {
		a, b = b, a
	}
	return min(benchmath.AssumeNothing.Compare(sample(a), sample(b)).P, 1)
}

// leastP is the smallest two-sided p-value that n and m untied values can give.
func leastP(n, m int) float64 { return min(2/arrangements(n, m), 1) }

// enoughSamples is the smallest n with leastP(n, n) at or below alpha.
func enoughSamples(alpha float64) int {
	n := 1
	for leastP(n, n) > alpha*(1+1e-9) {
		n++
	}
	return n
}

func arrangements(n, m int) float64 { return combin.GeneralizedBinomial(float64(n+m), float64(n)) }
