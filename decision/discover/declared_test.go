// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/sharing"
)

func aConfigMap(name, key, text string) string {
	data, _ := json.Marshal(map[string]string{key: text})
	return fmt.Sprintf(`,{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"gpu-operator"},"data":%s}`, name, data)
}

const (
	fourTurns = "version: v1\nflags:\n  migStrategy: none\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
	fourMPS   = "version: v1\nsharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
)

// TestDeclaredConfiguration: replicas in the device plugin's ConfigMap are used where labels give none and all
// configurations of that name agree.
func TestDeclaredConfiguration(t *testing.T) {
	const chosen = "nvidia.com/device-plugin.config=any "
	turns := aConfigMap("plugin", "any", fourTurns)
	for name, c := range map[string]struct {
		items string
		gpus  int
	}{
		"in force": {aNode("n", l4+chosen+"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=time-slicing nvidia.com/gpu.count=2", "", "nvidia.com/gpu=8") + turns, 2},
		"without labels of GPU Feature Discovery": {aNode("n", chosen+"node.kubernetes.io/instance-type=p4d.24xlarge", "", "nvidia.com/gpu=32") + turns, 8},
		"two of a name": {aNode("n", l4+chosen, "", "nvidia.com/gpu=8") + turns + aConfigMap("other", "any", fourMPS), 8},
	} {
		d, err := read(t, discover.Options{}, name, list(c.items))
		if got := gpus(d); err != nil || got != c.gpus {
			t.Errorf("%s: %v, %d GPUs, want %d", name, err, got, c.gpus)
		}
	}
}

// TestDeclaredReplicas: where no label says how many replicas a GPU has, the
// configuration that the node selects does, and stands as the source.
func TestDeclaredReplicas(t *testing.T) {
	d, err := read(t, discover.Options{}, "all", `{"kind":"List","items":[`+
		aNode("n", "nvidia.com/device-plugin.config=any nvidia.com/gpu.product=NVIDIA-L4", "", "nvidia.com/gpu=8")+","+aPod("a", "n", "x=1")+aConfigMap("plugin", "any", fourTurns)+`]}`)
	if err != nil || len(d.Fleet.Pools) != 1 || d.Fleet.Pools[0].Count != 2 || len(d.Fleet.Workloads) != 1 {
		t.Fatalf("%v %+v", err, d.Fleet)
	}
	r := d.Fleet.Workloads[0].Request
	from := d.Provenance["workloads[0].request"]
	if r == nil || r.Mechanism != sharing.MechanismTimeSlicing || r.Replicas != 4 || from.Basis != "declared" || !strings.Contains(from.Source, "ConfigMap gpu-operator/plugin (all: data.any)") {
		t.Errorf("%+v, %v", r, from)
	}
}
