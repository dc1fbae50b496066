// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"log"
	"os"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/report"
)

// Three runs of each cannot show a difference at 5%, however far apart they are.
func ExampleCompare() {
	c, err := report.Compare("ttft_ms.p99", []float64{50, 51, 52}, []float64{90, 91, 92}, report.CompareOptions{})
	fmt.Println(c.Claim, c.Reasons, err)
	c, err = report.Compare("ttft_ms.p99", []float64{50, 51, 52, 53}, []float64{90, 91, 92, 93}, report.CompareOptions{})
	fmt.Printf("%v by %.0f ms (p %.3f) %v\n", c.Claim, c.Shift, c.P.Or(1), err)
	// Output:
	// unsupported [3 and 3 values cannot show a difference at level 0.05: the least possible p is 0.1 (use at least 4 of each)] <nil>
	// higher by 40 ms (p 0.029) <nil>
}

// The loss of a tenant next to a neighbour: its figures co-located over those isolated.
func ExampleWriteInterference() {
	run := func(scenario string, tpot float64, tenants ...string) *loadgen.Result {
		s := loadgen.Summary{RunID: scenario, Scenario: scenario, Basis: "measured"}
		s.Complete, s.ClientHealth.Valid = true, true
		for _, name := range tenants {
			t := loadgen.TenantSummary{Name: name, Load: "closed loop, concurrency 8"}
			t.TPOT = loadgen.Figures{Count: 500, P50: loadgen.Millis(tpot), P99: loadgen.Millis(2 * tpot)}
			s.Tenants = append(s.Tenants, t)
		}
		return &loadgen.Result{Summary: s}
	}
	results := []*loadgen.Result{run("solo", 21, "chat"), run("mps", 31.5, "chat", "batch")}
	if err := report.WriteInterference(os.Stdout, results); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Co-located relative to isolated (ratio of medians; with a 95% interval for repeated runs)
	// tenant  scenario  load      TTFT P99  TPOT P50  TPOT P99  e2e P50  e2e P99  output
	// chat    mps       16 users  -         1.50×     1.50×     -        -        -
}
