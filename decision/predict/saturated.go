package predict

import (
	"errors"
	"fmt"
	"math"
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
	sum := 0.0
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
	var fit leastSquares
	for _, p := range points {
		if p.Tenants > 1 {
			y := float64(p.Latency) / float64(c.Solo)
			fit.add(1/y, float64(p.Tenants)/y, 1) // relative: what is measured is a ratio
		}
	}
	c.Base, c.PerTenant = fit.solve()
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

// Crossings lists from which number of tenants on, up to a limit, which of two
// mechanisms answers saturated tenants faster: "MPS pays from 2 tenants on".
// Ties stay with the one that was faster.
func Crossings(a, b SaturatedCurve, limit int) []Crossing {
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
