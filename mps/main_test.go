// SPDX-License-Identifier: Apache-2.0

package mps_test

import (
	"os"
	"testing"

	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/mps/mpstest"
)

// TestMain lets the test binary replace nvidia-cuda-mps-control.
func TestMain(m *testing.M) {
	if code, ok := mpstest.ControlProgram(); ok {
		os.Exit(code)
	}
	nightly.Parallel(8)
	os.Exit(m.Run())
}
