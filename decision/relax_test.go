package decision

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

// sevenTenants of one A100, for each of whom a seventh is likely enough but not
// surely.
func sevenTenants(busy float64) *Fleet {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "a100", GPU: "A100-SXM4-80GB", Count: 1}}}
	for i := range 7 {
		f.Workloads = append(f.Workloads, Workload{Name: fmt.Sprintf("t%d", i), Kind: KindOnlineInference, Replicas: Replicas{Max: 1},
			Memory: Some(7 * sharing.GiB), GPUBusy: Some(busy), Tenant: fmt.Sprintf("t%d", i), Isolation: hard})
	}
	return f
}

func TestLessConfidencePlacesMore(t *testing.T) {
	t.Parallel()
	r := decide(t, sevenTenants(0.17))
	x := r.Relaxed
	if x == nil || x.Confidence != 0.9 || x.Placed != 7 || x.GPUs != 1 || !strings.Contains(x.Settle.Measurement, "slice 1g.10gb") || x.Settle.Workload == "" {
		t.Fatalf("%+v", x)
	}
	decided := 0
	for _, d := range r.Decisions {
		if d.Status == StatusDecided {
			decided++
		}
		if a := d.Relaxed; a == nil || a.Mechanism != sharing.MechanismMIG || a.Profile != "1g.10gb" || a.If != "90% confidence is enough" {
			t.Errorf("%s: %+v", d.Workload, a)
		}
	}
	if decided != 3 {
		t.Errorf("%d decided", decided)
	}
	text := strings.Join(textOf(t, r, TextOptions{}), "\n")
	for _, want := range []string{"or provisional: at 90% confidence 7 of 7 replicas find room, on 1 GPU.", "would do; at 90% confidence mig 1g.10gb on a100"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestLessConfidenceIsNotAlwaysOffered: where all find room, or none more would.
func TestLessConfidenceIsNotAlwaysOffered(t *testing.T) {
	t.Parallel()
	for _, busy := range []float64{0.1, 0.8} {
		if r := decide(t, sevenTenants(busy)); r.Relaxed != nil {
			t.Errorf("%v busy: %+v", busy, r.Relaxed)
		}
	}
}
