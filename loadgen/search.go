// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// ErrNoRate is returned when not even the lowest rate of a search meets the SLOs.
var ErrNoRate = errors.New("loadgen: no rate of the search keeps the SLOs")

// errUnknownSLO is returned when requests lack a figure that an SLO bounds.
var errUnknownSLO = errors.New("loadgen: the SLO was not measured")

// Search looks for the highest rate at which the share of requests that keep their SLO is at least Attainment, by
// halving the bracket between Low and High. The zero value of each field but these two is the documented default.
type Search struct {
	// Low and High are the rates, in requests/s, between which the answer lies.
	Low, High float64
	// Attainment is the share of requests that must keep the SLO; 0 means 0.99.
	Attainment float64
	// Confidence is that of a trial's result, one-sided; 0 means 0.95.
	Confidence float64
	// Resolution ends the search when the highest passing and the lowest failing
	// rate are this close, as a fraction of the latter; 0 means 0.05.
	Resolution float64
	// Limit ends the search after this time, with the results until then; 0 means no end.
	Limit time.Duration
}

// Trial holds the outcome of one run at a rate.
type Trial struct {
	RatePerS float64 `json:"rate_per_s"`
	Requests int64   `json:"requests"`
	Met      int64   `json:"met"` // requests that kept their SLO
	// Unknown are the requests that cannot show whether they did. A search ends with the first trial that has any.
	Unknown int64 `json:"unknown,omitempty"`
	// Saturated is the reason for stopping the run early; a stopped run fails.
	Saturated string `json:"saturated,omitempty"`
	// Valid is the run's client-health verdict. A trial that the client spoiled decides nothing.
	Valid bool   `json:"valid"`
	RunID string `json:"run_id,omitempty"`
}

// TrialOf reads a trial from a run's summary: the sum of its tenants' goodputs.
func TrialOf(rate float64, s *Summary) Trial {
	t := Trial{RatePerS: rate, Saturated: s.Stopped, Valid: s.ClientHealth.Valid, RunID: s.RunID}
	for i := range s.Tenants {
		if g := s.Tenants[i].Goodput; g != nil {
			t.Met, t.Unknown = t.Met+g.Met, t.Unknown+g.Unknown
			t.Requests += s.Tenants[i].Counts.Total
		}
	}
	return t
}

// RateVerdict is the verdict on one rate.
type RateVerdict struct {
	RatePerS float64 `json:"rate_per_s"`
	// Passes reports whether the share of requests that met the SLO reached the attainment. Shown reports whether that
	// holds of the rate at the search's confidence, and not only of the requests that were made.
	Passes     bool    `json:"passes"`
	Shown      bool    `json:"shown"`
	Requests   int64   `json:"requests"`
	Attainment float64 `json:"attainment"`
	// Lower and Upper bound the true attainment (Wilson score, one-sided each),
	// taking requests as independent; queueing makes them less than that.
	Lower     float64 `json:"lower"`
	Upper     float64 `json:"upper"`
	Saturated string  `json:"saturated,omitempty"`
}

// SearchResult holds the outcome of a search.
type SearchResult struct {
	// PassesPerS is the highest rate that passed, FailsPerS the lowest that did not;
	// missing when none did, or none did not.
	PassesPerS Optional[float64] `json:"passes_per_s,omitzero"`
	FailsPerS  Optional[float64] `json:"fails_per_s,omitzero"`
	Attainment float64           `json:"attainment"`
	Confidence float64           `json:"confidence"`
	CutOff     bool              `json:"cut_off,omitempty"` // by Search.Limit
	Rates      []RateVerdict     `json:"rates"`             // in the order of their trial
	Trials     []Trial           `json:"trials"`
}

// WriteText writes the highest rate that passed, and the rates that were tried.
func (r *SearchResult) WriteText(w io.Writer) error {
	highest, note := "none found", ""
	if rate, ok := r.PassesPerS.Get(); ok {
		highest = fmt.Sprintf("%.4g/s", rate)
		for _, v := range r.Rates {
			if needs := requestsToPass(r.Attainment, r.Confidence); v.RatePerS == rate && !v.Shown {
				note = fmt.Sprintf("%.4g/s kept it with %d requests, which are too few to show it at confidence %.0f%%: %d are "+
					"needed, all in time, which take %.0f s (-duration)\n", rate, v.Requests, 100*r.Confidence, needs,
					math.Ceil(float64(needs)/rate))
			}
		}
	}
	if r.CutOff {
		note += "the time limit ended the search before the bracket was narrow (-search-limit)\n"
	}
	fmt.Fprintf(w, "highest rate that keeps the SLO for %.4g%% of the requests: %s\n%s\n", 100*r.Attainment, highest, note)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "rate/s\trequests\tkeep the SLO\tat least\tat most\tverdict")
	for _, v := range r.Rates {
		verdict := map[bool]string{true: "passes", false: "fails"}[v.Passes]
		if !v.Shown {
			verdict += ", not shown"
		}
		fmt.Fprintf(tw, "%.4g\t%d\t%.2f%%\t%.2f%%\t%.2f%%\t%s\n", v.RatePerS, v.Requests, 100*v.Attainment, 100*v.Lower,
			100*v.Upper, verdict)
	}
	return tw.Flush()
}

func (s Search) withDefaults() Search {
	s.Attainment, s.Confidence, s.Resolution = cmp.Or(s.Attainment, 0.99), cmp.Or(s.Confidence, 0.95),
		cmp.Or(s.Resolution, 0.05)
	return s
}

// requestsToPass is the least number of requests that can show a rate to pass, with every one of them in time.
func requestsToPass(attainment, confidence float64) int {
	z := distuv.UnitNormal.Quantile(confidence)
	return int(math.Ceil(z*z*attainment/(1-attainment) - 1e-9))
}

// MaxRates is the number of rates that a search tries at most.
func (s Search) MaxRates() int {
	s = s.withDefaults()
	if s.check() != nil || s.High == s.Low {
		return 1
	}
	return 2 + int(math.Ceil(max(math.Log2(math.Log(s.High/s.Low)/-math.Log1p(-s.Resolution)), 0)))
}

func (s Search) check() error {
	var l problem.List
	l.If(!(s.Low > 0) || !(s.High >= s.Low) || math.IsInf(s.High, 0), "low", "use 0 < low <= high",
		"rates from %v to %v", s.Low, s.High)
	l.If(!(s.Attainment > 0 && s.Attainment < 1), "attainment", "use a share between 0 and 1", "%v", s.Attainment)
	l.If(!(s.Confidence >= 0.5 && s.Confidence < 1), "confidence", "use a value from 0.5 to below 1", "%v",
		s.Confidence)
	l.If(!(s.Resolution > 0 && s.Resolution < 1), "resolution", "use a fraction between 0 and 1", "%v", s.Resolution)
	l.If(s.Limit < 0, "limit", "use a duration above 0, or 0 for no end", "is %v", s.Limit)
	return l.Under(errors.New("loadgen: invalid search"))
}

// SpoiledTrials is the number of trials that a search makes again because the client spoiled them.
const SpoiledTrials = 3

// Run searches. run makes one trial at a rate, typically with Run and TrialOf, a plan of tenants with SLOs, and
// Options.StopSaturated set; its ctx ends with Limit. When run fails or ctx ends, the result holds the trials so far.
// ErrNoRate comes with the result too.
func (s Search) Run(ctx context.Context, run func(ctx context.Context, ratePerS float64) (Trial, error)) (*SearchResult,
	error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	limited := ctx
	if s.Limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, s.Limit)
		defer cancel()
	}
	res := &SearchResult{Attainment: s.Attainment, Confidence: s.Confidence}
	err := s.halve(limited, res, run)
	if limited.Err() != nil && ctx.Err() == nil {
		res.CutOff = true
		if err = nil; len(res.Rates) == 0 || res.PassesPerS.IsZero() {
			err = fmt.Errorf("%w within the time limit of %v", ErrNoRate, s.Limit)
		}
	}
	return res, err
}

// halve tries the ends of the bracket, and then the geometric mean of the rest.
func (s Search) halve(ctx context.Context, res *SearchResult, run func(context.Context, float64) (Trial, error)) error {
	for rate := s.Low; ; {
		v, err := s.try(ctx, rate, run, res)
		if err != nil {
			return err
		}
		if res.Rates = append(res.Rates, v); v.Passes {
			res.PassesPerS = optional.Of(rate)
		} else {
			res.FailsPerS = optional.Of(rate)
		}
		low, passed := res.PassesPerS.Get()
		high, failed := res.FailsPerS.Get()
		switch {
		case !passed:
			return fmt.Errorf("%w: at %v/s %.1f%% of %d requests keep them, %v%% is wanted%s", ErrNoRate, rate, 100*v.Attainment,
				v.Requests, 100*s.Attainment, strings.TrimSuffix("; "+v.Saturated, "; "))
		case !failed && rate == s.High, failed && high-low <= s.Resolution*high:
			return nil
		case !failed:
			rate = s.High
		default:
			rate, _ = strconv.ParseFloat(fmt.Sprintf("%.4g", math.Sqrt(low*high)), 64)
		}
	}
}

// try makes a trial at a rate, and again where the client spoiled it.
func (s Search) try(ctx context.Context, rate float64, run func(context.Context, float64) (Trial, error),
	res *SearchResult) (v RateVerdict, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return v, fmt.Errorf("loadgen: search cut off: %w", err)
		}
		t, err := run(ctx, rate)
		if err != nil {
			return v, fmt.Errorf("loadgen: trial at %v/s: %w", rate, err)
		}
		res.Trials = append(res.Trials, t)
		spoiled := 0
		for _, t := range res.Trials {
			if !t.Valid {
				spoiled++
			}
		}
		switch {
		case t.Unknown > 0:
			return v, fmt.Errorf("%w: %d of %d requests at %v/s lack a figure that the SLO bounds (ttft, tpot and stall need "+
				"streamed answers)", errUnknownSLO, t.Unknown, t.Requests, rate)
		case t.Valid && t.Requests > 0:
			v = RateVerdict{RatePerS: rate, Requests: t.Requests, Attainment: float64(t.Met) / float64(t.Requests),
				Saturated: t.Saturated}
			v.Lower, v.Upper = wilson(t.Met, t.Requests, s.Confidence)
			v.Passes = t.Saturated == "" && v.Attainment >= s.Attainment
			v.Shown = v.Passes && v.Lower >= s.Attainment || !v.Passes && (t.Saturated != "" || v.Upper < s.Attainment)
			return v, nil
		case t.Valid:
			return v, fmt.Errorf("%w: no request was made at %v/s (make the trials longer)", ErrNoRate, rate)
		case spoiled > SpoiledTrials:
			return v, fmt.Errorf("%w: %d trials are invalid by client health, the last at %v/s", ErrNoRate, spoiled, rate)
		}
	}
}

// wilson returns the one-sided Wilson score bounds of a share of k out of n.
func wilson(k, n int64, confidence float64) (lower, upper float64) {
	z := distuv.UnitNormal.Quantile(confidence)
	p, m := float64(k)/float64(n), float64(n)
	center := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	lower, upper = max(0, center-half), min(1, center+half)
	if k == n {
		upper = 1 // and not a rounding below it
	}
	return lower, upper
}

// errSaturated cancels requests in flight when a run is stopped for over-saturation.
var errSaturated = errors.New("stopped: the server is over-saturated")

// A run stops for over-saturation (Options.StopSaturated) where it finds a server that falls behind: the number of
// requests in flight and the mean TTFT both rise with time, each with a slope that is positive beyond chance (one-sided
// t-test of the regression). A closed loop cannot be over-saturated.
const (
	saturationEvery  = 500 * time.Millisecond // between samples
	saturationAfter  = 10 * time.Second       // before the first verdict
	saturationChance = 0.01                   // of each t-test
	saturationGrowth = 0.5                    // the least growth in flight, as a factor of the mean, that counts
)

// slopeTest fits y = a + b·x and returns the slope and the one-sided p-value of
// its being no more than 0. p is 1 with fewer than 3 points.
func slopeTest(x, y []float64) (slope, p float64) {
	n := float64(len(x))
	if len(x) < 3 || stat.Variance(x, nil) == 0 {
		return 0, 1
	}
	alpha, slope := stat.LinearRegression(x, y, nil, false)
	var rss float64
	for i := range x {
		e := y[i] - alpha - slope*x[i]
		rss += e * e
	}
	se := math.Sqrt(rss / (n - 2) / ((n - 1) * stat.Variance(x, nil)))
	if se == 0 && slope <= 0 {
		return slope, 1
	}
	return slope, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 2}.Survival(slope / se)
}

// saturated judges samples of one tenant: times in seconds, requests in flight,
// mean TTFT in seconds of the requests that ended in each interval (NaN without).
func saturated(at, inFlight, ttft []float64) (why string, yes bool) {
	n := len(at)
	if n < 3 || at[n-1] < saturationAfter.Seconds() {
		return "", false
	}
	mean := 0.0
	for _, v := range inFlight {
		mean += v / float64(n)
	}
	slope, p := slopeTest(at, inFlight)
	growth := slope * (at[n-1] - at[0])
	if p > saturationChance || growth < saturationGrowth*mean || growth < 2 {
		return "", false
	}
	var tx, ty []float64
	for i, v := range ttft {
		if !math.IsNaN(v) {
			tx, ty = append(tx, at[i]), append(ty, v)
		}
	}
	// A server so far behind that too few requests end has no TTFT to show a rise: the backlog alone speaks then.
	if len(tx) >= 3 {
		if tslope, tp := slopeTest(tx, ty); tp > saturationChance || tslope <= 0 {
			return "", false
		}
	}
	return fmt.Sprintf("over-saturated: requests in flight rose by %.1f over %.1f s around a mean of %.1f (p = %.2g)",
		growth, at[n-1]-at[0], mean, p), true
}
