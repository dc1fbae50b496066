// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// take notes that a pod runs on the node.
func (n *node) take(p *pod) {
	n.pods = append(n.pods, p)
	made := map[string]int{} // instances that are created when a pod requests them
	for i := range p.held {
		switch h := &p.held[i]; {
		case h.delivery == sharing.DeliveryKAI:
			n.closed = cmp.Or(n.closed, "one on which KAI gives pods parts of GPUs")
		case h.role == roleAmount:
			if name := named(p.namespace, p.name); !slices.Contains(n.opaque[h.resource], name) {
				n.opaque[h.resource] = append(n.opaque[h.resource], name)
			}
		case h.profile == "" || h.mechanism != sharing.MechanismMIG || h.delivery == sharing.DeliveryDRA:
		case h.granted || !strings.HasPrefix(h.resource, migPrefix):
			made[h.profile] += h.gpus
		}
	}
	for profile, k := range made {
		n.instances[profile] += k
	}
}

// placed writes the layouts of the GPUs on which HAMi placed MIG instances.
func (n *node) placed() {
	model := n.model()
	on := map[string][]mig.Instance{}
	for _, p := range n.pods {
		for i := range p.held {
			h := &p.held[i]
			if model == nil || h.size == 0 {
				continue
			}
			if prof, err := model.Profile(h.profile); err == nil {
				on[h.device] = append(on[h.device], mig.Instance{Profile: prof, Busy: true,
					Placement: mig.Placement{Start: h.start, Size: h.size}})
			}
		}
	}
	for _, gpu := range sortedKeys(on) {
		if l := mig.NewLayout(model, on[gpu]...); l.Validate() == nil {
			n.layouts, n.layoutsFrom = append(n.layouts, l.String()), declared("annotations %s of pods", grantHAMiMIG)
		}
	}
}
