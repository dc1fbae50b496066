// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// TestMissedNamesTheLatency: latencies are numbered as in an outcome of predict.
func TestMissedNamesTheLatency(t *testing.T) {
	for k, want := range [predict.LatencyCount]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99, profile.MetricE2EP99} {
		if got := Missed(k, 2, 1.5, 3, 1).Metric; got != want {
			t.Errorf("%s P99 is missed as %s", predict.LatencyName(k), got)
		}
	}
	for want, r := range map[string]Reason{
		"the predicted E2E P99 is 33203 ms (14435 to 99084), the objective 20000 ms: only a measurement settles it": Missed(2, 33.2026, 14.4346, 99.0836, 20),
		"the predicted TPOT P99 is 21.13 ms (20.5 to 22), the objective 20 ms":                                      Missed(1, 0.02113, 0.0205, 0.022, 0.02),
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
