// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
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
			if diff := cmp.Diff(want, p.Limits) + cmp.Diff(map[string]string{prefix + "vgpu-mode": c.mode}, p.Annotations); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
	}
}
