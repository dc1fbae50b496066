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
// of 132 SMs (testdata/h200-v2-transcript.txt) and agrees with three that NVIDIA
// measured on a GPU of 188 SMs (dynamo-mps-limits). On other GPUs it is
// inferred: read the device attribute MultiprocessorCount back in the client,
// which reflects the limit.
type SMRule struct {
	Total int // SMs of the GPU or MIG instance
	Step  int // SMs that come together; 0 = 2, one TPC
	Floor int // the least a client gets; 0 = 8, seen on the H200
}

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
	if checkPercentage(&l, "percentage", percentage); l.Len() > 0 {
		return SMEstimate{}, invalid(&l)
	}
	e := SMEstimate{SMs: r.at(percentage), Basis: sharing.BasisInferred}
	if p, ok := smPoints[r.Total]; ok && r.Step == 2 && r.Floor == 8 {
		e.Source, e.Basis = p.source, sharing.BasisDerived
		if _, measured := p.sms[percentage]; measured {
			e.Basis = sharing.BasisMeasured
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

// Percentage returns the smallest percentage, to four decimals, at which a client gets at least sms SMs, and how
// many that is: the next whole Step, or the Floor. More SMs than Total are an error.
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
