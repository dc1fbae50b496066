// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// A figure that was neither measured nor predicted is "-" on the page.
func TestPageOfMissingFigures(t *testing.T) {
	t.Parallel()
	rep := &Report{Rows: []reportRow{
		{Load: "silent", Case: "c", Mode: sharing.MechanismMPS, Tenants: 2},
		{Load: "heard", Case: "c", Mode: sharing.MechanismMPS, Tenants: 2,
			Actual:    map[profile.Metric]float64{profile.MetricTPOTP50: 20},
			Predicted: map[profile.Metric]profile.Interval{profile.MetricTPOTP50: {Value: 10, Low: 5, High: 15}}},
	}}
	p := rep.page()
	slowdowns, figures := p.Sections[0].Tables[0].Rows, p.Sections[3].Tables[0].Rows
	for i, want := range [][]string{{"silent", "c", "mps", "-", "-", "-"}, {"heard", "c", "mps", "-", "-", "20.0"}} {
		if !slices.Equal(slowdowns[i], want) {
			t.Errorf("%q, want %q", slowdowns[i], want)
		}
	}
	if want := []string{"c", "mps", "heard", "TPOT P50", "10.0 (5.00 to 15.0)", "20.0", "-", "-", "0"}; len(figures) != 1 || !slices.Equal(figures[0], want) {
		t.Errorf("%q, want %q", figures, want)
	}
}
