// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"testing"

	"github.com/cotenant/cotenant/internal/nightly"
)

// TestManyTenants guards against work for each pair of tenants: 20,000 tenants make 400 million pairs.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	n := nightly.Cases(4_000, 20_000)
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: 30_000}}}
	for i := range n {
		w := online
		w.Name, w.Tenant, w.Replicas.Max = fmt.Sprintf("w%d", i), fmt.Sprintf("t%d", i), 1
		f.Workloads = append(f.Workloads, w)
	}
	r := decide(t, f)
	if r.Totals.GPUsAfter != n {
		t.Errorf("%d GPUs for %d tenants that trust nobody", r.Totals.GPUsAfter, n)
	}
}
