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
	layouts   = `version: v1
mig-configs:
  all-disabled:
  - {devices: all, mig-enabled: false}
  small:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  impossible:
  - {devices: all, mig-enabled: true, mig-devices: {4g.40gb: 2}}
`
)

// TestDeclaredConfiguration: what the device plugin's and mig-parted's ConfigMaps say is read, and a layout that a
// node's GPU cannot have is found.
func TestDeclaredConfiguration(t *testing.T) {
	const chosen = "nvidia.com/device-plugin.config=any "
	turns := aConfigMap("plugin", "any", fourTurns)
	parted := aConfigMap("parted", "config.yaml", layouts)
	mixed := a100 + "nvidia.com/gpu.count=2 nvidia.com/mig.strategy=mixed nvidia.com/mig.config.state=success nvidia.com/mig.config="
	for _, c := range []struct {
		name, items, code, message string // no code: nothing about configurations
		gpus                       int
	}{
		{"in force", aNode("n", l4+chosen+"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=time-slicing nvidia.com/gpu.count=2", "", "nvidia.com/gpu=8") + turns, "", "", 2},
		{"without labels of GPU Feature Discovery", aNode("n", chosen+"node.kubernetes.io/instance-type=p4d.24xlarge", "", "nvidia.com/gpu=32") + turns, "", "", 8},
		{"two of a name", aNode("n", l4+chosen, "", "nvidia.com/gpu=8") + turns + aConfigMap("other", "any", fourMPS), "", "", 8},

		{"layout in force", aNode("n", mixed+"small", "", "nvidia.com/mig-1g.10gb=14") + parted, "", "", 2},
		{"a layout that cannot be", aNode("n", mixed+"impossible", "", "nvidia.com/gpu=2") + parted, "mig-config-impossible", "4g.40gb", 2},
		{"unreadable", aNode("n", mixed+"small", "", "nvidia.com/mig-1g.10gb=14") + aConfigMap("parted", "config.yaml", "version: v1\nmig-configs: {small: 7}"), "config-unreadable", "mig-configs.small", 2},
	} {
		d, err := read(t, discover.Options{}, c.name, `{"kind":"List","items":[`+c.items+`]}`)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := gpus(d); got != c.gpus {
			t.Errorf("%s: %d GPUs, want %d", c.name, got, c.gpus)
		}
		n := 0
		for _, f := range d.Findings {
			if strings.HasPrefix(f.Code, "config-") || f.Code == "mig-config-impossible" {
				n++
				if f.Code != c.code || !strings.Contains(f.Message, c.message) || f.Source == "" || f.Severity == sharing.Severity(0) {
					t.Errorf("%s: %+v", c.name, f)
				}
			}
		}
		if want := min(1, len(c.code)); n != want {
			t.Errorf("%s: %d findings about configurations, want %d: %+v", c.name, n, want, d.Findings)
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
