// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package placement

import "testing"

// TestStagesAtScale compares two stages with an exact search at the sizes of busy clusters.
func TestStagesAtScale(t *testing.T) {
	for _, policy := range []Policy{busyMix(t), BestFit} {
		compareStages(t, 1000, 10_000, policy, 1, 0.99, 0.01)
		compareStages(t, 10_000, 100, policy, 60, 0.99, 0.01)
		compareStages(t, 10_000, 100, policy, 1, 0.1, 0.2) // of a part of the nodes
	}
}
