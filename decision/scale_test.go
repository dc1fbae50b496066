package decision

import (
	"fmt"
	"testing"
)

// TestManyTenants keeps what is worked out per pair of tenants from coming
// back: 20,000 tenants would be 400 million pairs.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: 30_000}}}
	for i := range 20_000 {
		w := online
		w.Name, w.Tenant, w.Replicas.Max = fmt.Sprintf("w%d", i), fmt.Sprintf("t%d", i), 1
		f.Workloads = append(f.Workloads, w)
	}
	r := decide(t, f)
	if r.Totals.GPUsAfter != 20_000 {
		t.Errorf("%d GPUs for 20,000 tenants that trust nobody", r.Totals.GPUsAfter)
	}
}
