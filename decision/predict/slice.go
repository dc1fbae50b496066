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

// SliceExponent is that of a slice's slowdown over its share of the SMs: a prior of one measured workload.
var SliceExponent = costs.Value("slice_exponent")

// SliceSlowdown returns the factor by which work is slower on a slice with shares of a GPU's SMs and memory
// bandwidth than on the whole of it, and that of decoding, which is bound by bandwidth; priors.
func SliceSlowdown(sms, bandwidth float64) (other, decoding float64) {
	return math.Pow(1/sms, SliceExponent), math.Pow(1/bandwidth, costs.Medians[costs.SliceDecoding])
}

// SlicePoint is a latency measured on a share of a GPU.
type SlicePoint struct {
	SMFraction float64 // of the whole GPU's SMs, 0 to 1
	Latency    time.Duration
}

// SliceCurve is the latency of a workload on a share of a GPU: the part that does not scale, and the part that goes
// with the inverse of the SMs (Amdahl). From one measurement of the whole GPU it is the prior of one measured
// workload: the inverse to the power of 0.664.
type SliceCurve struct {
	Fixed, Scaling time.Duration
	// Exponent of the inverse share: 1 when fitted to several sizes.
	Exponent float64
	Basis    sharing.Basis
	Source   string
	Points   int
}

// FitSlice fits a workload's latency on MIG slices to what was measured: with one size a prior, with two or more
// Amdahl's law, minimising the relative error. Slices share neither SMs nor bandwidth, so neighbours are not part
// of it; they do share the power limit.
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
	if sorted[0].SMFraction == sorted[len(sorted)-1].SMFraction {
		p := sorted[0]
		return SliceCurve{Scaling: time.Duration(float64(p.Latency) * math.Pow(p.SMFraction, SliceExponent)),
			Exponent: SliceExponent,
			Basis:    sharing.BasisPrior, Source: "YOLOS-small on 1g.10gb of an A100, 14 of 108 SMs (nos-gpu-sharing); no MIG " +
				"slice of this workload was measured", Points: len(points)}, nil
	}
	var fit leastSquares
	for _, p := range sorted {
		y := float64(p.Latency)
		fit.add(1/y, 1/(p.SMFraction*y), 1)
	}
	fixed, scaling := fit.solve()
	switch {
	case scaling < 0:
		fixed, scaling = fit.b1/fit.a11, 0
	case fixed < 0:
		fixed, scaling = 0, fit.b2/fit.a22
	}
	return SliceCurve{Fixed: time.Duration(fixed), Scaling: time.Duration(scaling), Exponent: 1,
		Basis:  sharing.BasisFitted,
		Source: fmt.Sprintf("%d measured sizes", len(points)), Points: len(points)}, nil
}

// Latency is the workload's latency on a share of the GPU's SMs, alone or beside neighbours on other slices.
func (c SliceCurve) Latency(smFraction float64) time.Duration {
	if !(smFraction > 0) {
		return 0
	}
	return c.Fixed + time.Duration(float64(c.Scaling)*math.Pow(1/smFraction, c.Exponent))
}
