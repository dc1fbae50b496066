// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// The figures that have to be known of a workload before it shares a GPU otherwise than today, by the keys that state
// them.
const (
	keyMemory = "memory"
	keyBusy   = "gpu_busy"
	KeySLO    = "slo"
)

// NotKnown lists those that are missing of a workload that runs.
func NotKnown(w *decision.Workload) (keys []string) {
	if w.MemoryNeed().Unknown {
		keys = append(keys, keyMemory)
	}
	if w.GPUBusy.IsZero() && w.Load == nil && w.Profile == nil {
		keys = append(keys, keyBusy)
	}
	if w.Kind == decision.KindOnlineInference && w.SLO == (profile.SLO{}) {
		keys = append(keys, KeySLO)
	}
	return keys
}

// bound lets a workload that lacks the figures for other sharing move to devices of its present kind, and reports
// whether it has such: GPUs or MIG instances of its own. why names the missing figures.
func (c *cluster) bound(w, why string) bool {
	_, one := c.home(w)
	if m := c.kind(w).mode; !one || m != sharing.MechanismExclusive && m != sharing.MechanismMIG {
		return false
	}
	c.bounds[w] = why + "; it may only move to a device of the same kind"
	return true
}
