package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// ErrNoRate says that not even the lowest rate of a search keeps the SLOs.
var ErrNoRate = errors.New("loadgen: no rate of the search keeps the SLOs")

// ErrUnknownSLO says that requests cannot show whether they keep an SLO.
var ErrUnknownSLO = errors.New("loadgen: the SLO was not measured")

// Search looks for the highest rate at which the share of requests that keep their SLO is at least Attainment. The
// zero value of each field but Low and High is the documented default.
type Search struct {
	// Low and High are the rates, in requests/s, between which the answer lies.
	Low, High float64
	// Attainment is the share of requests that must keep the SLO; 0 means 0.99.
	Attainment float64
	// Confidence of each verdict, one-sided; 0 means 0.95.
	Confidence float64
	// Repeats is the number of trials made of each rate before a verdict, 0 meaning 2, and MaxRepeats the number
	// after which a rate that is still undecided counts as failing; 0 means 4.
	Repeats, MaxRepeats int
	// Resolution ends the search when the highest passing and the lowest failing
	// rate are this close, as a fraction of the latter; 0 means 0.05.
	Resolution float64
}

// Trial holds the outcome of one run at a rate.
type Trial struct {
	RatePerS float64 `json:"rate_per_s"`
	Repeat   int     `json:"repeat"` // from 0
	Requests int64   `json:"requests"`
	Met      int64   `json:"met"` // requests that kept their SLO
	// Unknown are the requests that cannot show whether they did. A search ends with the first trial that has any.
	Unknown int64 `json:"unknown,omitempty"`
	// Saturated says why the run was stopped early; a stopped run fails.
	Saturated string `json:"saturated,omitempty"`
	// Valid is the run's client-health verdict. A trial that the client spoiled decides nothing.
	Valid bool   `json:"valid"`
	RunID string `json:"run_id,omitempty"`
}

// TrialOf reads a trial from a run's summary: the sum of its tenants' goodputs.
func TrialOf(rate float64, repeat int, s *Summary) Trial {
	t := Trial{RatePerS: rate, Repeat: repeat, Saturated: s.Stopped, Valid: s.ClientHealth.Valid, RunID: s.RunID}
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
	RatePerS   float64 `json:"rate_per_s"`
	Verdict    string  `json:"verdict"` // passes, fails or undecided (counted as failing)
	Attainment float64 `json:"attainment"`
	// Lower and Upper bound the true attainment (Wilson score, one-sided each),
	// taking requests as independent; queueing makes them less than that.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// SearchResult holds the outcome of a search.
type SearchResult struct {
	// PassesPerS is the highest rate that passed, FailsPerS the lowest that did not;
	// missing when none did, or none did not.
	PassesPerS Optional[float64] `json:"passes_per_s,omitzero"`
	FailsPerS  Optional[float64] `json:"fails_per_s,omitzero"`
	Attainment float64           `json:"attainment"`
	Confidence float64           `json:"confidence"`
	Rates      []RateVerdict     `json:"rates"` // in the order of their trial
	Trials     []Trial           `json:"trials"`
}

// WriteText writes the rates that were tried, and the highest that passed.
func (r *SearchResult) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "rate/s\tkeep the SLO\tat least\tat most\tverdict")
	for _, v := range r.Rates {
		fmt.Fprintf(tw, "%.4g\t%.2f%%\t%.2f%%\t%.2f%%\t%s\n", v.RatePerS, 100*v.Attainment, 100*v.Lower, 100*v.Upper,
			v.Verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	highest := "none found"
	if rate, ok := r.PassesPerS.Get(); ok {
		highest = fmt.Sprintf("%.4g/s", rate)
	}
	_, err := fmt.Fprintf(w, "highest rate that keeps the SLO for %.0f%% of the requests (confidence %.0f%%): %s\n",
		100*r.Attainment, 100*r.Confidence, highest)
	return err
}

func (s Search) withDefaults() Search {
	s.Attainment, s.Confidence, s.Resolution = cmp.Or(s.Attainment, 0.99), cmp.Or(s.Confidence, 0.95),
		cmp.Or(s.Resolution, 0.05)
	s.Repeats = cmp.Or(s.Repeats, 2)
	s.MaxRepeats = cmp.Or(s.MaxRepeats, max(4, s.Repeats))
	return s
}

// RequestsToPass is the least number of requests that can show a rate to pass, with every one of them in time; 0
// for an Attainment or Confidence that Run refuses.
func (s Search) RequestsToPass() int {
	s = s.withDefaults()
	if !(s.Attainment > 0 && s.Attainment < 1 && s.Confidence >= 0.5 && s.Confidence < 1) {
		return 0
	}
	z := distuv.UnitNormal.Quantile(s.Confidence)
	return int(math.Ceil(z*z*s.Attainment/(1-s.Attainment) - 1e-9))
}

// TrialRequests is the least number of requests of a trial with which Repeats of
// them can show a rate to pass. Trials at a low rate may have to be longer for it.
func (s Search) TrialRequests() int {
	s = s.withDefaults()
	return (s.RequestsToPass() + s.Repeats - 1) / s.Repeats
}

func (s Search) check() error {
	var l problem.List
	l.If(!(s.Low > 0) || !(s.High >= s.Low) || math.IsInf(s.High, 0), "low", "use 0 < low <= high",
		"rates from %v to %v", s.Low, s.High)
	l.If(!(s.Attainment > 0 && s.Attainment < 1), "attainment", "use a share between 0 and 1", "%v", s.Attainment)
	l.If(!(s.Confidence >= 0.5 && s.Confidence < 1), "confidence", "use a value from 0.5 to below 1", "%v",
		s.Confidence)
	l.If(!(s.Resolution > 0 && s.Resolution < 1), "resolution", "use a fraction between 0 and 1", "%v", s.Resolution)
	l.If(s.Repeats < 1 || s.MaxRepeats < s.Repeats, "repeats", "use 1 <= repeats <= max_repeats", "%d of at most %d",
		s.Repeats, s.MaxRepeats)
	return l.Under(errors.New("loadgen: invalid search"))
}

// Run searches. run makes one trial at a rate, typically with Run and TrialOf, a plan whose tenants have SLOs and which
// sends TrialRequests, and Options.StopSaturated set. A trial that the client spoiled is made again, up to MaxRepeats
// times a rate. When run fails or ctx ends, the result holds the trials so far. ErrNoRate comes with the result too.
func (s Search) Run(ctx context.Context,
	run func(ctx context.Context, ratePerS float64, repeat int) (Trial, error)) (*SearchResult, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	res := &SearchResult{Attainment: s.Attainment, Confidence: s.Confidence}
	var low, high float64 // of the rates tried, the highest that passed and the lowest that did not
	passes := func(rate float64) (bool, error) {
		v, err := s.judge(ctx, rate, run, res)
		if err != nil {
			return false, err
		}
		res.Rates = append(res.Rates, v)
		if v.Verdict == "passes" {
			low, res.PassesPerS = rate, optional.Of(rate)
			return true, nil
		}
		high, res.FailsPerS = rate, optional.Of(rate)
		return false, nil
	}
	ok, err := passes(s.Low)
	switch {
	case err != nil:
		return res, err
	case !ok:
		return res, s.noRate(res)
	case s.High == s.Low:
		return res, nil
	}
	if ok, err = passes(s.High); ok || err != nil {
		return res, err
	}
	for high-low > s.Resolution*high {
		if _, err := passes((low + high) / 2); err != nil {
			return res, err
		}
	}
	return res, nil
}

// noRate returns the reason why the lowest rate did not pass.
func (s Search) noRate(res *SearchResult) error {
	v, invalid := res.Rates[0], 0
	saturated := ""
	for _, t := range res.Trials {
		if !t.Valid {
			invalid++
		} else if t.Saturated != "" {
			saturated = t.Saturated
		}
	}
	switch {
	case invalid == len(res.Trials):
		return fmt.Errorf("%w: all %d trials at %v/s are invalid by client health", ErrNoRate, invalid, s.Low)
	case saturated != "":
		return fmt.Errorf("%w: at %v/s: %s", ErrNoRate, s.Low, saturated)
	case v.Verdict == "undecided":
		return fmt.Errorf("%w: too few requests to tell at %v/s: %.1f%% to %.1f%% keep them at confidence %.0f%%, %v%% is "+
			"wanted; %d of %d trials are invalid (at least %d requests are needed, all in time: make the trials longer, or "+
			"more)",
			ErrNoRate, s.Low, 100*v.Lower, 100*v.Upper, 100*s.Confidence, 100*s.Attainment, invalid, len(res.Trials),
			s.RequestsToPass())
	}
	return fmt.Errorf("%w: at %v/s %.1f%% of the requests keep them, %v%% is wanted", ErrNoRate, s.Low, 100*v.Attainment,
		100*s.Attainment)
}

// judge repeats trials at a rate until the verdict has its confidence or the repeats are used up.
func (s Search) judge(ctx context.Context, rate float64, run func(context.Context, float64, int) (Trial, error),
	res *SearchResult) (RateVerdict, error) {
	v := RateVerdict{RatePerS: rate, Verdict: "undecided", Upper: 1}
	var met, n int64
	saturated := 0
	for repeat, valid := 0, 0; valid < s.MaxRepeats && repeat < 2*s.MaxRepeats; repeat++ {
		if err := ctx.Err(); err != nil {
			return v, fmt.Errorf("loadgen: search cut off: %w", err)
		}
		t, err := run(ctx, rate, repeat)
		if err != nil {
			return v, fmt.Errorf("loadgen: trial at %v/s: %w", rate, err)
		}
		res.Trials = append(res.Trials, t)
		if t.Unknown > 0 {
			return v, fmt.Errorf("%w: %d of %d requests at %v/s cannot show what the SLO bounds (ttft, tpot and stall need "+
				"streamed answers)", ErrUnknownSLO, t.Unknown, t.Requests, rate)
		}
		if !t.Valid {
			continue
		}
		met, n = met+t.Met, n+t.Requests
		if t.Saturated != "" {
			saturated++
		}
		if n > 0 {
			v.Attainment = float64(met) / float64(n)
			v.Lower, v.Upper = wilson(met, n, s.Confidence)
		}
		if valid++; valid < s.Repeats {
			continue
		}
		switch {
		case saturated > 0 || n > 0 && v.Upper < s.Attainment:
			v.Verdict = "fails"
			return v, nil
		case n > 0 && v.Lower >= s.Attainment:
			v.Verdict = "passes"
			return v, nil
		}
	}
	return v, nil
}

// wilson returns the one-sided Wilson score bounds of a share of k out of n.
func wilson(k, n int64, confidence float64) (lower, upper float64) {
	z := distuv.UnitNormal.Quantile(confidence)
	p, m := float64(k)/float64(n), float64(n)
	center := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return math.Max(0, center-half), math.Min(1, center+half)
}

// errSaturated cancels what is in flight when a run is stopped for over-saturation.
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

// watchSaturation stops the run when an open-loop tenant is found over-saturated.
func (r *runner) watchSaturation(ctx context.Context, stopOffer func(), cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(saturationEvery)
	defer ticker.Stop()
	type series struct{ at, inFlight, ttft []float64 }
	all := make([]series, len(r.tenants))
	last := r.snapshot()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := r.snapshot()
		for i, t := range r.tenants {
			if !t.tenant.Load.open() {
				continue
			}
			v, before := now.Tenants[i], last.Tenants[i]
			a := &all[i]
			a.at = append(a.at, now.Elapsed.Seconds())
			a.inFlight = append(a.inFlight, float64(v.InFlight))
			ttft := math.NaN()
			if n := v.TTFTCount - before.TTFTCount; n > 0 {
				ttft = (v.TTFTSum - before.TTFTSum).Seconds() / float64(n)
			}
			a.ttft = append(a.ttft, ttft)
			if why, yes := saturated(a.at, a.inFlight, a.ttft); yes {
				r.stopped = fmt.Sprintf("tenant %q is %s", t.tenant.Name, why)
				stopOffer()
				cancel(errSaturated)
				return
			}
		}
		last = now
	}
}
