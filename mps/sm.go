package mps

import (
	"math"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SMEstimate is a number of SMs and how well it is known.
type SMEstimate struct {
	SMs    int
	Basis  sharing.Basis // measured at this percentage, derived on a GPU that was measured, otherwise inferred
	Source sharing.SourceID
}

// smPoints are the measured points, SMs by percentage, of GPUs by their SMs.
var smPoints = map[int]struct {
	source sharing.SourceID
	sms    map[float64]int
}{
	132: {"cotenant-h200-mps", map[float64]int{1: 8, 2: 8, 3: 8, 4: 8, 5: 8, 7: 8, 10: 12, 12.5: 16, 14.2857: 18, 15: 18,
		20: 26, 25: 32, 30: 38, 33: 42, 33.3334: 44, 40: 52, 45: 58, 50: 66, 55: 72, 60: 78,
		66: 86, 66.6667: 88, 70: 92, 75: 98, 80: 104, 85: 112, 90: 118, 95: 124, 99: 130, 100: 132}},
	188: {"dynamo-mps-limits", map[float64]int{25: 46, 50: 94, 75: 140}},
}

// SMs come in steps of one TPC, and every client gets a least number, as seen on the H200.
const (
	stepSMs  = 2
	leastSMs = 8
)

// SMs returns the streaming multiprocessors that a client gets at an active thread percentage in (0, 100] on a GPU or
// MIG instance of total SMs: floor(percentage x total / 100), rounded down to whole steps of two, and at least eight;
// 100% is every SM. The rule is fitted to 30 points measured on an H200 of 132 SMs
// (testdata/h200-v2-transcript.txt) and agrees with three that NVIDIA measured on a GPU of 188 SMs
// (dynamo-mps-limits). On other GPUs it is inferred: read the device attribute MultiprocessorCount back in the client,
// which reflects the limit.
func SMs(total int, percentage float64) (SMEstimate, error) {
	var l problem.List
	l.If(total <= 0 || total > 1<<16, "total", "give the SMs of the GPU", "%d is no number of SMs", total)
	if checkPercentage(&l, "percentage", percentage); l.Len() > 0 {
		return SMEstimate{}, invalid(&l)
	}
	e := SMEstimate{SMs: total, Basis: sharing.BasisInferred}
	if percentage != 100 {
		// The small term keeps a product like 43.999999999 of 100*44/132 at 44.
		n := int(math.Floor(percentage*float64(total)/100 + 1e-9))
		e.SMs = max(n-n%stepSMs, min(leastSMs, total))
	}
	if p, ok := smPoints[total]; ok {
		e.Source, e.Basis = p.source, sharing.BasisDerived
		if _, measured := p.sms[percentage]; measured {
			e.Basis = sharing.BasisMeasured
		}
	}
	return e, nil
}

// ceilPercent rounds up to the last decimal that is sent, but not past 100.
func ceilPercent(pct float64) float64 {
	return min(100, math.Ceil(pct*1e4-1e-6)/1e4) // divided, so that it equals the literal
}
