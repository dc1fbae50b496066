package timeslice

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ProbeRun is a run of the spinning probe in several processes at once, one
// reading for each.
type ProbeRun struct {
	Tenants  int // processes that ran at once
	Readings []ProbeReading
}

// Calibration is a scheduler found from measurements, and how well it gives
// them back.
type Calibration struct {
	Scheduler Scheduler
	// Points is the number of measurements that it was fitted to.
	Points int
	// WorstErrorFraction is the largest relative error of a fitted value.
	WorstErrorFraction float64
}

// CalibrateProbe finds quantum and switch from what the quantum probe printed:
// the quantum is the median of the on-times, the switch the least-squares
// solution of off = (n-1) quantum + n switch over all readings.
func CalibrateProbe(runs ...ProbeRun) (Calibration, error) {
	var l problem.List
	var on []time.Duration
	type point struct{ n, off float64 }
	var points []point
	for i, r := range runs {
		path := fmt.Sprintf("runs[%d]", i)
		if r.Tenants < 2 || r.Tenants > 1024 {
			l.Addf(path+".tenants", "a lone process is never off the GPU", "must lie between 2 and 1024, is %d", r.Tenants)
		}
		for j, p := range r.Readings {
			path := fmt.Sprintf("%s.readings[%d]", path, j)
			switch {
			case !p.OK():
				l.Addf(path, "run the probe again", "the probe ended with %q", problem.Clip(p.Status))
			case !p.Timed || p.On.P50 <= 0 || p.Off.P50 <= 0:
				l.Addf(path, "run it for longer, and beside others", "has no on- and off-times: %d gaps are too few", p.Gaps)
			default:
				on = append(on, p.On.P50)
				points = append(points, point{float64(r.Tenants), float64(p.Off.P50)})
			}
		}
	}
	if len(points) == 0 {
		l.Addf("", "give what at least one run of two probes printed", "there is no reading")
	}
	if err := l.Err(); err != nil {
		return Calibration{}, err
	}
	slices.Sort(on)
	q := float64(on[len(on)/2])
	if len(on)%2 == 0 {
		q = (q + float64(on[len(on)/2-1])) / 2
	}
	num, den := 0.0, 0.0
	for _, p := range points {
		num += p.n * (p.off - (p.n-1)*q)
		den += p.n * p.n
	}
	sw := num / den
	if sw < 0 {
		return Calibration{}, fmt.Errorf("timeslice: the off-times are shorter than the others' quanta: were there %g "+
			"tenants at once, and nothing else on the GPU?", points[0].n)
	}
	c := Calibration{Points: len(points), Scheduler: Scheduler{time.Duration(q), time.Duration(sw), sharing.BasisFitted,
		fmt.Sprintf("quantum probe, %d readings", len(points))}}
	for _, p := range points {
		c.WorstErrorFraction = max(c.WorstErrorFraction, math.Abs(((p.n-1)*q+p.n*sw)/p.off-1))
	}
	return c, nil
}

// SaturatedPoint is the mean latency of a request of each of several tenants
// that always have work queued.
type SaturatedPoint struct {
	Tenants int
	Latency time.Duration
}

// OverheadFit is the overhead of time-slicing fitted to a saturated GPU.
type OverheadFit struct {
	Solo time.Duration // the latency alone, as measured
	// OverheadFraction is the share of work that sharing adds: 0.109 for
	// YOLOS-small on an A100.
	OverheadFraction   float64
	Points             int // co-located measurements fitted
	WorstErrorFraction float64
}

// FitOverhead fits the overhead of Saturated to latencies measured alone and
// with two or more tenants (a pair is enough), minimising the relative error.
func FitOverhead(points []SaturatedPoint) (OverheadFit, error) {
	var l problem.List
	var fit OverheadFit
	for i, p := range points {
		path := fmt.Sprintf("points[%d]", i)
		if p.Tenants < 1 {
			l.Addf(path+".tenants", "", "must be at least 1, is %d", p.Tenants)
		}
		if p.Latency <= 0 || p.Latency > longest {
			l.Addf(path+".latency", "", "must be positive and at most %v, is %v", longest, p.Latency)
		}
		if p.Tenants == 1 {
			if fit.Solo != 0 {
				l.Addf(path, "average them first", "is a second measurement of one tenant")
			}
			fit.Solo = p.Latency
		} else {
			fit.Points++
		}
	}
	if fit.Solo == 0 {
		l.Addf("points", "measure one tenant alone", "none is of a tenant alone")
	}
	if fit.Points == 0 {
		l.Addf("points", "measure two or more at once", "none is of tenants together")
	}
	if err := l.Err(); err != nil {
		return OverheadFit{}, err
	}
	// The factor f that minimises the sum of (f/r - 1)^2 over the ratios r of
	// measured to ideal latency.
	s1, s2 := 0.0, 0.0
	for _, p := range points {
		if p.Tenants > 1 {
			r := float64(p.Latency) / (float64(p.Tenants) * float64(fit.Solo))
			s1 += 1 / r
			s2 += 1 / (r * r)
		}
	}
	fit.OverheadFraction = s1/s2 - 1
	if fit.OverheadFraction < 0 {
		return OverheadFit{}, fmt.Errorf("timeslice: %d tenants together are faster than in turn, so they were not "+
			"saturated, or did not take turns", points[len(points)-1].Tenants)
	}
	for _, p := range points {
		got := float64(Saturated(p.Tenants, fit.Solo, fit.OverheadFraction))
		fit.WorstErrorFraction = max(fit.WorstErrorFraction, math.Abs(got/float64(p.Latency)-1))
	}
	return fit, nil
}

// Scheduler returns the scheduler that has this overhead at a quantum that is
// known from elsewhere: throughput alone cannot tell a long quantum with a slow
// switch from a short one with a fast switch.
func (f OverheadFit) Scheduler(quantum time.Duration) Scheduler {
	return Scheduler{quantum, time.Duration(f.OverheadFraction * float64(quantum)), sharing.BasisFitted,
		fmt.Sprintf("overhead of %.1f%% fitted to %d saturated measurements, quantum given", 100*f.OverheadFraction,
			f.Points)}
}
