package judge

import (
	"math"
	"testing"
)

// A limit that tells in one world only is held to what it says there; the spread is that of a sample.
func TestMoments(t *testing.T) {
	if mean, sd := moments([]float64{0.5}); mean != 0.5 || sd != 0 {
		t.Errorf("%v, %v", mean, sd)
	}
	if mean, sd := moments([]float64{1, 2, 3}); mean != 2 || math.Abs(sd-1) > 1e-12 {
		t.Errorf("%v, %v", mean, sd)
	}
}
