// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// paceCoLocated sets the length of a step that the host launches kernel by kernel: the middle of all runs without
// contention for the GPU and of one in which the host's thread shared its core for half of the time. A run has either.
func (t *tenantModel) paceCoLocated(mechanism sharing.Mechanism, s *profile.Solo, gapsKnown bool) {
	runs := freeRuns(mechanism, s)
	if !gapsKnown || len(runs) == 0 {
		return
	}
	if len(runs) == 1 {
		runs = append(runs, runs[0]/math.Sqrt(table.Launched.SharedCore.Value))
	}
	runs = append(runs, slices.Min(runs)*math.Sqrt(table.Launched.SharedCore.Value))
	slices.Sort(runs)
	fast, step, slow := runs[0], middle(runs), slices.Max(runs)
	if t.gpu >= table.Launched.Gapless.Value*step {
		return
	}
	pace := max(step, t.gpu) / t.step
	t.step *= pace
	t.isolated[profile.MetricStepP50] *= pace
	t.isolated[profile.MetricStepP99] *= pace
	t.isolated[profile.MetricStepsPerSecond] /= pace
	t.note(math.Log(slow/fast)/2, "its host launches kernel by kernel, at the pace of a core that others share or not: "+
		"%.3g to %.3g ms a step", fast, slow)
}

// freeRuns are the medians of a tenant's step in the runs in which no neighbour held up its kernels.
func freeRuns(mechanism sharing.Mechanism, s *profile.Solo) (ms []float64) {
	if s.MPS != nil && s.TimeSlicing != nil && s.MPS.Server != s.TimeSlicing.Server {
		return nil
	}
	for _, b := range []*profile.SoloProfile{s.TimeSlicing, s.MPS} {
		if b != nil && !b.GapsHoldPrompts() {
			ms = append(ms, b.ITL.P50.Or(0), b.Step.P50.Or(0)) // a server has the former, others the latter
		}
	}
	if s.MPS != nil && mechanism == sharing.MechanismMPS { // under time-slicing a host launches in others' slices
		ms = append(ms, quietSteps(s.MPS.Pressure)...)
	}
	return slices.DeleteFunc(ms, func(v float64) bool { return v <= 0 })
}

// paceOfRuns has a server under MPS take its steps at the middle pace of the run that it was read from and of all in
// which no neighbour held up its kernels: single ones differ by a fifth, since the host's pace does.
func (t *tenantModel) paceOfRuns(s *profile.Solo) {
	runs := slices.Sorted(slices.Values(append(freeRuns(sharing.MechanismMPS, s), t.step)))
	extra := middle(runs) - t.step
	t.stretch(extra)
	t.added -= extra
}
