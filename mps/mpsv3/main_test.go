package mpsv3_test

import (
	"os"
	"testing"

	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/mps/mpsv3/mpsv3test"
)

// TestMain lets the test binary stand in for nvidia-cuda-mps-control.
func TestMain(m *testing.M) {
	if code, ok := mpstest.ControlProgram(mpsv3test.Play); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
