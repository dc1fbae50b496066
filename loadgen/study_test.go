// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

func TestStudy(t *testing.T) {
	var got []string
	for _, c := range loadgen.Study(loadgen.LoadPlan{Scenario: "mps", Tenants: []loadgen.Tenant{{Name: "a"}, {Name: "b"}}}) {
		s := c.Scenario + ":"
		for _, tn := range c.Tenants {
			s += " " + tn.Name
		}
		got = append(got, s)
	}
	want := []string{"mps-solo-a: a", "mps-solo-b: b", "mps-colocated: a b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestArtifactsGolden pins the layout of the artifacts. Times inside a bubble are
// always the same; fields that depend on the machine are removed.
func TestArtifactsGolden(t *testing.T) {
	res, _ := bubble(t, loadgentest.Every(4, loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 8, Fault: "cut", FaultAfter: 5},
		loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 8}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, o *loadgen.Options) {
		p.Scenario, p.Simulated = "golden", true
		p.Tenants[0].Requests = 8
		p.Tenants[0].Load.Concurrency = 2
		p.Tenants[0].SLO = loadgen.RequestSLO{TTFT: 100 * ms}
		o.RunID = "20000101T000000Z-golden-000000"
	})
	s := res.Summary
	s.ClientHealth.GCPauses, s.ClientHealth.GCPauseMaxMS, s.ClientHealth.SchedulingP99MS = 0, 0, 0
	s.ClientHealth.CPUSeconds, s.ClientHealth.CPUFraction, s.ClientHealth.GOMAXPROCS = loadgen.Optional[float64]{}, loadgen.Optional[float64]{}, 1
	s.ClientHealth.Valid, s.ClientHealth.Reasons = true, []string{}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/summary.json", append(b, '\n'))
}

// TestTotalGoodput: the totals' goodput is over the tenants that have an SLO, each by
// its own; a tenant without one is not one that kept none.
func TestTotalGoodput(t *testing.T) {
	const kept, missed = time.Hour, time.Nanosecond
	run := func(slos ...time.Duration) *loadgen.Summary {
		t.Helper()
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: ms, Interval: ms, Tokens: 3}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			one := p.Tenants[0]
			p.Tenants = nil
			for i, slo := range slos {
				one.Name, one.Requests, one.SLO.TTFT = string(rune('a'+i)), 10*(i+1), slo
				one.Prompts = loadgen.Texts("x", "y", "z")
				p.Tenants = append(p.Tenants, one)
			}
		})
		return &res.Summary
	}
	for _, c := range []struct {
		name string
		slos []time.Duration
		want *loadgen.Goodput
	}{
		{"none", []time.Duration{0, 0}, nil},
		{"one of two", []time.Duration{kept, 0}, &loadgen.Goodput{SLO: loadgen.SLOFigures{TTFT: 3600e3}, Of: 10, Met: 10, Fraction: optional.Of(1.0), OutputTokens: optional.Of(int64(30))}},
		{"different", []time.Duration{kept, missed, 0}, &loadgen.Goodput{Of: 30, Met: 10, Fraction: optional.Of(1.0 / 3), OutputTokens: optional.Of(int64(30))}},
	} {
		s := run(c.slos...)
		got := s.Goodput
		if c.want != nil && got != nil {
			if per, ok := got.PerS.Get(); !ok || math.Abs(per-float64(got.Met)/s.DurationS) > 1e-9 {
				t.Errorf("%s: %v requests/s", c.name, got.PerS)
			}
			c.want.PerS, c.want.OutputTokensPerS = got.PerS, optional.Of(30/s.DurationS)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}
