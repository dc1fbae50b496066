// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"testing"
)

// TestFiguresBelongToAGPU: figures of one GPU are transferred to others, a figure without a GPU leaves the choice among
// several provisional, and work that ends goes to the GPUs on which it costs least to finish.
func TestFiguresBelongToAGPU(t *testing.T) {
	const fleet = `
pools: [{name: t4, gpu: T4, count: 8, price_per_gpu_hour: "0.35 USD"}, {name: h, gpu: H100-80GB, count: 8, price_per_gpu_hour: "2.90 USD"}]
workloads:
  - {name: srv, kind: online-inference, memory: 10GiB, gpu_busy: {on: H100-80GB, mean: 0.01, peak: 0.02}, slo: {tpot_p99: 30ms}, solo: {on: H100-80GB, tpot_p99: 14ms}}
  - {name: fit, kind: training, memory: 12GiB, gpu_busy: 0.95}
`
	for _, c := range []struct{ old, new, srv, fit, status string }{
		{"", "", "h", "h", "decided"},
		{"tpot_p99: 30ms", "tpot_p99: 900ms", "t4", "h", "decided"},
		{"on: H100-80GB, tpot", "tpot", "t4", "h", "provisional"},
		{`"2.90 USD"`, `"9.00 USD"`, "h", "t4", "decided"},
	} {
		r := decideText(t, strings.Replace(fleet, c.old, c.new, 1))
		srv, fit := r.Decision("srv"), r.Decision("fit")
		if srv.Pool != c.srv || fit.Pool != c.fit || srv.Status != Status(c.status) || fit.Status != StatusDecided {
			t.Errorf("%s: srv on %s (%s: %s), fit on %s (%s)", c.new, srv.Pool, srv.Status, srv.Why, fit.Pool, fit.Status)
		}
	}
}
