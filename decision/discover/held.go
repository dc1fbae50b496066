// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// checkHeld compares the devices that pods hold with their requests and with the form that a fleet has for them.
func (b *build) checkHeld() {
	for _, w := range b.workloads {
		for _, p := range w.pods {
			object := "pod " + named(p.namespace, p.name)
			if text := p.differs(); text != "" {
				b.find("holdings-differ", sharing.SeverityLow, object, p.held[0].resource,
					"holds %s: the fleet has one kind for all of its GPUs, the largest", text)
			}
			b.checkGranted(p, object)
			if p.at == nil || !p.running {
				b.checkWaiting(p, object)
			}
			for i := range p.held {
				if h := &p.held[i]; p.at == nil && p.running && p.node != "" && h.role == roleAmount &&
					h.delivery == sharing.DeliveryBare {
					b.find("resource-not-understood", sharing.SeverityMedium, object, "resource "+h.resource,
						"holds %s, which is not understood, on node %s, whose GPUs are not known", h.resource, p.node)
				}
			}
		}
	}
	b.checkClaims()
}

// differs writes a pod's holdings where they differ between its GPUs.
func (p *pod) differs() string {
	kinds, devices := map[string]bool{}, map[string]int{}
	var parts []string
	for i := range p.held {
		h := &p.held[i]
		text := strings.TrimSpace(fmt.Sprintf("%s %s", h.mechanism, h.profile))
		if h.mechanism == sharing.MechanismNone {
			text = h.profile
		}
		text = strings.TrimSpace(text + " " + map[bool]string{true: fmt.Sprint(h.memory)}[h.memory > 0])
		kinds[text] = true
		if h.device != "" && h.profile == "" {
			devices[h.device]++
		}
		if text == "" {
			text = h.resource
		}
		if h.device != "" {
			text += " of " + h.device
		}
		if h.container != "" {
			text += " (" + h.container + ")"
		}
		parts = append(parts, fmt.Sprintf("%d x %s", h.gpus, text))
	}
	if len(kinds) < 2 && !slices.ContainsFunc(sortedKeys(devices), func(d string) bool { return devices[d] > 1 }) {
		return ""
	}
	return plaintext.Some(parts, mostNames, len(parts))
}

// checkGranted reports memory requests in annotations, which no component reads, and limits above the request.
func (b *build) checkGranted(p *pod, object string) {
	given := sharing.Bytes(0)
	for i := range p.held {
		if p.held[i].granted && p.held[i].delivery != sharing.DeliveryDRA {
			given += p.held[i].memory
		}
	}
	for _, key := range []string{"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"} {
		if text := p.notes[key]; text != "" {
			has := ""
			if given > 0 {
				has = fmt.Sprintf("; it was given %v", given)
			}
			b.find("annotation-not-read", sharing.SeverityMedium, object, "annotation "+key,
				"%s: %.20q is an annotation, and HAMi reads it as a limit of a container's resources only%s", key, text, has)
			return
		}
	}
	for i := range p.held {
		if h := &p.held[i]; h.request > 0 && h.request < h.memory {
			b.find("limit-beyond-request", sharing.SeverityLow, object, h.resource,
				"KAI places it by a request of %v, and it may take up to its limit of %v", h.request, h.memory)
			return
		}
	}
}

// checkWaiting finds pods that wait for HAMi or Volcano and for which no card has room, as far as is known.
func (b *build) checkWaiting(p *pod, object string) {
	if p.node != "" {
		return
	}
	for i := range p.held {
		h := &p.held[i]
		if h.delivery != sharing.DeliveryHAMi && h.delivery != sharing.DeliveryVolcano || h.profile != "" {
			continue
		}
		most, need, cards := sharing.Bytes(0), sharing.Bytes(0), 0
		for _, n := range b.nodes {
			if n.registry != h.delivery {
				continue
			}
			free, all := n.roomiest()
			most, cards = max(most, free), cards+len(n.registered)
			if v := h.bytes(all); need == 0 || v < need {
				need = v
			}
		}
		if cards > 0 && need > most {
			b.find("no-room", sharing.SeverityMedium, object, h.resource,
				"waits for %v of one card's memory, and the most that is free of one is %v: pods are given the rest", need, most)
			return
		}
	}
}

// roomiest is the most memory that is free of one of a node's registered cards, and that of the largest. What pods hold
// of a card that is not known counts for none.
func (n *node) roomiest() (free, all sharing.Bytes) {
	used := map[string]sharing.Bytes{}
	for _, p := range n.pods {
		for i := range p.held {
			if h := &p.held[i]; h.device != "" {
				used[h.device] += h.bytes(n.memory())
			}
		}
	}
	for i := range n.registered {
		d := &n.registered[i]
		total := sharing.Bytes(d.Memory) * sharing.MiB
		all = max(all, total)
		if n.apartGPUs[d.ID] == "" {
			free = max(free, total-min(total, used[d.ID]))
		}
	}
	return free, all
}

// checkClaims reports pods that only observe devices, and classes that share devices of a claim with one pod.
func (b *build) checkClaims() {
	for _, p := range b.c.users {
		for _, c := range p.claims {
			k := b.c.claims[c.claim]
			if k == nil {
				continue
			}
			if k.observes {
				b.find("admin-access", sharing.SeverityInfo, "pod "+named(p.namespace, p.name), "ResourceClaim "+c.claim,
					"reaches devices with adminAccess, which others hold: it takes none")
			}
			for _, class := range k.classes {
				if s := b.c.classes[class].strategy; s != "" && k.pods <= 1 {
					b.find("class-shares", sharing.SeverityInfo, "claim "+c.claim, "DeviceClass "+class,
						"its class %s asks for %s (%s), and one pod holds the claim", class, s, strategyText[s])
				}
			}
		}
	}
}

var strategyText = map[string]string{"TimeSlicing": "time-slicing", "MPS": "MPS"}
