package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/internal/problem"
)

// errSaturated cancels what is in flight when a run is stopped for over-saturation.
var errSaturated = errors.New("stopped: the server is over-saturated")

// Saturation detects a server that falls behind: the number of requests in flight and the mean TTFT both rise with
// time, each with a slope that is positive beyond chance (one-sided t-test of the regression). A closed loop cannot
// be over-saturated. The zero value is the documented default.
type Saturation struct {
	// Every is the sampling interval; 0 means 500 ms.
	Every time.Duration
	// After is the time before the first verdict; 0 means 10 s.
	After time.Duration
	// Confidence is that of the t-tests; 0 means 0.99.
	Confidence float64
	// MinGrowth is the least growth of the requests in flight over the observed
	// time, as a factor of their mean, that counts; 0 means 0.5.
	MinGrowth float64
}

func (s Saturation) withDefaults() Saturation {
	s.Every, s.After = cmp.Or(s.Every, 500*time.Millisecond), cmp.Or(s.After, 10*time.Second)
	s.Confidence, s.MinGrowth = cmp.Or(s.Confidence, 0.99), cmp.Or(s.MinGrowth, 0.5)
	return s
}

func (s Saturation) check() error {
	var l problem.List
	notNegative(&l, "every", s.Every)
	notNegative(&l, "after", s.After)
	l.If(s.Confidence != 0 && !(s.Confidence >= 0.5 && s.Confidence < 1), "confidence",
		"use a value from 0.5 to below 1", "%v", s.Confidence)
	l.If(s.MinGrowth < 0 || math.IsNaN(s.MinGrowth), "min_growth", "use 0 or more", "%v", s.MinGrowth)
	return l.Err()
}

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
func (s Saturation) saturated(at, inFlight, ttft []float64) (why string, yes bool) {
	n := len(at)
	if n < 3 || at[n-1] < s.After.Seconds() {
		return "", false
	}
	mean := 0.0
	for _, v := range inFlight {
		mean += v / float64(n)
	}
	slope, p := slopeTest(at, inFlight)
	growth := slope * (at[n-1] - at[0])
	if p > 1-s.Confidence || growth < s.MinGrowth*mean || growth < 2 {
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
		if tslope, tp := slopeTest(tx, ty); tp > 1-s.Confidence || tslope <= 0 {
			return "", false
		}
	}
	return fmt.Sprintf("over-saturated: requests in flight rose by %.1f over %.1f s around a mean of %.1f (p = %.2g)",
		growth, at[n-1]-at[0], mean, p), true
}

// watchSaturation stops the run when an open-loop tenant is found over-saturated.
func (r *runner) watchSaturation(ctx context.Context, stopOffer func(), cancel context.CancelCauseFunc) {
	s := r.opts.Saturation.withDefaults()
	ticker := time.NewTicker(s.Every)
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
			if why, yes := s.saturated(a.at, a.inFlight, a.ttft); yes {
				r.stopped = fmt.Sprintf("tenant %q is %s", t.tenant.Name, why)
				stopOffer()
				cancel(errSaturated)
				return
			}
		}
		last = now
	}
}
