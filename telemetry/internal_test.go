// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding"
	"math"
	"testing"
	"time"
)

func TestEnergyBetween(t *testing.T) {
	for _, c := range []struct {
		before, now float64
		dt          time.Duration
		want        float64
		known       bool
	}{
		{100, 350, time.Second, 250, true},
		{100, 100, time.Second, 0, true},
		{1e9, 1e9 - 1, time.Minute, 0, false},    // a step back by one joule
		{4.29e6, 200, time.Second, 0, false},     // a counter of 32 bits
		{1e6, 50, time.Second, 0, false},         // the driver was loaded anew
		{100, 1e5 + 100, time.Second, 0, false},  // 100 kW
		{100, 1000, time.Millisecond, 900, true}, // the counter's own steps
	} {
		got, known := EnergyBetween(Point{0, c.before}, Point{c.dt, c.now})
		if known != c.known || known && got != c.want {
			t.Errorf("%v to %v in %v: %v, %v", c.before, c.now, c.dt, got, known)
		}
	}
}

func TestSeconds(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Second - 1, time.Second, 90*time.Hour + 7} {
		p := csvParser{col: map[string]int{colAt: 0}, rec: []string{formatSeconds(d)}}
		if got := p.seconds(colAt); p.probs.Len() > 0 || got != d {
			t.Errorf("%v comes back as %v, %v", d, got, p.probs.Err())
		}
	}
	for _, bad := range []string{"", "-1", "1.00000000x", "9223372036.999999999", "inf"} {
		p := csvParser{col: map[string]int{colAt: 0}, rec: []string{bad}}
		if got := p.seconds(colAt); p.probs.Len() != 1 {
			t.Errorf("%q reads as %v", bad, got)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, m := range Metrics() {
		b, err := m.MarshalText()
		var got Metric
		if err2 := got.UnmarshalText(b); err != nil || err2 != nil || got != m || string(b) != m.String() {
			t.Errorf("%v comes back as %v: %v, %v", m, got, err, err2)
		}
	}
	for _, v := range []encoding.TextMarshaler{Metric(0), metricEnd} {
		if b, err := v.MarshalText(); err == nil {
			t.Errorf("%v marshals to %s", v, b)
		}
	}
	for bits, want := range map[uint64]Throttle{0: "none", 1<<40 | 4: "power-cap", 1 | 64 | 256: "idle+hw-thermal+display"} {
		if got := ThrottleOf(bits); got != want || got.with("") != want {
			t.Errorf("%#x is %q, %q", bits, got, got.with(""))
		}
	}
	for _, bad := range []Throttle{"power-cap+idle", "idle+idle", "", "none+idle", "idlex"} {
		if bad.with("") == bad {
			t.Errorf("%q is a list of reasons", bad)
		}
	}
}

func TestReadingRefusesWhatIsNoFigure(t *testing.T) {
	var r Reading
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r.Set(MetricPowerWatts, v)
	}
	r.Set(Metric(0), 1)
	r.Set(metricEnd, 1)
	if r.Has() {
		t.Error("a reading holds a value that is no figure")
	}
	r.Set(MetricPowerWatts, 0)
	if v, ok := r.Get(MetricPowerWatts); !ok || v != 0 {
		t.Error("zero is a figure")
	}
}

// TestPausesTakeNoMemory: a GPU that is busy every other sample keeps one interval, however long it does so.
func TestPausesTakeNoMemory(t *testing.T) {
	d := new(idleDetector)
	if err := d.Begin(Header{Devices: make([]Device, 1), Period: 100 * time.Millisecond, SlowPeriod: time.Second}); err != nil {
		t.Fatal(err)
	}
	const samples = 10_000
	for i := range samples + 1 {
		x := Sample{At: time.Duration(i) * 100 * time.Millisecond, Groups: GroupProcesses}
		x.Set(MetricGPUUtilPercent, float64(i%2)*90)
		if err := d.Sample(&x); err != nil {
			t.Fatal(err)
		}
		if n := len(d.devs[0].intervals) + len(d.devs[0].idle); n > 2 {
			t.Fatalf("%d intervals after %v", n, x.At)
		}
	}
	r, err := d.Report(0)
	if err != nil || len(r.Intervals) != 1 || r.Total(StateActive) != samples*100*time.Millisecond || r.Pauses != samples/2*100*time.Millisecond {
		t.Errorf("%+v, %v", r, err)
	}
}
