package timeslice

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ProbeRun is a run of the spinning probe in several processes at once, one reading for each.
type ProbeRun struct {
	Tenants  int // processes that ran at once
	Readings []ProbeReading
}

// Calibration is a scheduler found from measurements, and how well it gives them back.
type Calibration struct {
	Scheduler Scheduler
	// Points is the number of measurements that it was fitted to.
	Points int
	// WorstErrorFraction is the largest relative error of a fitted value.
	WorstErrorFraction float64
}

// CalibrateProbe finds quantum and switch from what the quantum probe printed: the quantum is the median of the
// on-times, the switch the least-squares solution of off = (n-1) quantum + n switch over all readings.
func CalibrateProbe(runs ...ProbeRun) (Calibration, error) {
	var l problem.List
	var on []time.Duration
	type point struct{ n, off float64 }
	var points []point
	for i, r := range runs {
		path := fmt.Sprintf("runs[%d]", i)
		l.If(r.Tenants < 2 || r.Tenants > 1024, path+".tenants", "a lone process is never off the GPU",
			"must lie between 2 and 1024, is %d", r.Tenants)
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
	l.If(len(points) == 0, "", "give what at least one run of two probes printed", "there is no reading")
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
