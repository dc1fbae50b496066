// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// ordinary reports whether a resource is known to be no part of a GPU: Kubernetes' own have no domain. One that is
// neither ordinary nor understood counts as a part of one on a node that has GPUs.
func ordinary(key string) bool {
	return !strings.Contains(key, "/") || slices.ContainsFunc(names().Ordinary, func(o string) bool {
		return strings.HasPrefix(key, o)
	})
}

// quotaResources are the prefixes of resources with quotas that bound a change.
var quotaResources = []string{"nvidia.com/", "volcano.sh/vgpu", "cotenant.dev/", "requests.nvidia.com/"}

// quantities are amounts by resource. They may be written as text or numbers.
type quantities map[string]string

// UnmarshalJSON reads the amounts.
func (q *quantities) UnmarshalJSON(data []byte) error {
	*q = quantities{}
	return entries(data, func(k string, raw json.RawMessage) { (*q)[k] = strings.Trim(string(raw), `"`) })
}

// gpuWord matches the names of resources that speak of a GPU whatever node offers them.
var gpuWord = regexp.MustCompile(`(?i)gpu|nvidia|cuda|\bmig[-.]`)

// role is the meaning of an amount of a resource. The zero role is roleUnknown.
type role uint8

const (
	roleUnknown role = iota
	roleCount        // GPUs, or shares of them
	roleMIG          // MIG instances of a profile
	roleMemory       // MiB of each counted GPU
	rolePercent      // percent of its memory
	roleCores        // percent of its compute
	roleMilli        // thousandths of a GPU
	roleWhole        // GPUs passed through to virtual machines
	roleVGPU         // vGPUs of a type
	roleSlice        // MPS clients with so much memory
	roleTotal        // the GPUs that a node has
	roleAmount       // a part of the node's amount of a resource that is not understood
)

// use is the interpretation of a resource.
type use struct {
	role
	delivery  sharing.Delivery // DeliveryBare = the device plugin, or none that is known
	mechanism sharing.Mechanism
	profile   string        // of a MIG instance, or a vGPU's type
	board     string        // the GPU in the name, "" = none
	memory    sharing.Bytes // of one
}

// byName are the resources that are read by their whole name.
var byName = map[string]use{
	resourceGPU:                         {role: roleCount},
	resourceShared:                      {role: roleCount},
	"nvidia.com/gpumem":                 {role: roleMemory, delivery: sharing.DeliveryHAMi},
	"nvidia.com/gpumem-percentage":      {role: rolePercent, delivery: sharing.DeliveryHAMi},
	"nvidia.com/gpucores":               {role: roleCores, delivery: sharing.DeliveryHAMi},
	"volcano.sh/vgpu-number":            {role: roleCount, delivery: sharing.DeliveryVolcano},
	"volcano.sh/vgpu-memory":            {role: roleMemory, delivery: sharing.DeliveryVolcano},
	"volcano.sh/vgpu-memory-percentage": {role: rolePercent, delivery: sharing.DeliveryVolcano},
	"volcano.sh/vgpu-cores":             {role: roleCores, delivery: sharing.DeliveryVolcano},
	resourceMilli:                       {role: roleMilli},
	"aliyun.com/gpu-count":              {role: roleTotal},
}

var (
	// nos divides a GPU among MPS clients: nvidia.com/gpu-10gb.
	nosSlice = regexp.MustCompile(`^nvidia\.com/gpu-(\d{1,4})gb$`)
	// KubeVirt's plugin (d26f2374) names GPUs after the PCI database, in capitals: nvidia.com/TU104GL_TESLA_T4.
	passedThrough = regexp.MustCompile(`^nvidia\.com/([A-Z]{2}\d{3}[A-Z]{0,3})_([A-Z0-9_]+)$`)
	// InstaSlice and its successor, Dynamic Accelerator Slicer.
	dasSlice = regexp.MustCompile(`^(?:mig\.das\.com/(?:mig-)?|instaslice\.(?:redhat\.com|codeflare\.dev)/mig-)(\d.*)$`)
)

// useOf reads a resource by its name; the zero use means that the name is not understood.
func useOf(key string) use {
	if u, ok := byName[key]; ok {
		return u
	}
	mig := func(profile string) use {
		return use{role: roleMIG, profile: profileName(profile), mechanism: sharing.MechanismMIG}
	}
	if profile, ok := strings.CutPrefix(key, migPrefix); ok {
		profile, _ = strings.CutSuffix(profile, ".shared")
		return mig(profile)
	}
	if m := dasSlice.FindStringSubmatch(key); m != nil {
		return mig(m[1])
	}
	if m := nosSlice.FindStringSubmatch(key); m != nil {
		return use{role: roleSlice, mechanism: sharing.MechanismMPS, memory: sharing.Bytes(count(m[1])) * sharing.GiB}
	}
	name, nvidia := strings.CutPrefix(key, "nvidia.com/")
	if m := passedThrough.FindStringSubmatch(key); m != nil {
		return use{role: roleWhole, mechanism: sharing.MechanismExclusive, board: strings.ReplaceAll(m[2], "_", " ")}
	}
	if v, ok := sharing.ParseVGPUType(strings.ReplaceAll(name, "_", " ")); ok && nvidia {
		return use{role: roleVGPU, mechanism: sharing.MechanismVGPU, delivery: sharing.DeliveryVGPUManager, profile: v.Name,
			board: v.Board, memory: v.Memory}
	}
	return use{}
}

// wordOf interprets the name of a resource that accompanies a count renamed in HAMi's configuration.
func wordOf(key string) role {
	_, name, _ := strings.Cut(strings.ToLower(key), "/")
	switch memory := strings.Contains(name, "mem"); {
	case memory && strings.Contains(name, "percent"):
		return rolePercent
	case memory:
		return roleMemory
	case strings.Contains(name, "core"):
		return roleCores
	}
	return roleUnknown
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
	// On a node without GPUs, or one that is not known, the name must tell that it is a GPU's.
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
	case n != nil && n.registry == sharing.DeliveryHAMi && n.amount(key) == 0:
		return wordOf(key)
	}
	return roleUnknown
}

// amounts returns the resources that a node offers with all devices healthy.
func (n *node) amounts() map[string]int {
	out := map[string]int{}
	for _, list := range []quantities{n.meta.Status.Allocatable, n.meta.Status.Capacity} {
		for key, text := range list {
			if v := amountOf(text); v > 0 && !ordinary(key) {
				out[key] = v
			}
		}
	}
	return out
}

func (n *node) amount(key string) int {
	if n == nil || n.meta == nil {
		return 0
	}
	return n.amounts()[key]
}

// amountOf reads a number of things, or an amount of memory as MiB.
func amountOf(text string) int {
	if v := count(text); v > 0 {
		return v
	}
	return int(quantity(text) >> 20)
}

// readOffers finds the resource by which HAMi counts the node's GPUs, and the resources that are not understood.
func (n *node) readOffers(b *build) {
	registered := 0
	for i := range n.registered {
		registered += n.registered[i].Count
	}
	for _, key := range slices.Sorted(maps.Keys(n.amounts())) {
		if b.c.hamiNames[key] == roleCount && n.registry == sharing.DeliveryHAMi {
			n.countName = key
		} else if useOf(key).role == roleUnknown {
			n.others = append(n.others, key)
		}
	}
	if n.registry != sharing.DeliveryHAMi || n.countName != "" || n.amount(resourceGPU) > 0 {
		return
	}
	// The resource that has as many as are registered, or the only one that is not understood.
	i := slices.IndexFunc(n.others, func(key string) bool { return n.amount(key) == registered })
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
	amounts := n.amounts()
	add := func(key string, gpus int, m sharing.Mechanism) {
		n.gpus, n.whole = n.gpus+gpus, n.whole+gpus
		n.gpusFrom, n.mechanism, n.mechanismFrom = derived("resource %s", key), m, declared("resource %s", key)
	}
	counted := n.gpus > 0
	for _, key := range slices.Sorted(maps.Keys(amounts)) {
		switch u := useOf(key); u.role {
		case roleTotal:
			if !counted {
				add(key, amounts[key], sharing.MechanismExclusive)
			}
		case roleWhole, roleVGPU:
			n.closed = "one whose GPUs are handed to virtual machines"
			n.boardOf(u.board, key)
			per, what := n.vgpusOn(u), "GPUs as a whole"
			if u.role == roleVGPU {
				what = fmt.Sprintf("vGPUs %s, %d to a GPU", u.profile, per)
			}
			b.find("gpus-for-machines", sharing.SeverityInfo, "node "+n.name, "resource "+key,
				"gives %d %s to virtual machines: containers can have none of them", amounts[key], what)
			switch {
			case counted:
				n.mechanism, n.mechanismFrom = u.mechanism, declared("resource %s", key)
			case u.role == roleWhole:
				add(key, amounts[key], u.mechanism)
			default:
				add(key, (amounts[key]+per-1)/per, u.mechanism)
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

// handedOut reports whether a known component hands out the node's GPUs.
func (n *node) handedOut() bool {
	return n.offered > 0 || n.inMIG > 0 || len(n.managers) > 0 || n.mechanism != sharing.MechanismExclusive
}

// notUnderstood reports the resources of GPU nodes that are not understood, with the pods that hold them. Amounts that
// pods hold count as GPUs, and no GPU of such a node counts as free.
func (b *build) notUnderstood() {
	for _, n := range b.nodes {
		for _, key := range slices.Sorted(maps.Keys(n.opaque)) {
			pods := n.opaque[key]
			n.closed = cmp.Or(n.closed, "one on which pods hold "+key+", which is not understood")
			offers := "does not say how much it has of " + key
			if v := n.amount(key); v > 0 {
				offers = fmt.Sprintf("offers %d of %s", v, key)
			}
			b.find("resource-not-understood", sharing.SeverityMedium, "node "+n.name, "resource "+key,
				"%s, which is not understood; what %s holds of it counts as GPUs, and none of the node's as free", offers,
				plaintext.Some(pods, mostNames, len(pods)))
		}
		for _, key := range n.others {
			if n.opaque[key] == nil && !n.handedOut() {
				b.find("resource-not-understood", sharing.SeverityLow, "node "+n.name, "resource "+key,
					"offers %d of %s, which is not understood, and nobody holds any", n.amount(key), key)
			}
		}
	}
}
