package gate

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// TestMissedNamesTheLatency: latencies are numbered as in an outcome of predict.
func TestMissedNamesTheLatency(t *testing.T) {
	for k, want := range [costs.LatencyCount]profile.Metric{profile.MetricTTFTP99, profile.MetricTPOTP99, profile.MetricE2EP99} {
		if got := Missed(k, 2, 1.5, 3, 1).Metric; got != want {
			t.Errorf("%s P99 is missed as %s", costs.LatencyName(k), got)
		}
	}
}
