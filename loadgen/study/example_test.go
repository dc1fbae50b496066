// SPDX-License-Identifier: Apache-2.0

package study_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/report"
	"github.com/cotenant/cotenant/loadgen/study"
)

// test is the load test that a command line describes. Its runs count on a machine that has other work too.
func test(args ...string) study.Config {
	fl := flag.NewFlagSet("load", flag.ContinueOnError)
	c, apply := study.BindFlags(fl)
	if err := errors.Join(fl.Parse(args), apply(), c.Check(), c.Resolve(study.FileOptions{})); err != nil {
		log.Fatal(err)
	}
	c.Health = loadgen.HealthLimits{SendLagP99: -1, PacingLagP99: -1, ReadLagP99: -1, SchedulingP99: -1, GCPauseMax: -1, CPUFraction: -1}
	return *c
}

// A program gets the flags of a load test and the test that they describe; contradictions are reported before anything
// is sent.
func ExampleBindFlags() {
	for _, args := range [][]string{
		{"-endpoint", "http://llm:8000", "-rate", "2,4,8", "-requests", "200", "-slo-ttft", "500ms"},
		{"-rate", "2", "-concurrency", "8", "-requests", "200", "-cert", "client.pem"},
	} {
		fl := flag.NewFlagSet("load", flag.ContinueOnError)
		c, apply := study.BindFlags(fl)
		if err := errors.Join(fl.Parse(args), apply(), c.Check()); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("rates", c.Rates, "with", c.File.Tenants[0].Requests, "requests each")
	}
	// Output:
	// rates [2 4 8] with 200 requests each
	// -concurrency and -rate exclude one another (keep one)
	// -cert: has no effect without -key
	// -cert: has no effect without -endpoint
}

// A sweep makes a run for each load, here of a server in this process.
func ExampleRun() {
	server, err := loadgentest.NewServer(loadgentest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	outcome, err := study.Run(context.Background(), test("-endpoint", server.URL, "-concurrency", "1,4", "-requests", "20", "-max-tokens", "8", "-non-streaming"))
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range outcome.Results {
		t := r.Summary.Tenants[0]
		fmt.Println(t.Load, t.Counts.ByClass, "with", t.OutputTokens, "tokens")
	}
	fmt.Println("verdict:", outcome.Verdict())
	// Output:
	// closed loop, concurrency 1 map[ok:20] with 160 tokens
	// closed loop, concurrency 4 map[ok:20] with 160 tokens
	// verdict: <nil>
}

// A test in a pipeline fails where a server breaks a bound: this one turns every fourth request away.
func ExampleOutcome_Verdict() {
	server, err := loadgentest.NewServer(loadgentest.Options{Script: func(r loadgentest.Request) loadgentest.Reply {
		if r.N%4 == 3 {
			return loadgentest.Reply{Status: 429}
		}
		return loadgentest.Reply{}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	outcome, err := study.Run(context.Background(), test("-endpoint", server.URL, "-concurrency", "2", "-requests", "20",
		"-non-streaming", "-fail-if", "failed>5%"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome.Results[0].Summary.Counts.ByClass)
	fmt.Println("the gate is shut:", errors.Is(outcome.Verdict(), report.ErrGate))
	// Output:
	// map[http_429:5 ok:15]
	// the gate is shut: true
}
