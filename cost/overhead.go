package cost

import (
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

// Overhead is what one source says a mechanism costs by itself: the extra GPU
// time for the same work, 8 % meaning 1.08 times as much. What neighbours take
// from one another is contention and not in it.
type Overhead struct {
	Mechanism sharing.Mechanism
	Low, High PPM // equal where the source gives one figure
	Basis     sharing.Basis
	Source    sharing.SourceID
	Note      string // hardware and work that the figure holds for
}

var overheads = [...]Overhead{
	{sharing.Exclusive, 0, 0, sharing.BasisDerived, "A3", "there is no neighbour"},
	{sharing.TimeSlicing, 1 * Percent, 1 * Percent, sharing.BasisMeasured, "S0", "the article's own report: L40S, long LLM decode kernels"},
	{sharing.TimeSlicing, 73_000, 73_000, sharing.BasisMeasured, "H200", "H200, saturated: 0.153 ms a switch after each 2.09 ms quantum, 6.8 % of all time"},
	{sharing.TimeSlicing, 8 * Percent, 8 * Percent, sharing.BasisInferred, "S1", "the figure that the calculator's printed results force (TV1); never stated"},
	{sharing.TimeSlicing, 108_000, 11 * Percent, sharing.BasisMeasured, "TV12", "A100 PCIe, short vision kernels, 3 to 7 pods"},
	{sharing.TimeSlicing, 10 * Percent, 15 * Percent, sharing.BasisPopular, "S2", "no measurement given"},
	{sharing.MPS, 5 * Percent, 5 * Percent, sharing.BasisPopular, "S2", "no measurement given"},
	{sharing.MPS, 4 * Percent, 40 * Percent, sharing.BasisMeasured, "H200", "H200, TPOT of a lone LLM server: a constant per step, most at batch 1, least at batch 16"},
	{sharing.MIG, 0, 0, sharing.BasisPopular, "S2", "printed as ~0; slices that stay empty and what a slice lacks in bandwidth are not in it"},
}

// Overheads returns what each source says about a mechanism, in the order of
// the table. It is empty where no source gives a figure, which does not mean
// that there is no overhead. The slice is the caller's.
func Overheads(m sharing.Mechanism) []Overhead {
	return slices.DeleteFunc(slices.Clone(overheads[:]), func(o Overhead) bool { return o.Mechanism != m })
}

// OverheadRange returns the prior for a mechanism, to be replaced by a
// measurement, and false where no source gives a figure. Where anything was
// measured the range is that of the measurements and claims do not widen it:
// 1 % to 11 % for time-slicing, whatever S2's "10-15 %" rests on.
func OverheadRange(m sharing.Mechanism) (low, high PPM, ok bool) {
	all := Overheads(m)
	unmeasured := func(o Overhead) bool { return o.Basis != sharing.BasisMeasured }
	if measured := slices.DeleteFunc(slices.Clone(all), unmeasured); len(measured) > 0 {
		all = measured
	}
	if len(all) == 0 {
		return 0, 0, false
	}
	low, high = all[0].Low, all[0].High
	for _, o := range all[1:] {
		low, high = min(low, o.Low), max(high, o.High)
	}
	return low, high, true
}
