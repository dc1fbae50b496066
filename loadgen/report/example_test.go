package report_test

import (
	"fmt"

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

// What a tenant loses beside a neighbour: its figures together over those alone.
func ExampleSlowdowns() {
	summary := func(id string, tpot float64, tenants ...string) *loadgen.Summary {
		s := &loadgen.Summary{RunID: id, Basis: "measured"}
		for _, name := range tenants {
			t := loadgen.TenantSummary{Name: name}
			t.TPOT = loadgen.Figures{Count: 500, P50: loadgen.Millis(tpot)}
			s.Tenants = append(s.Tenants, t)
		}
		return s
	}
	together := summary("both", 31.5, "chat", "batch")
	for _, s := range report.Slowdowns(together, []*loadgen.Summary{summary("alone", 21, "chat")}) {
		fmt.Println(s.Tenant, "TPOT P50", s.TPOTP50, "times, TTFT P50", s.TTFTP50)
	}
	// Output: chat TPOT P50 1.5 times, TTFT P50 -
}
