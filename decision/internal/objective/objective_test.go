// SPDX-License-Identifier: Apache-2.0

package objective

import (
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// TestMissedNamesTheLatency: latencies are numbered as in an outcome of predict.
func TestMissedNamesTheLatency(t *testing.T) {
	for k, want := range [predict.LatencyCount]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99, profile.MetricE2EP99} {
		if got := Missed(k, profile.Interval{Value: 2, Low: 1.5, High: 3}, 1).Metric; got != want {
			t.Errorf("%s P99 is missed as %s", predict.LatencyName(k), got)
		}
	}
	for want, r := range map[string]filter.Reason{
		"the predicted E2E P99 is 33203 ms (14435 to 99084), the objective 20000 ms: only a measurement decides it": Missed(2, profile.Interval{Value: 33.2026, Low: 14.4346, High: 99.0836}, 20),
		"the predicted TPOT P99 is 21.13 ms (20.5 to 22), the objective 20 ms":                                      Missed(1, profile.Interval{Value: 0.02113, Low: 0.0205, High: 0.022}, 0.02),
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
