package decision

import (
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

// TestSmallBesideLarge: what fills more than half of a GPU is not kept from a neighbour that fits the rest of it.
func TestSmallBesideLarge(t *testing.T) {
	t.Parallel()
	r := decide(t, &Fleet{Version: "v1", Pools: []Pool{{Name: "l4", GPU: "L4", Count: 4}}, Workloads: []Workload{
		{Name: "large", Kind: KindTraining, Replicas: Replicas{Max: 2}, Memory: Some(14 * sharing.GiB), GPUBusy: Some(0.5),
			Tenant: "a"},
		{Name: "small", Kind: KindNotebook, Replicas: Replicas{Max: 2}, Memory: Some(3 * sharing.GiB), GPUBusy: Some(0.05),
			Tenant: "a"},
	}})
	if r.Pools[0].GPUsNeeded != 2 {
		t.Errorf("%d GPUs, not 2", r.Pools[0].GPUsNeeded)
	}
	for i := range r.Decisions {
		if d := &r.Decisions[i]; d.Mechanism == sharing.MechanismExclusive || d.Status != StatusDecided {
			t.Errorf("%s: %s, %s: %s", d.Workload, d.Mechanism, d.Status, d.Why)
		}
	}
}
