// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/discover/internal/hami"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// registers are the annotations of nodes in which device plugins register the GPUs.
var registers = map[sharing.Delivery]string{sharing.DeliveryHAMi: "hami.io/node-nvidia-register",
	sharing.DeliveryVolcano: "volcano.sh/node-vgpu-register"}

// managers are the names of components that hand out GPUs.
var managers = map[sharing.Delivery]string{sharing.DeliveryHAMi: "HAMi", sharing.DeliveryVolcano: "Volcano",
	sharing.DeliveryDRA: "the DRA driver"}

// readManagers finds the components that hand out the node's GPUs.
func (n *node) readManagers(b *build) {
	add := func(d sharing.Delivery, from Provenance) {
		n.managers = append(n.managers, managers[d])
		n.delivery, n.deliveryFrom = d, from
	}
	for _, d := range []sharing.Delivery{sharing.DeliveryHAMi, sharing.DeliveryVolcano} {
		key := registers[d]
		devices, err := hami.ParseRegister(n.meta.Metadata.Annotations[key])
		if err != nil {
			n.find("annotation-unreadable/register", "annotation "+key, key, err)
		}
		if len(devices) > 0 {
			n.registered, n.registry = devices, d
			add(d, declared("annotation %s", key))
		}
	}
	if n.registry == sharing.DeliveryBare && n.offers[resourceVolcano] > 0 {
		n.registry = sharing.DeliveryVolcano
		add(n.registry, declared("resource %s", resourceVolcano))
		key := registers[n.registry]
		n.find("register-missing", "annotation "+key, key)
	}
	plugin := n.offers[resourceGPU] > 0 || n.offers[resourceShared] > 0 ||
		slices.ContainsFunc(sortedKeys(n.offers), func(key string) bool { return strings.HasPrefix(key, migPrefix) })
	if len(n.devices) > 0 {
		add(sharing.DeliveryDRA, declared("ResourceSlice of %s", draDriver))
	}
	if plugin && !slices.Contains(n.managers, "HAMi") {
		d, from := sharing.DeliveryDevicePlugin, declared("resource nvidia.com/*")
		for _, key := range sortedKeys(n.meta.Metadata.Labels) {
			if strings.HasPrefix(key, "nvidia.com/gpu.deploy.") || key == labelMIGState { // of the operator's MIG manager
				d, from = sharing.DeliveryGPUOperator, declared("label %s", key)
				break
			}
		}
		n.managers = append(n.managers, "the device plugin")
		if n.delivery == sharing.DeliveryBare {
			n.delivery, n.deliveryFrom = d, from
		}
	}
}

func (n *node) readRegistered(b *build) {
	n.mechanism, n.mechanismFrom = sharing.MechanismHAMi, n.deliveryFrom
	if n.resource = cmp.Or(n.countName, resourceGPU); n.registry == sharing.DeliveryVolcano {
		n.resource = resourceVolcano
	}
	n.gpus, n.gpusFrom = len(n.registered), n.deliveryFrom
	for _, d := range n.registered {
		n.uuids = append(n.uuids, d.ID)
		n.replicas = max(n.replicas, d.Count)
		switch d.Mode {
		case "mps":
			n.mechanism = sharing.MechanismHAMiWithMPS
		case "mig":
			n.inMIG++
		}
		if known := n.memory(); known > 0 && sharing.Bytes(d.Memory)*sharing.MiB > known+known/12 {
			n.find("memory-oversubscribed/registered", n.deliveryFrom.Source, d.ID,
				sharing.Bytes(d.Memory)*sharing.MiB, n.gpu.Name, known)
		}
	}
	if labelled := count(n.label("nvidia.com/gpu.count")); labelled > 0 && labelled != n.gpus {
		n.find("label-lies/registered", "label nvidia.com/gpu.count", n.gpus, labelled)
	}
}

func (n *node) readMilli(b *build) {
	n.resource, n.gpus, n.gpusFrom = resourceMilli, n.offers[resourceMilli]/1000, derived("resource %s", resourceMilli)
	n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing,
		derived("resource %s, and no label cotenant.dev/mechanism", resourceMilli)
	if text := n.label("cotenant.dev/mechanism"); text != "" {
		m, err := sharing.ParseMechanism(text)
		if err != nil || m == sharing.MechanismNone || layout.Sliced(m) {
			n.find("label-unreadable/mechanism", "label cotenant.dev/mechanism", text)
			return
		}
		n.mechanism, n.mechanismFrom = m, declared("label cotenant.dev/mechanism")
	}
}

func (n *node) readDevices(b *build) {
	gpus := map[string]bool{}
	// A GPU is in MIG mode where it is not offered as a whole, or an instance of it is there: a static one, which has
	// a UUID, or one of those that the driver can make that a claim holds.
	offered, inMIG := map[string]bool{}, map[string]bool{}
	for _, d := range n.devices {
		gpus[b.gpuOf(d)] = true
		offered[b.gpuOf(d)] = offered[b.gpuOf(d)] || d.kind != "mig"
		if n.driver.IsZero() {
			if v, err := sharing.ParseDriver(d.get("driverVersion")); err == nil {
				n.driver, n.driverFrom = v, declared("ResourceSlice attribute driverVersion")
			}
		}
	}
	n.uuids = sortedKeys(gpus)
	n.gpus, n.gpusFrom = len(gpus), declared("ResourceSlice: devices of %s", draDriver)
	n.mechanismFrom = declared("ResourceSlice and ResourceClaims")
	for _, d := range n.devices {
		there := d.kind == "mig" && (d.uuid != "" || b.heldDevices[d])
		if there {
			n.instances[d.profile]++
		}
		if there || d.kind == "mig" && !offered[d.parent] {
			inMIG[d.parent] = true
		}
		n.replicas = max(n.replicas, int(min(d.amount("shares"), mostReplicas)))
		for _, t := range d.Taints {
			if t.Effect == "NoSchedule" || t.Effect == "NoExecute" {
				n.apartGPUs[b.gpuOf(d)] = "tainted " + t.Key
			}
		}
	}
	n.inMIG = len(inMIG)
}

// use reads a resource that a pod asks for, on its node, which may be nil. The zero use means that it is no GPU's.
func (b *build) use(key string, n *node) use {
	if r := b.renamed(key, n); r != roleUnknown {
		return use{role: r, delivery: sharing.DeliveryHAMi}
	}
	u := useOf(key)
	if u.role == roleCount && n != nil && n.registry == sharing.DeliveryHAMi {
		u.delivery = sharing.DeliveryHAMi
	}
	switch {
	case u.role != roleUnknown:
		return u
	// On a node without GPUs, or one that is not known, the name must show that it is a GPU's.
	case n == nil && !gpuWord.MatchString(key) && !b.others[key]:
		return use{}
	}
	return use{role: roleAmount, mechanism: sharing.MechanismTimeSlicing}
}

// renamed interprets a resource renamed for HAMi: by its scheduler's configuration, or, on a node that registers its
// GPUs with it, the count by the node's capacity and other resources by the words in their names.
func (b *build) renamed(key string, n *node) role {
	r, ok := b.c.hamiNames[key]
	switch {
	case ok:
		return r
	case useOf(key).role != roleUnknown:
	case n == nil && b.hamiCounts[key], n != nil && n.countName == key:
		return roleCount
	case n != nil && n.registry == sharing.DeliveryHAMi && n.offers[key] == 0:
		return wordOf(key)
	}
	return roleUnknown
}

// readOffers finds the resource by which HAMi counts the node's GPUs, and the resources that are not understood.
func (n *node) readOffers(b *build) {
	registered := 0
	for i := range n.registered {
		registered += n.registered[i].Count
	}
	for _, key := range sortedKeys(n.offers) {
		if b.c.hamiNames[key] == roleCount && n.registry == sharing.DeliveryHAMi {
			n.countName = key
		} else if useOf(key).role == roleUnknown {
			n.others = append(n.others, key)
		}
	}
	if n.registry != sharing.DeliveryHAMi || n.countName != "" || n.offers[resourceGPU] > 0 {
		return
	}
	// The resource that has as many as are registered, or the only one that is not understood.
	i := slices.IndexFunc(n.others, func(key string) bool { return n.offers[key] == registered })
	if i < 0 && len(n.others) == 1 {
		i = 0
	}
	if i >= 0 {
		n.countName = n.others[i]
		n.others = slices.Delete(n.others, i, i+1)
		b.hamiCounts[n.countName] = true
	}
}

// readShares counts the GPUs that other systems than those of NVIDIA, HAMi and Volcano hand out.
func (n *node) readShares(b *build) {
	add := func(key string, gpus int, m sharing.Mechanism) {
		n.gpus += gpus
		n.gpusFrom, n.mechanism, n.mechanismFrom = derived("resource %s", key), m, declared("resource %s", key)
	}
	counted := n.gpus > 0
	for _, key := range sortedKeys(n.offers) {
		switch u := useOf(key); u.role {
		case roleTotal:
			if !counted {
				add(key, n.offers[key], sharing.MechanismExclusive)
			}
		case roleWhole, roleVGPU:
			n.closed = "one whose GPUs are handed to virtual machines"
			if n.product == "" && u.board != "" { // nothing else names it
				n.product, n.productFrom, n.gpu = u.board, derived("resource %s", key), lookupGPU(u.board, "", false)
			}
			per, what := n.vgpusOn(u), "GPUs as a whole"
			if u.role == roleVGPU {
				what = fmt.Sprintf("vGPUs %s, %d to a GPU", u.profile, per)
			}
			n.find("gpus-for-machines", "resource "+key, n.offers[key], what)
			if counted {
				n.mechanism, n.mechanismFrom = u.mechanism, declared("resource %s", key)
			} else {
				add(key, (n.offers[key]+per-1)/per, u.mechanism)
				n.replicas = max(n.replicas, per)
			}
		case roleSlice:
			n.mechanism, n.mechanismFrom = u.mechanism, declared("resource %s", key)
			n.closed = "one whose GPUs nos divides by memory"
		}
	}
	if n.gpus > 0 && len(n.others) > 0 && !n.handedOut() {
		n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing, derived("resource %s", n.others[0])
	}
	for _, key := range n.others {
		b.others[key] = b.others[key] || n.gpus > 0
	}
}
