// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package main

import (
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

// TestLeaderboard scores everybody again, and holds every submission to its form.
func TestLeaderboard(t *testing.T) {
	code, out, errs := call(t, "-benchmark", "../../benchmark")
	if code != 0 {
		t.Fatal(errs)
	}
	golden.Check(t, "../../benchmark/leaderboard.txt", []byte(out))
}
