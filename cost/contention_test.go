package cost

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The article printed all four figures cut off after one decimal.
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
		if a, b := lat.TruncatePercent(1).String(), thr.TruncatePercent(1).String(); a != c.printedLatency || b != c.printedThroughput {
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

// Processor sharing predicts the article's pair with nothing fitted.
func TestProcessorSharingOfPair(t *testing.T) {
	work := []time.Duration{1135 * time.Millisecond, 609 * time.Millisecond}
	ends, err := ProcessorSharing(work)
	if err != nil || ends[0] != 1744*time.Millisecond || ends[1] != 1218*time.Millisecond {
		t.Fatalf("%v, %v", ends, err)
	}
	for i, measured := range []time.Duration{1778 * time.Millisecond, 1227 * time.Millisecond} {
		off, err := (Contention{Alone: measured, Shared: ends[i]}).LatencyImpact()
		if want := []string{"-1.9%", "-0.7%"}[i]; err != nil || off.RoundPercent(1).String() != want {
			t.Errorf("off by %v, %v; want %s", off, err, want)
		}
	}
	loss, err := SystemLoss(work, 1778*time.Millisecond)
	if err != nil || loss.RoundPercent(1).String() != "1.9%" {
		t.Errorf("system loss %v, %v; want 1.9%%", loss, err)
	}
}

func TestProcessorSharing(t *testing.T) {
	for _, c := range []struct{ work, want []time.Duration }{
		{nil, []time.Duration{}}, {[]time.Duration{5}, []time.Duration{5}}, {[]time.Duration{2, 2, 2}, []time.Duration{6, 6, 6}},
		{[]time.Duration{0, 3, 1}, []time.Duration{0, 4, 2}}, {[]time.Duration{4, 1, 2}, []time.Duration{7, 3, 5}},
	} {
		got, err := ProcessorSharing(c.work)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v (-want +got):\n%s", c.work, err, diff)
		}
	}
	if _, err := ProcessorSharing([]time.Duration{1, -1}); !errors.Is(err, ErrInput) {
		t.Errorf("%v", err)
	}
	if _, err := ProcessorSharing([]time.Duration{math.MaxInt64 / 2, math.MaxInt64 / 2, math.MaxInt64 / 2}); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v", err)
	}
	if _, err := SystemLoss([]time.Duration{math.MaxInt64, 1}, 1); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v", err)
	}
	if _, err := SystemLoss(nil, 0); !errors.Is(err, ErrInput) {
		t.Errorf("%v", err)
	}
}
