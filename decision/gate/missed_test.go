package gate

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
)

// TestMissedNamesTheLatency: latencies are numbered as in an outcome of predict.
func TestMissedNamesTheLatency(t *testing.T) {
	for k, want := range [predict.LatencyCount]predict.Metric{predict.MetricTTFTP99, predict.MetricTPOTP99, predict.MetricE2EP99} {
		if got := Missed(k, 2, 1.5, 3, 1).Metric; got != want {
			t.Errorf("%s P99 is missed as %s", predict.LatencyName(k), got)
		}
	}
}
