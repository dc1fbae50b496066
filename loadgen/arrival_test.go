// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/race"
)

func take(s Schedule, n int, seed uint64) []time.Duration {
	var out []time.Duration
	for at := range s.Arrivals(rand.New(rand.NewPCG(seed, 0))) {
		if len(out) == n {
			break
		}
		out = append(out, at)
	}
	return out
}

func TestArrivalsExactly(t *testing.T) {
	sec := time.Second
	for _, tc := range []struct {
		s    Schedule
		want []time.Duration
	}{
		{Constant(4), []time.Duration{0, sec / 4, sec / 2, 3 * sec / 4, sec}},
		{Constant(3), []time.Duration{0, 333333333, 666666667, sec, 1333333333}},
		{Timestamps([]time.Duration{0, sec, sec, 3 * sec, 9 * sec}, 0), []time.Duration{0, sec, sec, 3 * sec, 9 * sec}},
		{Timestamps([]time.Duration{0, sec, sec, 3 * sec, 9 * sec}, 2), []time.Duration{0, sec / 2, sec / 2, 3 * sec / 2, 9 * sec / 2}},
	} {
		if diff := cmp.Diff(tc.want, take(tc.s, 5, 1)); diff != "" {
			t.Errorf("%v: -want +got:\n%s", tc.s, diff)
		}
	}
}

// TestArrivalsOfNoProcess: parameters that plans refuse yield no arrivals, without an endless loop or a panic.
func TestArrivalsOfNoProcess(t *testing.T) {
	for _, s := range []Schedule{Gamma(5, 0), Gamma(5, -1), Gamma(5, math.NaN()), Gamma(0, 1), Poisson(0), Poisson(-1), Constant(0), Constant(-1), Constant(math.Inf(1))} {
		if got := take(s, 5, 1); len(got) != 0 {
			t.Errorf("%v arrives at %v", s, got)
		}
	}
}

func TestConstantNeverDrifts(t *testing.T) {
	var last time.Duration
	n := 0
	for last = range Constant(997).Arrivals(nil) {
		if n == 997*3600 {
			break
		}
		n++
	}
	if last != time.Hour {
		t.Errorf("the arrival after an hour comes at %v", last)
	}
}

func TestArrivalProcesses(t *testing.T) {
	race.Long(t)
	const n, rate = 200_000, 50.0
	for _, tc := range []struct {
		s  Schedule
		cv float64
	}{
		{Poisson(rate), 1}, {Gamma(rate, 1), 1}, {Gamma(rate, 0.25), 2}, {Gamma(rate, 4), 0.5},
	} {
		at := take(tc.s, n, 7)
		if diff := cmp.Diff(at[:100], take(tc.s, 100, 7)); diff != "" {
			t.Errorf("%v: same seed, other schedule: %s", tc.s, diff)
		}
		if cmp.Equal(at[:100], take(tc.s, 100, 8)) {
			t.Errorf("%v: another seed gives the same schedule", tc.s)
		}
		var sum, sq float64
		for i := 1; i < n; i++ {
			g := (at[i] - at[i-1]).Seconds()
			sum, sq = sum+g, sq+g*g
		}
		mean := sum / (n - 1)
		cv := math.Sqrt(sq/(n-1)-mean*mean) / mean
		if math.Abs(mean*rate-1) > 0.02 || math.Abs(cv/tc.cv-1) > 0.03 {
			t.Errorf("%v: mean gap %v s, CV %v, want %v, %v", tc.s, mean, cv, 1/rate, tc.cv)
		}
	}
}

func TestBadPlans(t *testing.T) {
	ok := func() LoadPlan {
		return LoadPlan{Tenants: []Tenant{{
			Name: "a", Endpoints: []Endpoint{{URL: "http://h:1"}}, Prompts: Texts("x"), Requests: 1, Load: OfferedLoad{Concurrency: 1},
		}}}
	}
	valid := ok()
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	p := ok()
	p.Tenants = append(p.Tenants, Tenant{Name: "a", Load: OfferedLoad{Schedule: Constant(0), Concurrency: 2}, MaxTokens: -1, API: "chatt", Usage: "all",
		Endpoints: []Endpoint{{URL: "host:80"}, {URL: "http://u:pw@h"}, {URL: "http://"}}, SLO: RequestSLO{TTFT: -1}})
	p.Tenants = append(p.Tenants, Tenant{Name: "c", Prompts: Texts("x"), Load: OfferedLoad{Concurrency: 3}, Endpoints: []Endpoint{{URL: "https://h"}}})
	p.Tenants = append(p.Tenants, Tenant{Name: "d", Prompts: Texts("x"), Load: OfferedLoad{Schedule: Poisson(1)}})
	p.Window = Window{From: 2, To: 1}
	p.Duration = -1
	err := p.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"duration: -1ns is negative", "window: ends at 1ns", "tenants[1].name: \"a\" is tenants[0]'s name too", "tenants[1].prompts: missing",
		`tenants[1].api: unknown api "chatt" (did you mean "chat"?)`, `tenants[1].usage: unknown usage "all" (use final or continuous or none)`, "tenants[1].max_tokens: -1", "tenants[1].slo.ttft", "tenants[1].load: a schedule", "tenants[1].endpoints[0].url",
		"tenants[1].endpoints[1].url: credentials", "tenants[1].endpoints[2].url: no host", "tenants[2].load: would never end",
		"tenants[3].load: would never end",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "pw") {
		t.Error("the password is in it")
	}
	late := ok()
	late.Duration, late.Tenants[0].Load.Ramp = 2*time.Second, 5*time.Second
	if err := late.Validate(); err == nil || !strings.Contains(err.Error(), "window: starts at 5s, when no more load is offered: the duration is 2s") {
		t.Error(err)
	}
	for _, s := range []Schedule{
		Constant(0), Poisson(math.NaN()), Gamma(1, 0), Timestamps(nil, 0), Timestamps([]time.Duration{2, 1}, 0), Timestamps([]time.Duration{1}, -1),
	} {
		p := ok()
		p.Tenants[0].Load = OfferedLoad{Schedule: s}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "tenants[0].load.schedule") {
			t.Errorf("%#v: %v", s, err)
		}
	}
}

func TestAPIPath(t *testing.T) {
	for _, tc := range []struct {
		in   string
		api  string
		want string
	}{
		{"", apiChat, "/v1/chat/completions"}, {"/", apiCompletions, "/v1/completions"}, {"/v1", apiChat, "/v1/chat/completions"},
		{"/openai/v1/", apiCompletions, "/openai/v1/completions"}, {"/v1/chat/completions", apiChat, "/v1/chat/completions"},
		{"/proxy", apiChat, "/proxy/v1/chat/completions"},
	} {
		if got := apiPath(tc.in, tc.api); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
	}
}

// BenchmarkArrivals makes 1000 arrivals an operation.
func BenchmarkArrivals(b *testing.B) {
	for _, s := range []Schedule{Constant(1000), Poisson(1000), Gamma(1000, 0.5)} {
		b.Run(describe(s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for range s.Arrivals(rand.New(rand.NewPCG(1, 1))) {
					if n++; n == 1000 {
						break
					}
				}
			}
		})
	}
}
