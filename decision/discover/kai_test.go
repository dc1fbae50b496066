// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// TestKAI: a share's memory is read, with a warning that KAI may not enforce it; annotations by container are of the mode
// in which the driver does.
func TestKAI(t *testing.T) {
	board := must.Get(sharing.LookupGPU("L4"))(t)
	all, _ := board.Memory.Get()
	fraction, container := `"gpu-fraction":"0.5"`, `"nvidia.com/container.main.gpu-memory.limit":"2000Mi","nvidia.com/container.main.gpu-memory.request":"1000Mi"`
	for _, c := range []struct {
		name, annotation string
		warns            bool
		memory           sharing.Bytes
	}{
		{"a fraction", fraction, true, all / 2},
		{"the driver's", container, false, 2000 * sharing.MiB},
		{"the driver's, in parts of a unit", strings.Replace(container, "2000Mi", "1.5Gi", 1), false, 1536 * sharing.MiB},
		{"the driver's, more than there can be", strings.Replace(container, "2000Mi", "17Ti", 1), false, 1000 * sharing.MiB},
	} {
		pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"t","annotations":{` + c.annotation + `}},"spec":{"nodeName":"n","containers":[{"image":"i"}]},"status":{"phase":"Running"}}`
		d, err := read(t, discover.Options{}, c.name, list(aNode("n", l4+"nvidia.com/gpu.count=1", "", "nvidia.com/gpu=1"), pod))
		if err != nil || len(d.Fleet.Workloads) != 1 || d.Fleet.Workloads[0].Memory.Or(0) != c.memory {
			t.Errorf("%s: %v %+v, want %v", c.name, err, d.Fleet, c.memory)
		}
		if f := found(d, "kai-memory"); (f != nil) != c.warns || f != nil && f.Object != "pool l4" {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
