package timeslice_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

const probe2 = `a sms=132 err=no error gaps=891 off_total_ms=2135.1 off_us p10=2395.1 p50=2396.3 p90=2397.9 max=2500.0 on_us p10=2090.0 p50=2090.7 p90=2091.2 max=2095.0
`
const probe4 = `a sms=132 err=no error gaps=445 off_total_ms=3063.2 off_us p10=6880.0 p50=6883.6 p90=6890.2 max=7000.0 on_us p10=2090.0 p50=2090.5 p90=2091.2 max=2095.0
`

func TestCalibrateProbe(t *testing.T) {
	two, err := timeslice.ParseProbe(strings.NewReader(probe2))
	if err != nil {
		t.Fatal(err)
	}
	four, err := timeslice.ParseProbe(strings.NewReader("\n" + probe4))
	if err != nil {
		t.Fatal(err)
	}
	c, err := timeslice.CalibrateProbe(timeslice.ProbeRun{Tenants: 2, Readings: two}, timeslice.ProbeRun{Tenants: 4, Readings: four})
	if err != nil {
		t.Fatal(err)
	}
	within(t, "quantum", c.Scheduler.Quantum, timeslice.H200().Quantum, 0.001)
	within(t, "switch", c.Scheduler.Switch, timeslice.H200().Switch, 0.001)
	if c.Points != 2 || c.WorstErrorFraction > 0.001 || c.Scheduler.Basis != sharing.BasisFitted {
		t.Errorf("%+v", c)
	}
}

func TestCalibrateProbeRefuses(t *testing.T) {
	ok := timeslice.ProbeReading{Tag: "a", Status: "no error", Gaps: 9, Timed: true, On: timeslice.ProbeTimes{P50: 2 * ms}, Off: timeslice.ProbeTimes{P50: ms}}
	failed, short := ok, ok
	failed.Status, short.Timed = "out of memory", false
	for _, c := range []struct {
		name string
		runs []timeslice.ProbeRun
		want []string
	}{
		{"nothing", nil, []string{"there is no reading"}},
		{"alone, failed, short", []timeslice.ProbeRun{{1, []timeslice.ProbeReading{failed, short}}},
			[]string{"runs[0].tenants", `"out of memory"`, "readings[1]: has no on- and off-times"}},
		{"something else", []timeslice.ProbeRun{{4, []timeslice.ProbeReading{ok}}}, []string{"shorter than the others' quanta"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := timeslice.CalibrateProbe(c.runs...)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
}

func TestParseProbe(t *testing.T) {
	got, err := timeslice.ParseProbe(strings.NewReader("x y sms=132 err=no error gaps=2 off_total_ms=4.8\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []timeslice.ProbeReading{{Tag: "x y", SMs: 132, Status: "no error", Gaps: 2, OffTotal: 4800 * us}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = timeslice.ParseProbe(strings.NewReader(probe2 + "hello\na sms=x err=no error gaps=1 off_total_ms=1\na sms=1 err=e gaps=1 off_total_ms=1 off_us\n" +
		strings.Replace(probe2, "p50=2396.3", "p50=NaN", 1)))
	for _, want := range []string{"line 2: ", "line 3: sms", "line 4: off_us and on_us", "line 5: off_us: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
}

// probeLine writes a reading as the probe prints it.
func probeLine(p timeslice.ProbeReading) string {
	s := fmt.Sprintf("%s sms=%d err=%s gaps=%d off_total_ms=%.1f", p.Tag, p.SMs, p.Status, p.Gaps, float64(p.OffTotal)/1e6)
	if p.Timed {
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		for i, d := range []timeslice.ProbeTimes{p.Off, p.On} {
			s += fmt.Sprintf(" %s p10=%.1f p50=%.1f p90=%.1f max=%.1f", []string{"off_us", "on_us"}[i], us(d.P10), us(d.P50), us(d.P90), us(d.Max))
		}
	}
	return s + "\n"
}

func FuzzParseProbe(f *testing.F) {
	f.Add(probe2 + probe4)
	f.Add("a sms=132 err=out of memory gaps=0 off_total_ms=0.0")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := timeslice.ParseProbe(strings.NewReader(s))
		if err != nil {
			if got != nil {
				t.Fatal("a value and an error")
			}
			return
		}
		var b strings.Builder
		for _, p := range got {
			b.WriteString(probeLine(p))
		}
		again, err := timeslice.ParseProbe(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("%q does not parse: %v", b.String(), err)
		}
		var c strings.Builder
		for _, p := range again {
			c.WriteString(probeLine(p))
		}
		if b.String() != c.String() {
			t.Fatalf("round trip: %q, then %q", b.String(), c.String())
		}
	})
}
