// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// What was predicted too fast is lifted, percentile by percentile, and the rest stays.
func TestRaise(t *testing.T) {
	var p Prediction
	p.set(profile.MetricTPOTP50, 5, 0.1)
	p.set(profile.MetricTPOTP99, 50, 0.1)
	p.set(profile.MetricTokensPerSecond, 1, 0.1)
	before := p
	p.raise([LatencyCount]float64{LatencyTPOT: 0.02})
	if i, _ := p.Get(profile.MetricTPOTP50); i != (profile.Interval{Value: 20, Low: 20, High: before.value[profile.MetricTPOTP50].High * 4}) {
		t.Errorf("median %v", i)
	}
	if p.value[profile.MetricTPOTP99] != before.value[profile.MetricTPOTP99] || p.value[profile.MetricTokensPerSecond] != before.value[profile.MetricTokensPerSecond] {
		t.Errorf("%v became %v", before, p)
	}
}
