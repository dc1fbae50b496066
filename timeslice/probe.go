// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ProbeRun is a run of concurrent spinning processes: the median time of each on and off the GPU.
type ProbeRun struct {
	On, Off []time.Duration // by process
}

// Calibration is a scheduler fitted to measurements, with the quality of the fit.
type Calibration struct {
	Scheduler Scheduler
	// Points is the number of measurements that it was fitted to.
	Points int
	// WorstErrorFraction is the largest relative error of a fitted value.
	WorstErrorFraction float64
}

// CalibrateProbe fits quantum and switch to runs of spinning processes: the quantum is the median of the on-times, the
// switch the least-squares solution of off = (n-1) quantum + n switch over all of them.
func CalibrateProbe(runs ...ProbeRun) (Calibration, error) {
	var l problem.List
	var on []time.Duration
	type point struct{ n, off float64 }
	var points []point
	for i, r := range runs {
		path := fmt.Sprintf("runs[%d]", i)
		n := len(r.On)
		l.If(n < 2 || n > 1024 || len(r.Off) != n, path, "a lone process is never off the GPU",
			"must hold 2 to 1024 processes, holds %d and %d", n, len(r.Off))
		for j := range min(n, len(r.Off)) {
			l.If(r.On[j] <= 0 || r.Off[j] <= 0, fmt.Sprintf("%s[%d]", path, j), "run it for longer, and together with others",
				"has no on- and off-times")
			on = append(on, r.On[j])
			points = append(points, point{float64(n), float64(r.Off[j])})
		}
	}
	l.If(len(points) == 0, "", "give at least one run of two processes", "there is no reading")
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
