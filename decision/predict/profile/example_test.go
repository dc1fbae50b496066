// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// measured is a file of rows that an H200 gave.
const measured = "../testdata/h200-colocation.json"

// A profile is found by the workload that was measured: the server, and the load that its clients put on it.
func ExampleProfiles_Solo() {
	profiles, err := profile.LoadProfiles(measured)
	if err != nil {
		log.Fatal(err)
	}
	chat, load := profile.Server{Model: "8b"}, profile.Load{Concurrency: 4, Prompt: 128, Output: 64}
	solo, err := profiles.Solo(chat, load)
	if err != nil {
		log.Fatal(err)
	}
	for m, ms := range solo.TimeSlicing.All() {
		if mps, ok := solo.MPS.Metric(m); ok && m <= profile.MetricTTFTP99 {
			fmt.Printf("%s: %.1f ms, under MPS %.1f ms\n", m.Title(), ms, mps)
		}
	}
	load.Concurrency = 64
	_, err = profiles.Solo(chat, load)
	fmt.Println(errors.Is(err, profile.ErrNoProfile), err)
	// Output:
	// TPOT P50: 7.4 ms, under MPS 7.9 ms
	// TPOT P99: 7.7 ms, under MPS 8.3 ms
	// TTFT P50: 36.5 ms, under MPS 37.2 ms
	// TTFT P99: 49.3 ms, under MPS 46.9 ms
	// true predict: no profile of the isolated workload: {"model":"8b"} with 64 clients, 128 in, 64 out
}

// What did four servers on one GPU do to one another, against one that has it alone?
func ExampleRows_Cases() {
	rows, err := profile.LoadRows(measured)
	if err != nil {
		log.Fatal(err)
	}
	profiles, err := profile.NewProfiles(rows.Profiles()...)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range rows.Cases() {
		r := &c.Rows[0]
		solo, err := profiles.Solo(r.Server, r.Load)
		if err != nil || r.Tenants < 4 {
			continue
		}
		alone, _ := solo.Uncontended().Metric(profile.MetricTPOTP50)
		shared, _ := r.Metric(profile.MetricTPOTP50)
		fmt.Printf("%s, %s: %.1f ms a token, alone %.1f\n", r.Case, r.Mechanism, shared, alone)
	}
	// Output:
	// quad 1b c4, time-slicing: 8.3 ms a token, alone 2.4
	// quad 1b c1, time-slicing: 7.4 ms a token, alone 1.8
	// quad 1b c4, mps: 4.7 ms a token, alone 2.4
	// quad 1b c1, mps: 4.2 ms a token, alone 1.8
}

// A prediction keeps an objective, misses it, or only a measurement can tell.
func ExampleInterval_Below() {
	var slo profile.SLO
	slo.TPOTP50 = sharing.Some(profile.Duration(10 * time.Millisecond))
	tpot := map[string]profile.Interval{"beside a 1B": {Value: 8.2, Low: 7.4, High: 9.1}, "beside an 8B": {Value: 10.8, Low: 9.6, High: 12.1}}
	for m, limit := range slo.Limits() {
		for _, where := range []string{"beside a 1B", "beside an 8B"} {
			fmt.Println(m, "at most", limit, where+":", tpot[where].Below(1e3*limit.Seconds()))
		}
	}
	// Output:
	// tpot_ms_p50 at most 10ms beside a 1B: yes
	// tpot_ms_p50 at most 10ms beside an 8B: unknown
}
