package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SliceSlowdown returns the factor by which work is slower on a slice with shares of a GPU's SMs and memory
// bandwidth than on the whole of it, and that of decoding, which is bound by bandwidth; priors.
func SliceSlowdown(sms, bandwidth float64) (other, decoding float64) {
	return costs.OnSlice(costs.Medians[costs.SliceOther], sms),
		math.Pow(1/bandwidth, costs.Medians[costs.SliceDecoding])
}

// SlicePoint is a latency measured on a share of a GPU.
type SlicePoint struct {
	SMFraction float64 // of the whole GPU's SMs, 0 to 1
	Latency    time.Duration
}

// SliceCurve is the latency of a workload on a share of a GPU: Fixed where its SMs are enough, and else Scaling over
// the share (see [costs.OnSlice]). From one measurement of the whole GPU it is a prior.
type SliceCurve struct {
	Fixed, Scaling time.Duration
	Basis          sharing.Basis
	Source         string
	Points         int
}

// FitSlice fits a workload's latency on MIG slices to what was measured, minimising the squares of relative errors:
// with one size a prior, with two or more Fixed and Scaling. Below sizes that are all enough it is taken to scale.
// Slices share neither SMs nor bandwidth, so neighbours are not part of it; they do share the power limit.
func FitSlice(points []SlicePoint) (SliceCurve, error) {
	var list problem.List
	for i, p := range points {
		if !(p.SMFraction > 0 && p.SMFraction <= 1) {
			list.Addf(fmt.Sprintf("points[%d].sm_fraction", i), "divide the slice's SMs by the GPU's",
				"must lie above 0 and at most at 1, is %v", p.SMFraction)
		}
		if p.Latency <= 0 {
			list.Addf(fmt.Sprintf("points[%d].latency", i), "", "must be positive, is %v", p.Latency)
		}
	}
	if len(points) == 0 {
		list.Addf("points", "measure at least the whole GPU", "are missing")
	}
	if err := list.Err(); err != nil {
		return SliceCurve{}, err
	}
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b SlicePoint) int { return cmp.Compare(a.SMFraction, b.SMFraction) })
	c := SliceCurve{Points: len(points)}
	if p := sorted[0]; p.SMFraction == sorted[len(sorted)-1].SMFraction {
		fills := costs.Medians[costs.SliceOther]
		whole := float64(p.Latency) / costs.OnSlice(fills, p.SMFraction)
		c.Fixed, c.Scaling, c.Basis = time.Duration(whole), time.Duration(fills*whole), sharing.BasisPrior
		c.Source = "programs on slices of A100s (njit-mig-performance, nos-gpu-sharing); none of this one was measured"
		return c, nil
	}
	c.Basis, c.Source = sharing.BasisFitted, fmt.Sprintf("%d measured sizes", len(points))
	least := math.Inf(1)
	for bound := range len(sorted) + 1 { // the smallest of which the SMs bind
		fixed := scale(sorted[bound:], func(p SlicePoint) float64 { return 1 })
		scaling := scale(sorted[:bound], func(p SlicePoint) float64 { return 1 / p.SMFraction })
		if bound == 0 {
			scaling = fixed * sorted[0].SMFraction
		}
		try, off := SliceCurve{Fixed: time.Duration(fixed), Scaling: time.Duration(scaling)}, 0.0
		for _, p := range sorted {
			e := float64(try.Latency(p.SMFraction))/float64(p.Latency) - 1
			off += e * e
		}
		if off < least {
			least, c.Fixed, c.Scaling = off, try.Fixed, try.Scaling
		}
	}
	return c, nil
}

// scale returns the factor of a shape that fits latencies best, by relative errors.
func scale(points []SlicePoint, shape func(SlicePoint) float64) float64 {
	sum, squares := 0.0, 0.0
	for _, p := range points {
		x := shape(p) / float64(p.Latency)
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 0
	}
	return sum / squares
}

// Latency is the workload's latency on a share of the GPU's SMs, alone or beside neighbours on other slices.
func (c SliceCurve) Latency(smFraction float64) time.Duration {
	if !(smFraction > 0) {
		return 0
	}
	return max(c.Fixed, time.Duration(float64(c.Scaling)/smFraction))
}
