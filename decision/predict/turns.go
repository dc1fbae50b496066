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

// TurnsBesideSpinner is the mean number of time slices of a decode step, from its isolated duration and that next to
// one neighbour that always spins: each slice waits for one slice of the neighbour and two switches. The durations are
// medians of the gap between tokens. The host's part of a step passes during the wait, so the number may be below one;
// a step whose kernels leave gaps gives the GPU up in each gap, and takes more slices than its length implies. A step
// no longer than the isolated one, by chance, counts as a twentieth of a slice. Durations a hundred times apart are
// refused: they are not of one unit.
//
// Put it into the workload's SoloProfile or Row as Turns. On an H100 it came out within 0.17 of a whole number for
// servers of 1B, 3B and 8B at one to eight clients.
func (p *Predictor) TurnsBesideSpinner(alone, beside time.Duration) (float64, error) {
	const least, most = 0.05, 100
	if alone <= 0 || beside <= 0 || beside > most*alone || alone > most*beside {
		return 0, fmt.Errorf("predict: a step of %v alone and %v beside the spinning neighbour counts no turns", alone,
			beside)
	}
	wait := p.Parameters.Quantum.Value + 2*p.Parameters.Switch.Value
	return max(least, (inMillis(beside)-inMillis(alone))/wait), nil
}

// boundaryTolerance is the distance from a whole number of slices up to which a step may take one more or fewer.
const boundaryTolerance = timeslice.BoundaryTolerance

// unsureTurns is the distance of a mean number of slices from a whole number beyond which steps took both: the host's
// work between two steps hides up to 0.17 of a slice.
const unsureTurns = 0.3

// countTurns has the step take the counted number of slices. The GPU's part of it is moved only as far as that needs,
// jitter included. A step that has to be moved is about as long as a whole number of slices; next to a neighbour with
// gaps, which a spinning one has not, it may take the number that its length implies.
func (t *tenantModel) countTurns(p *Predictor, base *profile.SoloProfile) {
	counted, ok := optional.Positive(base.SlicesPerStep)
	if !ok || t.gaps { // whose turns follow from its launches
		return
	}
	n, q := max(1, math.Round(counted)), p.Parameters.slice()
	guessed := float64(p.Parameters.Scheduler().Slices(millis(t.gpu)))
	gpu := min(max(t.gpu, (n-1)*q/(1-table.Steps.Jitter.Value)), n*q/(1+table.Steps.Jitter.Value))
	if math.Abs(gpu/t.gpu-1) > table.Edges.MostMoved.Value {
		t.note(table.Doubts.Usual.Value,
			"the %.1f turns that were counted beside a spinning neighbour do not fit a step of %.2f ms; they "+
				"were not used", counted, t.step)
		return
	}
	t.turns = n
	if off := counted - n; math.Abs(off) > unsureTurns && n+off >= 1 {
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

// manyTurns reports whether a step of another engine was counted with more slices than its length implies: it has gaps,
// whatever GPM's busy time is.
func (p *Predictor) manyTurns(base *profile.SoloProfile) bool {
	counted, ok := optional.Positive(base.SlicesPerStep)
	least := (math.Round(counted) - 1) * p.Parameters.slice() // ms
	most := (1 + table.Edges.MostMoved.Value) * base.ITL.P50.Or(least)
	return ok && base.Kind == profile.KindServer && !home(base) && least > most
}

// countEdge finds that a step lies at a whole number of slices: another load of the
// server, with hardly another step, was counted with a turn more or fewer, or this is an
// open loop that takes one, and another load, with batches not much larger, takes two.
func (t *tenantModel) countEdge(p *Predictor, base *profile.SoloProfile, siblings []*profile.SoloProfile) {
	own, ok := optional.Positive(base.ITL.P50)
	if t.turns == 0 || !ok {
		return
	}
	for _, q := range siblings {
		counted, ok := optional.Positive(q.SlicesPerStep)
		step, ok2 := optional.Positive(q.ITL.P50)
		if !ok || !ok2 {
			continue
		}
		switch n := math.Round(counted); {
		case n == t.turns+1 && step < table.Edges.Alike.Value*own:
			t.edge = t.turns
		case n == t.turns-1 && own < table.Edges.Alike.Value*step:
			t.edge = n
		case n == 2 && t.turns == 1 && !t.closed:
			if m, err := p.alone(q); err == nil && m.batch > t.batch && m.batch < 4*t.batch && t.otherWay == 0 {
				t.edge = t.turns
			}
		}
	}
}

// besideLarger has steps that lie at a whole number of slices take a turn more beside a tenant with much longer
// ones, and beside others the fewer of them one more the further below it they end.
func (p *Predictor) besideLarger(models []tenantModel) {
	for i := range models {
		t := &models[i]
		if t.edge == 0 {
			continue
		}
		below := 1 - t.length/(t.edge*p.Parameters.slice())
		more := min(max(1-below/table.Edges.Doubt.Value, 0), 1)
		t.otherWay, t.otherShare = 1, more
		if t.turns > t.edge {
			t.otherWay, t.otherShare = -1, more-1
		}
		if !slices.ContainsFunc(models, func(u tenantModel) bool { return u.gpu > table.Edges.Larger.Value*t.gpu }) {
			continue
		}
		if t.turns == t.edge {
			gpu := p.Parameters.slice() * t.edge / (1 - table.Steps.Jitter.Value)
			t.turns, t.host, t.gpu = t.edge+1, max(0, t.host+t.gpu-gpu), gpu
		}
		t.otherWay, t.otherShare = -1, 0
	}
}

// turnsOf is the number of turns that a decode step takes, another that it may take, 0 where there is none, and the
// share of the steps that are expected to take that: all the more the nearer the step is to a whole number of turns.
func (p *Predictor) turnsOf(t *tenantModel) (turns, other int, share float64) {
	if t.turns > 0 {
		if t.otherWay != 0 {
			other = int(t.turns) + int(t.otherWay)
		}
		return int(t.turns), other, math.Abs(t.otherShare)
	}
	s := p.Parameters.Scheduler()
	turns = s.Slices(millis(t.gpu))
	other, near := s.NearBoundary(millis(t.gpu), boundaryTolerance)
	if !near {
		return turns, 0, 0
	}
	edge := p.Parameters.slice() * float64(min(turns, other))
	away := math.Abs(t.gpu-edge) / (boundaryTolerance * t.gpu)
	return turns, other, (1 - min(1, away)) / 2
}
