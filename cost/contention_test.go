package cost

import (
	"errors"
	"math"
	"testing"
	"time"
)

// The latency article printed all four figures cut off after one decimal.
func TestContention(t *testing.T) {
	for _, c := range []struct {
		alone, shared                     time.Duration
		latency, throughput               string // exact
		printedLatency, printedThroughput string
	}{
		{609 * time.Millisecond, 1227 * time.Millisecond, "101.4778%", "-50.3667%", "101.4%", "-50.3%"},
		{1135 * time.Millisecond, 1778 * time.Millisecond, "56.652%", "-36.1642%", "56.6%", "-36.1%"},
	} {
		n := Contention{c.alone, c.shared}
		lat, err1 := n.LatencyImpact()
		thr, err2 := n.ThroughputImpact()
		if err1 != nil || err2 != nil || lat.String() != c.latency || thr.String() != c.throughput {
			t.Errorf("%v, %v, %v, %v; want %s and %s", lat, thr, err1, err2, c.latency, c.throughput)
		}
		cutOff := func(p PPM) string { return (p - p%(Percent/10)).String() }
		if a, b := cutOff(lat), cutOff(thr); a != c.printedLatency || b != c.printedThroughput {
			t.Errorf("cut off: %s, %s; the article printed %s, %s", a, b, c.printedLatency, c.printedThroughput)
		}
		same := 1 - 1/(1+lat.Float()) // the two impacts are one figure
		if math.Abs(same+thr.Float()) > 1e-6 {
			t.Errorf("throughput impact %v is not 1 - 1/(1+%v)", thr, lat)
		}
	}
	for _, n := range []Contention{{}, {-1, 1}, {1, 0}} {
		_, err1 := n.LatencyImpact()
		_, err2 := n.ThroughputImpact()
		if !errors.Is(err1, ErrInput) || !errors.Is(err2, ErrInput) {
			t.Errorf("%v: %v, %v", n, err1, err2)
		}
	}
	if _, err := (Contention{1, math.MaxInt64}).LatencyImpact(); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v", err)
	}
}
