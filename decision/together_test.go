package decision

import (
	"strings"
	"testing"
)

// TestGPUsForAllThatLackThem: what each alone lacks is not what they lack together.
func TestGPUsForAllThatLackThem(t *testing.T) {
	t.Parallel()
	f := sevenTenants(0.17)
	r := decide(t, f)
	if r.MoreGPUs == nil || *r.MoreGPUs != (MoreGPUs{"a100", 2}) {
		t.Fatalf("%+v", r.MoreGPUs)
	}
	if text := strings.Join(textOf(t, r, TextOptions{}), " "); !strings.Contains(text, "2 GPUs more in a100 would hold all that lack room") {
		t.Error(text)
	}
	for _, d := range r.Decisions {
		if d.MoreGPUs != nil && d.MoreGPUs.GPUs != 1 {
			t.Errorf("%s alone lacks %d", d.Workload, d.MoreGPUs.GPUs)
		}
	}
	f.Pools[0].Count += 2
	if r := decide(t, f); r.MoreGPUs != nil || r.Totals.Unplaced > 0 {
		t.Errorf("with them: %+v, %d unplaced", r.MoreGPUs, r.Totals.Unplaced)
	}
}
