// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name          string
		m             member
		hami, volcano map[string]string
		mode          string
	}{
		{"no limits", member{Decision: &decision.Decision{Mechanism: sharing.MechanismHAMi}}, map[string]string{"nvidia.com/gpu": "1"},
			map[string]string{"volcano.sh/vgpu-number": "1"}, "hami-core"},
		{"limits", member{Decision: &decision.Decision{Mechanism: sharing.MechanismHAMiWithMPS, GPUs: 2}, memory: 3001 * sharing.MiB, percent: 29.5},
			map[string]string{"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3001", "nvidia.com/gpucores": "30"},
			map[string]string{"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "3001", "volcano.sh/vgpu-cores": "30"}, "mps"},
	} {
		for prefix, want := range map[string]map[string]string{"nvidia.com/": c.hami, "volcano.sh/": c.volcano} {
			var p pod
			c.m.share(&p, map[string]sharing.Delivery{"nvidia.com/": sharing.DeliveryHAMi, "volcano.sh/": sharing.DeliveryVolcano}[prefix])
			if diff := cmp.Diff(want, p.limits) + cmp.Diff(map[string]string{prefix + "vgpu-mode": c.mode}, p.annotations); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
	}
}

// pluginRequest holds the values that the schedulers of HAMi (pkg/device/nvidia/device.go, GenerateResourceRequests)
// and of Volcano (its vgpu devices) read from a container: whole numbers only. A missing memory means all of it; 101
// percent means that no percentage was given.
type pluginRequest struct{ cards, memory, percent, cores int }

func readRequest(limits map[string]string, prefix string) (pluginRequest, bool) {
	names := map[string][4]string{
		"nvidia.com/": {"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"},
		"volcano.sh/": {"volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"},
	}[prefix]
	r := pluginRequest{percent: 101}
	for i, into := range []*int{&r.cards, &r.memory, &r.percent, &r.cores} {
		if v, ok := limits[names[i]]; ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				return r, false
			}
			*into = n
		}
	}
	if r.percent == 101 && r.memory == 0 {
		r.percent = 100
	}
	return r, r.cards > 0 && r.cores <= 100
}

// Every document for HAMi and Volcano is one that their schedulers take, in a mode that they have.
func TestHAMiAndVolcanoDocuments(t *testing.T) {
	s := mixed(t)
	s.opts.Deliveries = []sharing.Delivery{sharing.DeliveryHAMi, sharing.DeliveryVolcano}
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]int{}
	for _, f := range folder.Files {
		if !strings.Contains(f.Path, "pods/") {
			continue
		}
		docs, err := strictyaml.Parse(f.Data, strictyaml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			pod := field(d, "spec", "template")
			limits, a := values(field(field(pod, "spec", "containers").Content[0], "resources", "limits")), values(field(pod, "metadata", "annotations"))
			prefix, modes := "nvidia.com/", []string{"hami-core", "mig", "mps"}
			if text(field(pod, "spec", "schedulerName")) == "volcano" {
				prefix, modes = "volcano.sh/", []string{"hami-core", "mig"}
			}
			if _, ok := readRequest(limits, prefix); !ok || !slices.Contains(modes, a[prefix+"vgpu-mode"]) {
				t.Errorf("%s: %v in mode %q", f.Path, limits, a[prefix+"vgpu-mode"])
			}
			read[prefix]++
		}
	}
	if len(read) != 2 {
		t.Errorf("%v", read)
	}
}
