// SPDX-License-Identifier: Apache-2.0

package decision

import "testing"

// TestNoPlanIsExpectedToMiss: of the experts' fleets no decision's figure lies beyond its limit.
func TestNoPlanIsExpectedToMiss(t *testing.T) {
	for _, c := range decidedCorpus(t) {
		for _, d := range c.result.Decisions {
			for _, k := range d.Consequences {
				latency := k.Metric != "busy %" && k.Metric != "rate %"
				if d.Placed > 0 && latency && k.Limit > 0 && k.Value > k.Limit {
					t.Errorf("%s: %s on %s: %s %v of %v", c.Name, d.Mechanism, d.Pool, k.Metric, k.Value, k.Limit)
				}
			}
		}
	}
}
