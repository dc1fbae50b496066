// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// ErrNoRate is returned when even the lowest rate of a search misses the SLOs.
var ErrNoRate = errors.New("loadgen: no rate of the search keeps the SLOs")

// errUnknownSLO is returned when requests lack a figure that an SLO bounds.
var errUnknownSLO = errors.New("loadgen: the SLO was not measured")

// Search finds the highest rate at which the share of requests that meet their SLO is at least Attainment, by bisection
// between Low and High. It ends when the highest passing and the lowest failing rate are within 5%.
type Search struct {
	// Low and High are the rates, in requests/s, between which the answer lies.
	Low, High float64
	// Attainment is the share of requests that must meet the SLO; 0 means 0.99.
	Attainment float64
	// Limit bounds the duration of the search, which then returns the results so far; 0 means no bound.
	Limit time.Duration
}

// trial holds the outcome of one run at a rate: the sum of its tenants' goodputs.
type trial struct{ requests, met, unknown int64 }

func trialOf(s *Summary) (t trial) {
	for i := range s.Tenants {
		if g := s.Tenants[i].Goodput; g != nil {
			t.met, t.unknown = t.met+g.Met, t.unknown+g.Unknown
			t.requests += s.Tenants[i].Counts.Total
		}
	}
	return t
}

// RateVerdict is the verdict on one rate.
type RateVerdict struct {
	RatePerS float64 `json:"rate_per_s"`
	RunID    string  `json:"run_id,omitempty"` // of the run that decided
	// Passes reports whether the share of requests that met the SLO reached the attainment. Shown reports whether the
	// search's confidence extends that from the requests made to the rate itself.
	Passes     bool    `json:"passes"`
	Shown      bool    `json:"shown"`
	Requests   int64   `json:"requests"`
	Attainment float64 `json:"attainment"`
	// Lower and Upper bound the true attainment (Wilson score, one-sided each), assuming independent requests; queueing
	// makes the true bounds wider.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// SearchResult holds the result of a search.
type SearchResult struct {
	// PassesPerS is the highest rate that passed, FailsPerS the lowest that failed; each is missing if there is no such
	// rate.
	PassesPerS Optional[float64] `json:"passes_per_s,omitzero"`
	FailsPerS  Optional[float64] `json:"fails_per_s,omitzero"`
	Attainment float64           `json:"attainment"`
	Confidence float64           `json:"confidence"`
	CutOff     bool              `json:"cut_off,omitempty"` // by Search.Limit
	Rates      []RateVerdict     `json:"rates"`             // in the order of their trial
}

const (
	searchConfidence = 0.95 // of a trial's result, one-sided
	// searchResolution ends a search when the highest passing and the lowest failing rate are this close, as a fraction of
	// the latter.
	searchResolution = 0.05
)

// MaxTrials is the largest number of runs that a search makes, repeated ones included.
func (s Search) MaxTrials() int {
	if s.check() != nil || s.High == s.Low {
		return 1 + spoiledTrials
	}
	return 2 + spoiledTrials + int(math.Ceil(max(math.Log2(math.Log(s.High/s.Low)/-math.Log1p(-searchResolution)), 0)))
}

func (s Search) check() error {
	var l problem.List
	l.If(!(s.Low > 0) || !(s.High >= s.Low) || math.IsInf(s.High, 0), "low", "use 0 < low <= high",
		"rates from %v to %v", s.Low, s.High)
	l.If(!(s.Attainment >= 0 && s.Attainment < 1), "attainment", "use a share between 0 and 1", "%v", s.Attainment)
	l.If(s.Limit < 0, "limit", "use a duration above 0, or 0 for no end", "is %v", s.Limit)
	return l.Under(errors.New("loadgen: invalid search"))
}

// spoiledTrials is the number of trials that a search makes again because the client spoiled them.
const spoiledTrials = 3

// trialFunc makes one run at a rate.
type trialFunc = func(ctx context.Context, ratePerS float64) (*Summary, error)

// Run searches. run makes one run at a rate, with the package's Run and a plan of tenants with SLOs; its ctx ends at
// Limit. When run fails or ctx ends, and with ErrNoRate, the result holds the rates so far.
func (s Search) Run(ctx context.Context, run func(ctx context.Context, ratePerS float64) (*Summary, error)) (
	*SearchResult, error) {
	s.Attainment = cmp.Or(s.Attainment, 0.99)
	if err := s.check(); err != nil {
		return nil, err
	}
	limited := ctx
	if s.Limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, s.Limit)
		defer cancel()
	}
	res := &SearchResult{Attainment: s.Attainment, Confidence: searchConfidence}
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
func (s Search) halve(ctx context.Context, res *SearchResult, run trialFunc) error {
	spoiled := 0
	for rate := s.Low; ; {
		v, err := s.try(ctx, rate, run, &spoiled)
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
			return fmt.Errorf("%w: at %v/s %.1f%% of %d requests keep them, %v%% is wanted", ErrNoRate, rate, 100*v.Attainment,
				v.Requests, 100*s.Attainment)
		case !failed && rate == s.High, failed && high-low <= searchResolution*high:
			return nil
		case !failed:
			rate = s.High
		default:
			rate, _ = strconv.ParseFloat(fmt.Sprintf("%.4g", math.Sqrt(low*high)), 64)
		}
	}
}

// try makes a trial at a rate, and again where the client spoiled it.
func (s Search) try(ctx context.Context, rate float64, run trialFunc, spoiled *int) (v RateVerdict, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return v, fmt.Errorf("loadgen: search cut off: %w", err)
		}
		sum, err := run(ctx, rate)
		if err != nil {
			return v, fmt.Errorf("loadgen: trial at %v/s: %w", rate, err)
		}
		switch t, valid := trialOf(sum), sum.ClientHealth.Valid; {
		case t.unknown > 0:
			return v, fmt.Errorf("%w: %d of %d requests at %v/s lack a figure that the SLO bounds (ttft, tpot and stall need "+
				"streamed answers)", errUnknownSLO, t.unknown, t.requests, rate)
		case valid && t.requests > 0:
			v = RateVerdict{RatePerS: rate, RunID: sum.RunID, Requests: t.requests,
				Attainment: float64(t.met) / float64(t.requests)}
			v.Lower, v.Upper = wilson(t.met, t.requests, searchConfidence)
			v.Passes = v.Attainment >= s.Attainment
			v.Shown = v.Passes && v.Lower >= s.Attainment || !v.Passes && v.Upper < s.Attainment
			return v, nil
		case valid:
			return v, fmt.Errorf("%w: no request was made at %v/s (make the trials longer)", ErrNoRate, rate)
		}
		if *spoiled++; *spoiled > spoiledTrials {
			return v, fmt.Errorf("%w: %d trials are invalid by client health, the last at %v/s", ErrNoRate, *spoiled, rate)
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
