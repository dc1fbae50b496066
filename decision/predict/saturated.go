package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// SaturatedCurve is the latency of equal tenants that always have work, by
// their number: Solo x max(1, Base + PerTenant x n). Time-slicing has a Base of
// 0 and a PerTenant of 1 plus its overhead; MPS gains where one tenant leaves
// SMs idle; MIG slices do not touch one another and have a PerTenant of 0.
type SaturatedCurve struct {
	Mechanism sharing.Mechanism
	Solo      time.Duration
	Base      float64
	PerTenant float64
	// Points is the number of measurements fitted, WorstErrorFraction the
	// largest relative error of one.
	Points             int
	WorstErrorFraction float64
}

// FitSaturated fits the curve of a mechanism to mean latencies of a request of
// each of several saturated tenants: for time-slicing one overhead, for MPS a
// line, for MIG a constant. The measurement of one tenant alone is the Solo of
// time-slicing and MPS.
func FitSaturated(m sharing.Mechanism, points []timeslice.SaturatedPoint) (SaturatedCurve, error) {
	c := SaturatedCurve{Mechanism: m, Points: len(points)}
	switch m {
	case sharing.MechanismTimeSlicing:
		fit, err := timeslice.FitOverhead(points)
		if err != nil {
			return SaturatedCurve{}, err
		}
		c.Solo, c.PerTenant = fit.Solo, 1+fit.OverheadFraction
	case sharing.MechanismMPS, sharing.MechanismMIG:
		if err := c.fitLine(points); err != nil {
			return SaturatedCurve{}, err
		}
	default:
		return SaturatedCurve{}, fmt.Errorf("predict: no saturated curve is known for %s; use time-slicing, mps or mig", m)
	}
	for _, p := range points {
		c.WorstErrorFraction = max(c.WorstErrorFraction, math.Abs(float64(c.Latency(p.Tenants))/float64(p.Latency)-1))
	}
	return c, nil
}

func (c *SaturatedCurve) fitLine(points []timeslice.SaturatedPoint) error {
	var list problem.List
	sum, n, sx, sy, sxx, sxy := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
	seen := map[int]bool{}
	for i, p := range points {
		path := fmt.Sprintf("points[%d]", i)
		if p.Tenants < 1 {
			list.Addf(path+".tenants", "", "must be at least 1, is %d", p.Tenants)
		}
		if p.Latency <= 0 {
			list.Addf(path+".latency", "", "must be positive, is %v", p.Latency)
		}
		if seen[p.Tenants] {
			list.Addf(path, "average them first", "is a second measurement of %d tenants", p.Tenants)
		}
		seen[p.Tenants] = true
		if p.Tenants == 1 {
			c.Solo = p.Latency
		}
		sum += float64(p.Latency)
	}
	if c.Mechanism == sharing.MechanismMPS && (c.Solo == 0 || len(points) < 3) {
		list.Addf("points", "measure one tenant alone and two larger groups", "are too few for a line")
	}
	if len(points) == 0 {
		list.Addf("points", "", "are missing")
	}
	if err := list.Err(); err != nil {
		return err
	}
	if c.Mechanism == sharing.MechanismMIG {
		c.Solo, c.Base = time.Duration(sum/float64(len(points))), 1
		return nil
	}
	for _, p := range points {
		if p.Tenants == 1 {
			continue
		}
		// Relative least squares: what is measured is a ratio.
		x, y := float64(p.Tenants), float64(p.Latency)/float64(c.Solo)
		w := 1 / (y * y)
		n, sx, sy, sxx, sxy = n+w, sx+w*x, sy+w*y, sxx+w*x*x, sxy+w*x*y
	}
	c.PerTenant = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	c.Base = (sy - c.PerTenant*sx) / n
	if c.PerTenant < 0 {
		return errors.New("predict: latency falls as tenants are added, so they were not saturated")
	}
	return nil
}

// Latency is the mean latency of a request beside tenants-1 others.
func (c SaturatedCurve) Latency(tenants int) time.Duration {
	if tenants <= 1 {
		return c.Solo
	}
	return time.Duration(float64(c.Solo) * max(1, c.Base+c.PerTenant*float64(tenants)))
}

// Crossing is a number of tenants from which one curve is faster.
type Crossing struct {
	Tenants       int
	Faster        sharing.Mechanism
	Latency       time.Duration // of the faster
	SlowerLatency time.Duration
}

// BreakEven lists from which number of tenants on, up to a limit, which of two
// mechanisms answers saturated tenants faster: "MPS pays from 2 tenants on".
// Ties stay with the one that was faster.
func BreakEven(a, b SaturatedCurve, limit int) []Crossing {
	var out []Crossing
	for n := 1; n <= limit; n++ {
		x, y := a.Latency(n), b.Latency(n)
		fast, slow := a, b
		if y < x {
			fast, slow = b, a
		}
		if x == y || len(out) > 0 && out[len(out)-1].Faster == fast.Mechanism {
			continue
		}
		out = append(out, Crossing{n, fast.Mechanism, fast.Latency(n), slow.Latency(n)})
	}
	return out
}

// SlicePoint is a latency measured on a share of a GPU.
type SlicePoint struct {
	SMFraction float64 // of the whole GPU's SMs, 0 to 1
	Latency    time.Duration
}

// SliceCurve is the latency of a workload on a share of a GPU: the part that
// does not scale, and the part that goes with the inverse of the SMs (Amdahl).
// From one measurement of the whole GPU it is the prior of one measured
// workload: the inverse to the power of 0.664.
type SliceCurve struct {
	Fixed, Scaling time.Duration
	// Exponent of the inverse share: 1 when fitted to several sizes.
	Exponent float64
	Basis    sharing.Basis
	Source   string
	Points   int
}

// FitSlice fits a workload's latency on MIG slices to what was measured: with
// one size a prior, with two or more Amdahl's law, minimising the relative
// error. Slices share neither SMs nor bandwidth, so neighbours are not part of
// it; they do share the power limit.
func FitSlice(points []SlicePoint) (SliceCurve, error) {
	var list problem.List
	for i, p := range points {
		if !(p.SMFraction > 0 && p.SMFraction <= 1) {
			list.Addf(fmt.Sprintf("points[%d].sm_fraction", i), "divide the slice's SMs by the GPU's", "must lie above 0 and at most at 1, is %v", p.SMFraction)
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
		return SliceCurve{Scaling: time.Duration(float64(p.Latency) * math.Pow(p.SMFraction, SliceExponent)), Exponent: SliceExponent,
			Basis: sharing.BasisPrior, Source: "YOLOS-small on 1g.10gb of an A100, 14 of 108 SMs (nos-gpu-sharing); no MIG slice of this workload was measured", Points: len(points)}, nil
	}
	var a11, a12, a22, b1, b2 float64
	for _, p := range sorted {
		y := float64(p.Latency)
		u, v := 1/y, 1/(p.SMFraction*y)
		a11, a12, a22, b1, b2 = a11+u*u, a12+u*v, a22+v*v, b1+u, b2+v
	}
	det := a11*a22 - a12*a12
	fixed, scaling := (b1*a22-b2*a12)/det, (a11*b2-a12*b1)/det
	switch {
	case scaling < 0:
		fixed, scaling = b1/a11, 0
	case fixed < 0:
		fixed, scaling = 0, b2/a22
	}
	return SliceCurve{Fixed: time.Duration(fixed), Scaling: time.Duration(scaling), Exponent: 1, Basis: sharing.BasisFitted,
		Source: fmt.Sprintf("%d measured sizes", len(points)), Points: len(points)}, nil
}

// Latency is the workload's latency on a share of the GPU's SMs, alone or
// beside neighbours on other slices.
func (c SliceCurve) Latency(smFraction float64) time.Duration {
	if !(smFraction > 0) {
		return 0
	}
	return c.Fixed + time.Duration(float64(c.Scaling)*math.Pow(1/smFraction, c.Exponent))
}

// SliceExponent is that of a slice's slowdown over its share of the SMs:
// YOLOS-small on 1g.10gb, 14 of an A100's 108 SMs, takes 3.88 times as long as
// on the whole GPU (nos-gpu-sharing): ln 3.88 / ln(108/14). A prior for other
// workloads.
const SliceExponent = 0.664
