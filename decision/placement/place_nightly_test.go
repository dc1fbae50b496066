//go:build nightly

package placement

import "testing"

// TestStagesAtScale compares two stages with an exact search at the sizes of busy clusters.
func TestStagesAtScale(t *testing.T) {
	compareStages(t, 1000, 10_000, NewCotenant(busyMix(t)), 0.99, 0.01)
	compareStages(t, 10_000, 500, NewCotenant(busyMix(t)), 0.99, 0.01)
}
