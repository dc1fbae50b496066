// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// linkUS is the mean time by which each kernel of the launch waited for the tenant.
func linkUS(w *profile.Wait) float64 {
	return max(0, w.CoLocatedMeanUS-w.IsolatedMeanUS) / float64(max(1, w.Kernels))
}

// chainOf is the wait of the reporter's longest chain of wide kernels, nil where none was measured.
func chainOf(p *profile.Pressure) *profile.Wait {
	if p == nil {
		return nil
	}
	var chain *profile.Wait
	for i := range p.Waits {
		if w := &p.Waits[i]; w.Wide && w.Kernels > 1 && (chain == nil || w.Kernels > chain.Kernels) {
			chain = w
		}
	}
	return chain
}

// reporterOf returns the wait of a single wide kernel with a length nearest to 20 microseconds, nil where none was
// measured: it was found to distinguish neighbours best.
func reporterOf(p *profile.Pressure) *profile.Wait {
	const usualUS = 20
	if p == nil {
		return nil
	}
	var nearest *profile.Wait
	for i := range p.Waits {
		w := &p.Waits[i]
		off := func(w *profile.Wait) float64 { return math.Abs(math.Log(w.KernelUS / usualUS)) }
		if w.Wide && w.Kernels == 1 && w.KernelUS > 0 && (nearest == nil || off(w) < off(nearest)) {
			nearest = w
		}
	}
	return nearest
}

// quietSteps returns the medians of the tenant's step, in milliseconds, where no kernel held up its own: without
// others, and next to kernels shorter than a host takes to launch one.
func quietSteps(p *profile.Pressure) (ms []float64) {
	const shortUS = 5
	if p == nil {
		return nil
	}
	ms = append(ms, p.StepMS)
	for _, w := range p.Waits {
		if w.KernelUS*float64(w.Kernels) <= shortUS {
			ms = append(ms, w.StepMS)
		}
	}
	for _, q := range p.Stresses {
		if !q.Reads && q.KernelUS <= shortUS {
			ms = append(ms, q.StepMS)
		}
	}
	return ms
}
