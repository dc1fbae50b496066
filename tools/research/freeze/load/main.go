// SPDX-License-Identifier: Apache-2.0

// Command load runs the load client against scripted servers in simulated time, and prints its summaries as JSON.
// It is a program of its own because freeze builds it against the tree that it records.
package main

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

const ms = time.Millisecond

// runs are the loads, each on a server that answers by its script.
var runs = map[string]struct {
	script loadgentest.Script
	slots  int
	load   loadgen.OfferedLoad
	edit   func(*loadgen.Tenant)
}{
	"one user": {script: loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms}),
		load: loadgen.OfferedLoad{Concurrency: 1}},
	"eight users, four slots": {script: growing, slots: 4, load: loadgen.OfferedLoad{Concurrency: 8, Ramp: 80 * ms}},
	"thinking users": {script: growing,
		load: loadgen.OfferedLoad{Concurrency: 3, ThinkTime: 300 * ms, Ramp: 90 * ms}},
	"constant rate": {script: growing, slots: 3,
		load: loadgen.OfferedLoad{Schedule: loadgen.Constant(7)}},
	"poisson": {script: growing, slots: 5, load: loadgen.OfferedLoad{Schedule: loadgen.Poisson(5)}},
	"events of two tokens, no usage": {script: loadgentest.Always(loadgentest.Reply{TTFT: 30 * ms, Interval: 9 * ms,
		PerEvent: 2, SeparateFinish: true}), load: loadgen.OfferedLoad{Concurrency: 2, Ramp: 7 * ms}},
	"faults": {script: faulty, load: loadgen.OfferedLoad{Concurrency: 1}},
	"retries": {script: faulty, load: loadgen.OfferedLoad{Concurrency: 1},
		edit: func(t *loadgen.Tenant) { t.Retries = 2 }},
	"objectives": {script: growing, slots: 2, load: loadgen.OfferedLoad{Schedule: loadgen.Constant(3)},
		edit: func(t *loadgen.Tenant) { t.SLO = loadgen.RequestSLO{TTFT: 120 * ms, TPOT: 15 * ms} }},
}

// growing has later answers take longer.
func growing(r loadgentest.Request) loadgentest.Reply {
	n := time.Duration(r.N%13) + 1
	return loadgentest.Reply{TTFT: 20*ms + 7*n*ms, Interval: 5*ms + n*ms, Tokens: 5 + r.N%7}
}

// faulty has every second answer go wrong, each in another way.
func faulty(r loadgentest.Request) loadgentest.Reply {
	reply := growing(r)
	faults := []string{"cut", "truncate", "error-object",
		"bad-json", "html", "refuse"}
	switch {
	case r.N%2 == 0:
	case r.N%10 == 9:
		reply.Status = 503
	default:
		reply.Fault, reply.FaultAfter = faults[(r.N/2)%len(faults)], 2
	}
	return reply
}

func main() {
	out := map[string]any{}
	var tests []testing.InternalTest
	for name, of := range runs {
		tests = append(tests, testing.InternalTest{Name: name, F: func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, err := loadgentest.NewServer(loadgentest.Options{Script: of.script, Slots: of.slots, Pipe: true})
				if err != nil {
					t.Fatal(err)
				}
				tenant := loadgen.Tenant{Name: "t", Model: "m", Prompts: loadgen.Texts("hello there"), MaxTokens: 10,
					Requests: 60, Load: of.load, Endpoints: []loadgen.Endpoint{{URL: srv.URL, Dial: srv.Dial}}}
				if of.edit != nil {
					of.edit(&tenant)
				}
				res, err := loadgen.Run(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{tenant}, Seed: 3},
					loadgen.Options{ProcessTimes: true, RunID: name})
				if err != nil {
					t.Fatal(err)
				}
				if err := srv.Close(); err != nil {
					t.Fatal(err)
				}
				data, err := json.Marshal(res.Summary)
				if err != nil {
					t.Fatal(err)
				}
				var of map[string]any
				if err := json.Unmarshal(data, &of); err != nil {
					t.Fatal(err)
				}
				delete(of, "client_health") // of this machine
				out[name] = of
			})
		}})
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr // testing's own words
	tests = append(tests, testing.InternalTest{Name: "print", F: func(t *testing.T) {
		if err := json.NewEncoder(stdout).Encode(out); err != nil {
			t.Fatal(err)
		}
	}})
	testing.Main(func(string, string) (bool, error) { return true, nil }, tests, nil, nil)
}
