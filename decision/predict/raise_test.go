package predict

import "testing"

// What was predicted too fast is lifted, percentile by percentile, and the rest stays.
func TestRaise(t *testing.T) {
	var p Prediction
	p.set(MetricTPOTP50, 5, 0.1)
	p.set(MetricTPOTP99, 50, 0.1)
	p.set(MetricTokensPerSecond, 1, 0.1)
	before := p
	p.Raise([LatencyCount]float64{LatencyTPOT: 0.02})
	if i, _ := p.Get(MetricTPOTP50); i != (Interval{20, 20, 20}) {
		t.Errorf("median %v", i)
	}
	if p.value[MetricTPOTP99] != before.value[MetricTPOTP99] || p.value[MetricTokensPerSecond] != before.value[MetricTokensPerSecond] {
		t.Errorf("%v became %v", before, p)
	}
}
