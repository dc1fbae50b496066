// SPDX-License-Identifier: Apache-2.0

// Package race says whether the race detector is compiled in. It makes what only computes ten to twenty times as
// slow, and finds nothing where one goroutine computes: tests of that draw fewer random cases under it, and leave
// out what takes longest. .ci/run runs the tests of every file that imports this one without the race detector too, and
// so in full.
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
