// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// checkHeld compares the devices that pods hold with their requests and with the form that a fleet has for them.
func (b *build) checkHeld() {
	for _, w := range b.workloads {
		for _, p := range w.pods {
			object := "pod " + named(p.namespace, p.name)
			kinds := map[string]int{}
			for i := range p.held {
				h := &p.held[i]
				kinds[h.kind()] += h.gpus
				if h.request > 0 && h.request < h.memory {
					b.find("limit-beyond-request", sharing.SeverityLow, object, h.resource,
						"KAI places it by a request of %v, and it may take up to its limit of %v", h.request, h.memory)
				}
				if p.at == nil && p.running && p.node != "" && h.role == roleAmount && h.delivery == sharing.DeliveryBare {
					b.find("resource-not-understood", sharing.SeverityMedium, object, "resource "+h.resource,
						"holds %s, which is not understood, on node %s, whose GPUs are not known", h.resource, p.node)
				}
			}
			if len(kinds) > 1 {
				var parts []string
				for _, kind := range sortedKeys(kinds) {
					parts = append(parts, fmt.Sprintf("%d x %s", kinds[kind], kind))
				}
				b.find("holdings-differ", sharing.SeverityLow, object, p.held[0].resource,
					"holds %s: the fleet has one kind for all of its GPUs, the largest", strings.Join(parts, ", "))
			}
			for _, key := range []string{"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"} {
				if text := p.notes[key]; text != "" {
					b.find("annotation-not-read", sharing.SeverityMedium, object, "annotation "+key,
						"%s: %.20q is an annotation, and HAMi reads it as a limit of a container's resources only", key, text)
				}
			}
			if p.node == "" {
				b.checkWaiting(p, object)
			}
		}
	}
	b.checkClaims()
}

// checkClaims reports pods that only observe devices, and classes that share the device of a claim with one pod.
func (b *build) checkClaims() {
	for _, p := range b.c.users {
		for _, c := range p.claims {
			k := cmp.Or(b.c.claims[c.claim], &claim{})
			if k.observes {
				b.find("admin-access", sharing.SeverityInfo, "pod "+named(p.namespace, p.name), "ResourceClaim "+c.claim,
					"reaches devices with adminAccess, which others hold: it takes none")
			}
			for _, class := range k.classes {
				if s := b.c.classes[class].strategy; s != "" && k.pods <= 1 {
					b.find("class-shares", sharing.SeverityInfo, "claim "+c.claim, "DeviceClass "+class,
						"its class %s asks for %s, and one pod holds the claim", class, s)
				}
			}
		}
	}
}

// kind describes each device of a holding.
func (h *holding) kind() string {
	switch {
	case h.profile != "":
		return "mig " + h.profile
	case h.memory > 0:
		return h.memory.String()
	}
	return "a GPU"
}

// checkWaiting reports a pod that waits for HAMi or Volcano and for which no registered card has memory, as far as is
// known: holdings of unknown cards are not subtracted.
func (b *build) checkWaiting(p *pod, object string) {
	for i := range p.held {
		h := &p.held[i]
		most, need := sharing.Bytes(0), mostMemory
		for _, n := range b.nodes {
			for k := range n.registered {
				card := &n.registered[k]
				left := sharing.Bytes(card.Memory) * sharing.MiB
				if n.registry != h.delivery || h.profile != "" || n.apartGPUs[card.ID] != "" {
					continue
				}
				need = min(need, h.bytes(left))
				for _, q := range n.pods {
					for m := range q.held {
						if q.held[m].device == card.ID {
							left -= q.held[m].bytes(n.memory())
						}
					}
				}
				most = max(most, left)
			}
		}
		if need > most && need < mostMemory {
			b.find("no-room", sharing.SeverityMedium, object, h.resource,
				"waits for %v of one card's memory, and the most that is free of one is %v", need, most)
			return
		}
	}
}
