// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// The ten-line program: load on one endpoint, and its figures.
func Example() {
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{TTFT: 20 * time.Millisecond, Interval: time.Millisecond})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	res, err := loadgen.Run(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
		Name: "chat", Endpoints: []loadgen.Endpoint{{URL: srv.URL}}, Model: "m", Prompts: loadgen.Texts("Why share a GPU?"),
		MaxTokens: 10, Requests: 50, Load: loadgen.OfferedLoad{Concurrency: 5},
	}}}, loadgen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := res.Summary
	fmt.Println(s.Counts.OK, "ok,", s.OutputTokens, "tokens by", s.TokenSource)
	fmt.Println("TTFT p99 of at least 20 ms:", s.TTFT.P99 >= 20)
	// Output:
	// 50 ok, 500 tokens by server_usage
	// TTFT p99 of at least 20 ms: true
}

// Failures are counted by class, and nobody is credited with tokens that never came.
func ExampleRun_failures() {
	usual := loadgentest.Reply{Tokens: 100}
	cut := usual
	cut.Fault, cut.FaultAfter = "cut", 51
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: loadgentest.Every(11, cut, usual)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	res, err := loadgen.Run(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
		Name: "t", Endpoints: []loadgen.Endpoint{{URL: srv.URL}}, Prompts: loadgen.Texts("hi"), Requests: 100, Load: loadgen.OfferedLoad{Concurrency: 4},
	}}}, loadgen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := res.Summary.Measures
	fmt.Println(m.Counts.ByClass, m.OutputTokens, m.OutputTokensFailed)
	// Output: map[ok:91 truncated:9] 9100 459
}

// A schedule is a pure function of its seed.
func ExamplePoisson() {
	for at := range loadgen.Poisson(4).Arrivals(rand.New(rand.NewPCG(1, 2))) {
		if at > 2*time.Second {
			break
		}
		fmt.Print(at.Round(time.Millisecond), " ")
	}
	// Output: 148ms 165ms 174ms 789ms 1.184s 1.413s 1.522s 1.66s 1.845s
}

// The highest rate at which 99% of the requests keep their SLO, here against a formula in place of a server.
func ExampleSearch() {
	trial := func(_ context.Context, ratePerS float64) (*loadgen.Summary, error) {
		met := int64(999)
		if ratePerS > 9.4 {
			met = 700
		}
		var s loadgen.Summary // usually that of loadgen.Run
		s.ClientHealth.Valid = true
		s.Tenants = make([]loadgen.TenantSummary, 1)
		s.Tenants[0].Counts.Total, s.Tenants[0].Goodput = 1000, &loadgen.Goodput{Met: met}
		return &s, nil
	}
	res, err := loadgen.Search{Low: 1, High: 32}.Run(context.Background(), trial)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("passes at %.2f/s, fails at %.2f/s, confidence %v\n", res.PassesPerS.Or(0), res.FailsPerS.Or(0), res.Confidence)
	// Output: passes at 9.21/s, fails at 9.46/s, confidence 0.95
}

// Two tenants, each isolated and both co-located.
func ExampleStudy() {
	plan := loadgen.LoadPlan{Scenario: "mps", Tenants: []loadgen.Tenant{{Name: "chat"}, {Name: "batch"}}}
	for _, c := range loadgen.Study(plan) {
		fmt.Println(c.Scenario, len(c.Tenants))
	}
	// Output:
	// mps-solo-chat 1
	// mps-solo-batch 1
	// mps-colocated 2
}
