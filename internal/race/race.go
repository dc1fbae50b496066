// SPDX-License-Identifier: Apache-2.0

// Package race reports whether the race detector is compiled in. It slows computation ten to twenty times, and finds
// nothing in single-goroutine code: such tests draw fewer random cases under it, and skip the longest ones. .ci/run
// also runs the tests of every file that imports this package without the race detector, and so in full.
package race

import "testing"

// Fewer returns the number of n cases that a test runs: all, or under the race detector about a quarter of them.
func Fewer(n int) int {
	if Enabled {
		return (n + 3) / 4
	}
	return n
}

// Long leaves a test out under the race detector.
func Long(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("it computes in one goroutine, and for long; run it without -race")
	}
}
