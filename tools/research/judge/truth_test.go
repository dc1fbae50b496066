// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"testing"
)

// What lies below the median says nothing of how far a limit may be missed.
func TestUpward(t *testing.T) {
	if middle, up := upward([]float64{0.5}); middle != 0.5 || up != 0 {
		t.Errorf("%v, %v", middle, up)
	}
	if middle, up := upward([]float64{3, -8, 2, 1, 2}); middle != 2 || math.Abs(up-math.Sqrt(2.0/5)) > 1e-12 {
		t.Errorf("%v, %v", middle, up)
	}
}
