// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// resolve sets a pod's holdings: its grant where one is recorded, else its request.
func (b *build) resolve(p *pod) {
	n := b.byName[p.node]
	asked := b.asked(p, n)
	p.held = b.granted(p, n, asked)
	if p.held == nil {
		p.held = asked
	}
	more := append(b.kaiHoldings(p), b.claimed(p, n)...)
	p.held = append(p.held, more...)
	p.signature = signature(append(asked, more...))
	p.ask = summary(p.held)
}

// signature distinguishes pods of one owner by their requests, whatever devices they were given.
func signature(all []holding) string {
	var parts []string
	for _, h := range all {
		parts = append(parts, fmt.Sprint(h.gpus, "|", h.resource, "|", h.profile, "|", h.memory, "|", h.percent, "|", h.cores,
			"|", h.fraction))
	}
	slices.Sort(parts)
	return strings.Join(parts, "+")
}

// summary puts a pod's holdings into one, as a fleet has them: the GPUs, and the most that it has of one of them.
func summary(held []holding) (a ask) {
	devices, cores := map[string]bool{}, map[string]int{}
	for _, h := range held {
		a.resource, a.delivery = cmp.Or(a.resource, h.resource), cmp.Or(a.delivery, h.delivery)
		if larger(h.profile, a.profile) {
			a.profile = h.profile
		}
		switch {
		case h.profile != "" || h.device == "":
			a.gpus += h.gpus
		case !devices[h.device]:
			a.gpus++
			devices[h.device] = true
		}
		cores[h.device] += h.cores
		if h.device == "" {
			cores[""] = max(a.cores, h.cores)
		}
		a.cores = min(100, max(a.cores, cores[h.device]))
	}
	return a
}

// mostOf returns the most memory that a pod has of one GPU, and the holding with it; 0 where none states it.
func (p *pod) mostOf(total sharing.Bytes) (most sharing.Bytes, by *holding) {
	sums := map[string]sharing.Bytes{}
	for i := range p.held {
		h := &p.held[i]
		v := h.bytes(total)
		if h.device != "" && h.profile == "" {
			sums[h.device] += v
			v = sums[h.device]
		}
		if v > most {
			most, by = v, h
		}
	}
	return most, by
}

// asked returns the requests of a pod's containers, and those of an init container that exceed the others'.
func (b *build) asked(p *pod, n *node) []holding {
	var all []holding
	total := map[string]int{}
	key := func(h *holding) string { return h.resource + " " + h.profile }
	for _, init := range []bool{false, true} {
		for i := range p.wants {
			if p.wants[i].init != init {
				continue
			}
			for _, h := range b.container(p, &p.wants[i], n) {
				if init {
					h.gpus -= total[key(&h)]
				}
				if h.gpus > 0 {
					total[key(&h)] += h.gpus
					all = append(all, h)
				}
			}
		}
	}
	other := func(h holding) bool { return h.role == roleAmount && !gpuWord.MatchString(h.resource) }
	if slices.ContainsFunc(all, func(h holding) bool { return !other(h) }) {
		all = slices.DeleteFunc(all, other) // of a pod with GPUs it is another device
	}
	return all
}

// container reads the requests of one container on a node, which may be nil.
func (b *build) container(p *pod, w *wanted, n *node) (all []holding) {
	cards := holding{container: w.container}
	amounts := map[string]holding{} // by the domain of the resource: its resources speak of the same share
	slices := map[string]holding{}  // likewise, by profile
	for _, key := range sortedKeys(w.amounts) {
		v := w.amounts[key]
		if p.extended[key] {
			continue // by a claim
		}
		u, byClass := b.classUse(key)
		if !byClass {
			u = b.use(key, n)
		}
		one := holding{use: u, gpus: v, container: w.container, resource: key}
		switch u.role {
		case roleCount:
			cards.gpus, cards.resource, cards.use = cards.gpus+v, key, u
		case roleMemory:
			cards.memory, cards.delivery = sharing.Bytes(v)*sharing.MiB, u.delivery
		case rolePercent:
			cards.percent, cards.delivery = v, u.delivery
		case roleCores:
			cards.cores, cards.delivery = min(v, 100), u.delivery
		case roleMilli:
			one.gpus = (v + 999) / 1000
			all = append(all, one)
		case roleMIG:
			if v > slices[u.profile].gpus {
				slices[u.profile] = one
			}
		case roleWhole, roleVGPU, roleSlice:
			one.memory = u.memory
			all = append(all, one)
		case roleAmount:
			domain, _, _ := strings.Cut(key, "/")
			h := b.amount(one, key, v, n)
			if had, ok := amounts[domain]; ok {
				h.gpus, h.memory = max(h.gpus, had.gpus), max(h.memory, had.memory)
			}
			amounts[domain] = h
		}
	}
	// HAMi gives a card to a container that requests only memory, and all of a card to one that requests none.
	if cards.gpus == 0 && (cards.memory > 0 || cards.percent > 0) {
		cards.gpus, cards.resource = 1, "nvidia.com/gpumem"
	}
	if hami := cards.delivery == sharing.DeliveryHAMi || cards.delivery == sharing.DeliveryVolcano; hami &&
		cards.memory == 0 && cards.percent == 0 {
		cards.percent = 100
	}
	if cards.gpus > 0 {
		all = append(all, cards)
	}
	for _, profile := range sortedKeys(slices) {
		all = append(all, slices[profile])
	}
	for _, domain := range sortedKeys(amounts) {
		all = append(all, amounts[domain])
	}
	return all
}

// amount reads a part of a node's amount of a resource that is not understood. It counts as the largest number of GPUs
// that it can lie on; memory counts as one GPU's as far as it fits.
func (b *build) amount(h holding, key string, v int, n *node) holding {
	if n == nil || n.gpus == 0 {
		h.gpus = 1
		return h
	}
	h.gpus = min(v, n.gpus)
	switch offered := n.offers[key]; {
	case offered == 0:
	case wordOf(key) == roleMemory && n.gpu != nil:
		h.gpus = min(n.gpus, (v*n.gpus+offered-1)/offered)
		all := int64(n.gpus) * n.memory().MiB()
		h.memory = sharing.Bytes(all*int64(v)/int64(offered*h.gpus)) * sharing.MiB
	case offered <= n.gpus:
		h.mechanism = sharing.MechanismExclusive
	}
	return h
}

// claimed returns the devices that a pod's claims were given, or request. An unknown claim counts as a GPU on a
// node that the driver serves.
func (b *build) claimed(p *pod, n *node) (all []holding) {
	for _, c := range p.claims {
		k := cmp.Or(b.c.claims[c.claim], b.c.templates[c.template])
		switch {
		case k != nil:
			all = append(all, b.claimHoldings(k)...)
		case n != nil && len(n.devices) > 0 && p.running:
			name := cmp.Or(c.claim, c.template)
			all = append(all, holding{use: use{role: roleAmount, delivery: sharing.DeliveryDRA,
				mechanism: sharing.MechanismExclusive}, gpus: 1, resource: "ResourceClaim " + name})
		}
	}
	return all
}

func (b *build) claimHoldings(k *claim) (all []holding) {
	base := holding{use: use{role: roleCount, delivery: sharing.DeliveryDRA, mechanism: sharing.MechanismExclusive},
		gpus: 1, resource: "ResourceClaim"}
	strategy := k.strategy
	for _, class := range k.classes {
		strategy = cmp.Or(strategy, b.c.classes[class].strategy)
	}
	add := func(h holding, several bool) {
		switch {
		case strategy == "MPS" && h.mechanism == sharing.MechanismMIG:
			h.mechanism = sharing.MechanismMIGWithMPS
		case strategy == "MPS":
			h.mechanism = sharing.MechanismMPS
		case h.mechanism != sharing.MechanismMIG && several:
			h.mechanism = sharing.MechanismTimeSlicing
		}
		all = append(all, h)
	}
	if len(k.allocated) == 0 && !k.elsewhere {
		for _, class := range k.classes {
			h := base
			_, known := b.c.classes[class]
			switch kind := b.c.classKind(class); {
			case kind == "mig":
				h.mechanism = sharing.MechanismMIG
			case kind == "" && (known || !gpuWord.MatchString(class)):
				continue
			}
			h.memory = k.memory
			add(h, k.pods > 1)
		}
		return all
	}
	for _, a := range k.allocated {
		h, d := base, b.device(a.deviceID)
		several := k.pods > 1 || b.heldBy[a.deviceID] > 1
		h.granted = true
		if d == nil {
			h.device = a.pool + "/" + a.device
			add(h, several)
			continue
		}
		h.device = b.gpuOf(d)
		if d.kind == "mig" {
			h.mechanism, h.profile = sharing.MechanismMIG, d.profile
		}
		consumed := cmp.Or(a.memory, k.memory)
		part := d.AllowMultipleAllocations && (consumed == 0 || consumed < d.memory) // others may consume the rest
		if part {
			h.memory = consumed
		}
		add(h, several || part)
	}
	return all
}

// mechanisms are those by which a pod has its GPUs on a node, which share before those that do not.
func (b *build) mechanisms(p *pod, n *node) (out []sharing.Mechanism) {
	for i := range p.held {
		m := p.held[i].mechanism
		switch {
		case m != sharing.MechanismNone:
		case p.held[i].profile != "" || n.single != "" && n.inMIG > 0:
			m = sharing.MechanismMIG
		default:
			m = n.mechanism
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		out = append(out, n.mechanism)
	}
	if i := slices.Index(out, sharing.MechanismExclusive); i >= 0 {
		out = append(slices.Delete(out, i, i+1), sharing.MechanismExclusive)
	}
	return out
}
