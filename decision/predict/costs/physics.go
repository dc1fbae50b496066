package costs

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// Slice is the time of a turn in which work advances, in ms.
func (p *Parameters) Slice() float64 {
	return p.Quantum.Value - p.SliceLoss.Value
}

// Change returns the time that a turn costs beyond the work that it does, in ms.
func (p *Parameters) Change() float64 {
	return p.Switch.Value + p.SliceLoss.Value
}

// TurnsFor is the mean number of turns that work on the GPU takes beside others. What is
// lost of a slice is lost when work is resumed: not in its first turn.
func (p *Parameters) TurnsFor(work, tolerance float64) float64 {
	quantum, loss := p.Quantum.Value, p.SliceLoss.Value
	return MeanTurns(1+max((work-quantum)/quantum, (work-quantum)/(quantum-loss)), tolerance)
}

// MeanTurns is the mean number of turns of a step that takes quanta of them on
// the GPU: near a whole number, as the prediction flags it, it may be either.
func MeanTurns(quanta, tolerance float64) float64 {
	within := tolerance * quanta
	n := max(1, math.Ceil(quanta-within))
	if quanta+within <= n {
		return n
	}
	return n + min(1, (quanta+within-n)/(2*within))
}

// CountedTolerance takes the place of timeslice.BoundaryTolerance where turns were counted: they tell the host's part
// of a step, and so the GPU's, to about as much.
var CountedTolerance = Value("counted_tolerance")

// Transferred is by how much wider intervals are, on the scale of logarithms, for a GPU that the predictor was not
// calibrated on: for one of the same architecture, and for another.
//
// Between an H200 and an H100 it was measured (the series of H100s in examples/predict/testdata): with what H200s
// were calibrated on, the H100's TPOT is missed by 3.0% under MPS, where the H200's is by 2.8, and by 3.1% under
// time-slicing, where the H200's is by 3.2. For other architectures nothing was: a prior.
var Transferred = map[sharing.Mechanism][2]float64{
	sharing.MechanismTimeSlicing: {0.1, 0.25},
	sharing.MechanismMPS:         {0.05, 0.2},
}
