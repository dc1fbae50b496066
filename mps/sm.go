package mps

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SMRule turns active thread percentages into streaming multiprocessors. The
// rule is floor(percentage x Total / 100), rounded down to whole Steps, and at
// least Floor; 100% is every SM. It is fitted to 30 points measured on an H200
// of 132 SMs and agrees with three on a GPU of 188 SMs (DYN-LIM). On other
// GPUs it is inferred: read the device attribute MultiprocessorCount back in
// the client, which reflects the limit.
type SMRule struct {
	Total int // SMs of the GPU or MIG instance
	Step  int // SMs that come together; 0 = 2, one TPC
	Floor int // the least a client gets; 0 = 8, seen on the H200
}

// SMEstimate is a number of SMs and how well it is known.
type SMEstimate struct {
	SMs    int
	Basis  sharing.Basis // measured for a point of MeasuredSMPoints, derived for its GPUs, otherwise inferred
	Source sharing.SourceID
}

// SMPoint is one measured point.
type SMPoint struct {
	TotalSMs   int
	Percentage float64
	SMs        int
	Source     sharing.SourceID
}

var h200Points = [...]struct {
	pct float64
	sms int
}{
	{1, 8}, {2, 8}, {3, 8}, {4, 8}, {5, 8}, {7, 8}, {10, 12}, {12.5, 16}, {14.2857, 18}, {15, 18},
	{20, 26}, {25, 32}, {30, 38}, {33, 42}, {33.3334, 44}, {40, 52}, {45, 58}, {50, 66}, {55, 72}, {60, 78},
	{66, 86}, {66.6667, 88}, {70, 92}, {75, 98}, {80, 104}, {85, 112}, {90, 118}, {95, 124}, {99, 130}, {100, 132},
}

// MeasuredSMPoints returns the points that the rule is held against: an H200
// with driver 580 ("H200") and an RTX PRO 6000 Blackwell with driver 615
// ("dynamo-mps-limits").
func MeasuredSMPoints() []SMPoint {
	var ps []SMPoint
	for _, p := range h200Points {
		ps = append(ps, SMPoint{132, p.pct, p.sms, "cotenant-h200-mps"})
	}
	return append(ps, SMPoint{188, 25, 46, "dynamo-mps-limits"}, SMPoint{188, 50, 94, "dynamo-mps-limits"}, SMPoint{188, 75, 140, "dynamo-mps-limits"})
}

func (r SMRule) check() (SMRule, error) {
	if r.Step == 0 {
		r.Step = 2
	}
	if r.Floor == 0 {
		r.Floor = 8
	}
	var l problem.List
	if r.Total <= 0 || r.Total > 1<<16 {
		l.Addf("Total", "give the SMs of the GPU", "%d is no number of SMs", r.Total)
	}
	if r.Step < 1 || r.Floor < 1 {
		l.Addf("Step", "leave Step and Floor 0 for the defaults", "step %d and floor %d must be positive", r.Step, r.Floor)
	}
	r.Floor = min(r.Floor, r.Total)
	return r, invalid(&l)
}

// SMs returns what a client gets at an active thread percentage in (0, 100].
func (r SMRule) SMs(percentage float64) (SMEstimate, error) {
	r, err := r.check()
	if err != nil {
		return SMEstimate{}, err
	}
	var l problem.List
	checkPercentage(&l, "percentage", percentage)
	if err := invalid(&l); err != nil {
		return SMEstimate{}, err
	}
	e := SMEstimate{SMs: r.at(percentage), Basis: sharing.BasisInferred}
	for _, p := range MeasuredSMPoints() {
		if p.TotalSMs != r.Total || r.Step != 2 || r.Floor != 8 {
			continue
		}
		if e.Source = p.Source; e.Basis != sharing.BasisMeasured {
			e.Basis = sharing.BasisDerived
		}
		if p.Percentage == percentage {
			e.Basis = sharing.BasisMeasured
			break
		}
	}
	return e, nil
}

func (r SMRule) at(percentage float64) int {
	if percentage == 100 {
		return r.Total
	}
	// The small term keeps a product like 43.999999999 of 100*44/132 at 44.
	n := int(math.Floor(percentage*float64(r.Total)/100 + 1e-9))
	return max(n-n%r.Step, r.Floor)
}

// Percentage returns the smallest percentage, to four decimals, at which a
// client gets at least sms SMs, and how many that is: the next whole Step, or
// the Floor. More SMs than Total are an error.
func (r SMRule) Percentage(sms int) (float64, SMEstimate, error) {
	r, err := r.check()
	if err != nil {
		return 0, SMEstimate{}, err
	}
	if sms <= 0 || sms > r.Total {
		return 0, SMEstimate{}, fmt.Errorf("%w: sms: %d is not between 1 and the GPU's %d", ErrInvalid, sms, r.Total)
	}
	whole := (sms + r.Step - 1) / r.Step * r.Step
	pct := 100.0
	if whole < r.Total {
		pct = ceilPercent(100 * float64(whole) / float64(r.Total))
	}
	e, err := r.SMs(pct)
	return pct, e, err
}

// ceilPercent rounds up to the last decimal that is sent, but not past 100.
func ceilPercent(pct float64) float64 {
	return min(100, math.Ceil(pct*1e4-1e-6)/1e4) // divided, so that it equals the literal
}

// ChunkSMs returns the SMs of one chunk of static partitioning: 8 on Hopper
// and later, before it 4 under v2 and 2 under v3, and 2 on integrated GPUs
// (MT). ccMajor is the major compute capability. Below Ampere there is no
// static partitioning, which is an error. A partition can hold more SMs than
// its chunks: read Partitions.
func ChunkSMs(ccMajor int, p Protocol, integrated bool) (sharing.Cell[int], error) {
	switch {
	case ccMajor < 8:
		return sharing.Cell[int]{}, fmt.Errorf("%w: compute capability %d.x has no static SM partitions; they begin with Ampere, 8.0", ErrInvalid, ccMajor)
	case integrated:
		return sharing.KnownCell(2, "nvidia-mps-guide-tasks"), nil
	case ccMajor >= 9:
		return sharing.KnownCell(8, "nvidia-mps-guide-tasks"), nil
	case p == ProtocolV2:
		return sharing.KnownCell(4, "nvidia-mps-guide-tasks"), nil
	case p == ProtocolV3:
		return sharing.KnownCell(2, "nvidia-mps-guide-tasks"), nil
	}
	return sharing.Cell[int]{}, nil
}
