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
	fourShares = "version: v1\nflags:\n  migStrategy: none\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
	fourMPS    = "version: v1\nsharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
)

// TestDeclaredConfiguration: replicas in the device plugin's ConfigMap are used where labels give none and all
// configurations of that name agree; settings that the plugin ignores or refuses, or that are not in effect, are found.
func TestDeclaredConfiguration(t *testing.T) {
	const chosen = "nvidia.com/device-plugin.config=any "
	shares, whole := aConfigMap("plugin", "any", fourShares), aNode("n", l4+chosen+"nvidia.com/gpu.count=2", "", "nvidia.com/gpu=2")
	config := func(text string) string { return aConfigMap("plugin", "other", text) }
	for _, c := range []struct {
		name, items, code, message string // no code: nothing about configurations
		gpus                       int
	}{
		{"in force", aNode("n", l4+chosen+"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=time-slicing nvidia.com/gpu.count=2", "", "nvidia.com/gpu=8") + shares, "", "", 2},
		{"without labels of GPU Feature Discovery", aNode("n", chosen+"node.kubernetes.io/instance-type=p4d.24xlarge", "", "nvidia.com/gpu=32") + shares, "", "", 8},
		{"two of a name", aNode("n", l4+chosen, "", "nvidia.com/gpu=8") + shares + aConfigMap("other", "any", fourMPS), "config-not-in-effect", "replicas: 4, by time-slicing; the node offers 1, whole", 8},
		{"not in force", whole + shares, "config-not-in-effect", "replicas: 4, by time-slicing; the node offers 1, whole", 2},
		{"selected, and nowhere", whole + config(fourShares), "config-missing", `selects "any"`, 2},
		{"under flags", aNode("n", l4, "", "nvidia.com/gpu=2") + config(fourShares[:len("version: v1\nflags:\n")]+"  renameByDefault: true\n"+fourShares[len("version: v1\nflags:\n"):]), "config-ignored", "flags.renameByDefault: the plugin ignores it silently (move it into the sharing block)", 2},
		{"a list of devices", aNode("n", l4, "", "nvidia.com/gpu=2") + config(fourShares+"      devices: [\"0\"]\n"), "config-ignored", "sharing.timeSlicing.resources[0].devices", 2},
		{"a misspelled key", aNode("n", l4, "", "nvidia.com/gpu=2") + config(strings.Replace(fourShares, "migStrategy", "migstrategy", 1)), "config-ignored", "flags.migstrategy: the plugin ignores it silently (it knows no such key)", 2},
		{"one replica", aNode("n", l4, "", "nvidia.com/gpu=2") + config(strings.Replace(fourShares, "replicas: 4", "replicas: 1", 1)), "config-refused", "resources[0].replicas: must be 2 or more, not 1", 2},
		{"MIG by MPS", aNode("n", l4, "", "nvidia.com/gpu=2") + config(strings.Replace(fourMPS, "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", 1)), "config-refused", "is not shared by mps", 2},
		{"keys that are known", aNode("n", l4, "", "nvidia.com/gpu=2") + config("version: v1\nflags: {plugin: {deviceListStrategy: [envvar], passDeviceSpecs: true}, gfd: {oneshot: false}}\nimex: {channelIDs: [0]}"), "", "", 2},
	} {
		d, err := read(t, discover.Options{}, c.name, `{"kind":"List","items":[`+c.items+`]}`)
		if got := gpus(d); err != nil || got != c.gpus {
			t.Errorf("%s: %v, %d GPUs, want %d", c.name, err, got, c.gpus)
		}
		n := 0
		for _, f := range d.Findings {
			if strings.HasPrefix(f.Code, "config-") {
				n++
				if f.Code != c.code || !strings.Contains(f.Message, c.message) {
					t.Errorf("%s: %+v", c.name, f)
				}
			}
		}
		if want := min(1, len(c.code)); n != want {
			t.Errorf("%s: %d findings about configurations, want %d: %+v", c.name, n, want, d.Findings)
		}
	}
}

// TestDeclaredReplicas: without a label of the number of replicas it comes from the configuration that the node selects,
// which is named as the source.
func TestDeclaredReplicas(t *testing.T) {
	d, err := read(t, discover.Options{}, "all", `{"kind":"List","items":[`+
		aNode("n", "nvidia.com/device-plugin.config=any nvidia.com/gpu.product=NVIDIA-L4", "", "nvidia.com/gpu=8")+","+aPod("a", "n", "x=1")+aConfigMap("plugin", "any", fourShares)+`]}`)
	if err != nil || len(d.Fleet.Pools) != 1 || d.Fleet.Pools[0].Count != 2 || len(d.Fleet.Workloads) != 1 {
		t.Fatalf("%v %+v", err, d.Fleet)
	}
	r := d.Fleet.Workloads[0].Request
	from := d.Provenance["workloads[0].request"]
	if r == nil || r.Mechanism != sharing.MechanismTimeSlicing || r.Replicas != 4 || from.Basis != "declared" || !strings.Contains(from.Source, "ConfigMap gpu-operator/plugin (all: data.any)") {
		t.Errorf("%+v, %v", r, from)
	}
}
