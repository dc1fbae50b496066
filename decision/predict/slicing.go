// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/timeslice"
)

// SlicesNextToSpinner returns the mean number of time slices of a decode step (SlicesPerStep of a profile), from its
// durations isolated and next to one neighbour that always spins: each slice waits for one of the neighbour's and two
// switches. The durations are medians of the gap between tokens; a ratio over a hundred is refused as a mix of units.
// The host's part of a step passes during the wait, so the result may be below 1, but not below 0.05. A step with gaps
// between its kernels releases the GPU in each, and takes more slices.
func (p *Predictor) SlicesNextToSpinner(isolated, coLocated time.Duration) (float64, error) {
	const least, most = 0.05, 100
	if isolated <= 0 || coLocated <= 0 || coLocated > most*isolated || isolated > most*coLocated {
		return 0, fmt.Errorf("predict: a step of %v isolated and %v next to the spinning neighbour gives no slices", isolated,
			coLocated)
	}
	wait := p.Parameters.Quantum.Value + 2*p.Parameters.Switch.Value
	return max(least, (inMillis(coLocated)-inMillis(isolated))/wait), nil
}

// unsureSlices is the distance of a mean number of slices from a whole number beyond which steps took both: the host's
// work between two steps hides up to 0.17 of a slice.
const unsureSlices = 0.3

// countSlices has the step take the counted number of slices. The GPU's part of it is moved only as far as that needs,
// jitter included. A step that has to be moved is about as long as a whole number of slices; next to a neighbour with
// gaps, which a spinning one has not, it may take the number that its length implies.
func (t *tenantModel) countSlices(p *Predictor, base *profile.SoloProfile) {
	counted, ok := optional.Positive(base.SlicesPerStep)
	if !ok || t.gaps { // its slices follow from its launches
		return
	}
	n, q := max(1, math.Round(counted)), p.Parameters.slice()
	guessed := float64(p.Parameters.Scheduler().Slices(millis(t.gpu)))
	gpu := min(max(t.gpu, (n-1)*q/(1-table.Steps.Jitter.Value)), n*q/(1+table.Steps.Jitter.Value))
	if math.Abs(gpu/t.gpu-1) > table.Edges.MostMoved.Value {
		t.note(table.Doubts.Usual.Value,
			"the %.1f slices that were counted next to a spinning neighbour do not fit a step of %.2f ms; they "+
				"were not used", counted, t.step)
		return
	}
	t.sliceCount = n
	if off := counted - n; math.Abs(off) > unsureSlices && n+off >= 1 {
		t.otherShare, t.otherWay = off, int8(math.Copysign(1, off))
	} else if guessed != n {
		t.otherWay = int8(math.Copysign(1, guessed-n))
		if !t.closed && guessed == 1 && n == 2 {
			t.edge = guessed
		}
	}
	t.length = t.gpu
	t.host = max(0, t.host+t.gpu-gpu)
	t.gpu = gpu
}

// manySlices reports whether a step of another engine was counted with more slices than its length implies: it has
// gaps, whatever GPM's busy time is.
func (p *Predictor) manySlices(base *profile.SoloProfile) bool {
	counted, ok := optional.Positive(base.SlicesPerStep)
	least := (math.Round(counted) - 1) * p.Parameters.slice() // ms
	most := (1 + table.Edges.MostMoved.Value) * base.ITL.P50.Or(least)
	return ok && base.Kind == profile.KindServer && !home(base) && least > most
}

// countEdge finds that a step lies at a whole number of slices: another load of the server with about the same step was
// counted with one more or fewer, or this open loop takes one, and a load with batches not much larger takes two.
func (t *tenantModel) countEdge(p *Predictor, base *profile.SoloProfile, siblings []*profile.SoloProfile) {
	own, ok := optional.Positive(base.ITL.P50)
	if t.sliceCount == 0 || !ok {
		return
	}
	for _, q := range siblings {
		counted, ok := optional.Positive(q.SlicesPerStep)
		step, ok2 := optional.Positive(q.ITL.P50)
		if !ok || !ok2 {
			continue
		}
		switch n := math.Round(counted); {
		case n == t.sliceCount+1 && step < table.Edges.Alike.Value*own:
			t.edge = t.sliceCount
		case n == t.sliceCount-1 && own < table.Edges.Alike.Value*step:
			t.edge = n
		case n == 2 && t.sliceCount == 1 && !t.closed:
			if m, err := p.isolated(q); err == nil && m.batch > t.batch && m.batch < 4*t.batch && t.otherWay == 0 {
				t.edge = t.sliceCount
			}
		}
	}
}

// nextToLarger has steps that lie at a whole number of slices take one more next to a tenant with much longer ones, and
// next to others the fewer of them one more the further below it they end.
func (p *Predictor) nextToLarger(models []tenantModel) {
	for i := range models {
		t := &models[i]
		if t.edge == 0 {
			continue
		}
		below := 1 - t.length/(t.edge*p.Parameters.slice())
		more := min(max(1-below/table.Edges.Doubt.Value, 0), 1)
		t.otherWay, t.otherShare = 1, more
		if t.sliceCount > t.edge {
			t.otherWay, t.otherShare = -1, more-1
		}
		if !slices.ContainsFunc(models, func(u tenantModel) bool { return u.gpu > table.Edges.Larger.Value*t.gpu }) {
			continue
		}
		if t.sliceCount == t.edge {
			gpu := p.Parameters.slice() * t.edge / (1 - table.Steps.Jitter.Value)
			t.sliceCount, t.host, t.gpu = t.edge+1, max(0, t.host+t.gpu-gpu), gpu
		}
		t.otherWay, t.otherShare = -1, 0
	}
}

// slicesOf is the number of slices that a decode step takes, another that it may take, 0 where there is none, and the
// share of the steps that are expected to take that: all the more the nearer the step is to a whole number of slices.
func (p *Predictor) slicesOf(t *tenantModel) (sliceCount, other int, share float64) {
	if t.sliceCount > 0 {
		if t.otherWay != 0 {
			other = int(t.sliceCount) + int(t.otherWay)
		}
		return int(t.sliceCount), other, math.Abs(t.otherShare)
	}
	s := p.Parameters.Scheduler()
	sliceCount = s.Slices(millis(t.gpu))
	other, near := s.NearBoundary(millis(t.gpu), timeslice.BoundaryTolerance)
	if !near {
		return sliceCount, 0, 0
	}
	edge := p.Parameters.slice() * float64(min(sliceCount, other))
	away := math.Abs(t.gpu-edge) / (timeslice.BoundaryTolerance * t.gpu)
	return sliceCount, other, (1 - min(1, away)) / 2
}
