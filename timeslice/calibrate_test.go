package timeslice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// TestA100Rows: YOLOS-small on an A100, 1, 3, 5 and 7 pods
// (nos-gpu-sharing), with one fitted overhead.
func TestA100Rows(t *testing.T) {
	points := []timeslice.SaturatedPoint{
		{1, seconds(0.08815048247208879)}, {3, seconds(0.2931403323839484)},
		{5, seconds(0.4889516484510863)}, {7, seconds(0.6848803898344092)},
	}
	fit, err := timeslice.FitOverhead(points)
	if err != nil {
		t.Fatal(err)
	}
	if fit.OverheadFraction < 0.105 || fit.OverheadFraction > 0.112 || fit.Points != 3 {
		t.Errorf("fit %+v", fit)
	}
	if fit.WorstErrorFraction > 0.01 {
		t.Errorf("worst error %.2f%%", 100*fit.WorstErrorFraction)
	}
	// A pair fitted on 3 pods alone predicts the others as well.
	pair, err := timeslice.FitOverhead(points[:2])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		within(t, "held out", timeslice.Saturated(p.Tenants, pair.Solo, pair.OverheadFraction), p.Latency, 0.01)
	}
	s := fit.Scheduler(2 * ms)
	if s.Basis != sharing.BasisFitted || s.Quantum != 2*ms {
		t.Errorf("scheduler %+v", s)
	}
	if got := s.Overhead(); got < 0.105 || got > 0.112 {
		t.Errorf("overhead of the scheduler %v", got)
	}
}

func TestFitOverheadRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		points []timeslice.SaturatedPoint
		want   string
	}{
		{"nothing", nil, "none is of a tenant alone"},
		{"no pair", []timeslice.SaturatedPoint{{1, ms}}, "none is of tenants together"},
		{"two solos", []timeslice.SaturatedPoint{{1, ms}, {1, ms}, {2, 2 * ms}}, "second measurement"},
		{"nonsense", []timeslice.SaturatedPoint{{0, ms}, {1, -ms}}, "points[1].latency"},
		{"not in turn", []timeslice.SaturatedPoint{{1, ms}, {2, 1500 * us}}, "not saturated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fit, err := timeslice.FitOverhead(c.points)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want an error with %q", fit, err, c.want)
			}
		})
	}
}

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
	within(t, "2 tenants", c.Scheduler.OffTime(2), two[0].Off.P50, 0.01)
	within(t, "4 tenants", c.Scheduler.OffTime(4), four[0].Off.P50, 0.01)
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
			b.WriteString(p.String() + "\n")
		}
		again, err := timeslice.ParseProbe(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("%q does not parse: %v", b.String(), err)
		}
		var c strings.Builder
		for _, p := range again {
			c.WriteString(p.String() + "\n")
		}
		if b.String() != c.String() {
			t.Fatalf("round trip: %q, then %q", b.String(), c.String())
		}
	})
}
