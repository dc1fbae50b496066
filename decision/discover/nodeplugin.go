// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// The resources of NVIDIA's device plugin: whole GPUs, replicas of them where it renames those, and MIG instances.
const (
	resourceGPU    = "nvidia.com/gpu"
	resourceShared = "nvidia.com/gpu.shared"
	migPrefix      = "nvidia.com/mig-"
)

// Labels of GPU Feature Discovery about the sharing of whole GPUs.
const (
	labelReplicas = "nvidia.com/gpu.replicas"
	labelStrategy = "nvidia.com/gpu.sharing-strategy"
)

// Inside reports MIG instances that each serve several pods: only the mechanism's isolation separates the pods of
// one instance.
type Inside struct {
	Profile   string            `json:"profile"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Pods      int               `json:"pods"` // to an instance
}

// migResources are the MIG instances that the node offers, by profile, with how pods share them.
func (n *node) migResources(b *build) (map[string]int, []Inside) {
	out, offered := map[string]int{}, map[string]int{}
	for _, list := range []quantities{n.meta.Status.Allocatable, n.meta.Status.Capacity} {
		for key, text := range list {
			if profile, ok := strings.CutPrefix(key, migPrefix); ok && count(text) > 0 {
				profile, _ = strings.CutSuffix(profile, ".shared")
				offered[profile] = max(offered[profile], count(text))
			}
		}
	}
	for _, key := range sortedKeys(n.meta.Metadata.Labels) { // GPU Feature Discovery lists those that are not offered
		profile, ok := strings.CutSuffix(strings.TrimPrefix(key, migPrefix), ".count")
		if n := count(n.label(key)); ok && strings.HasPrefix(key, migPrefix) && offered[profile] == 0 && n > 0 {
			out[profileName(profile)] = n
		}
	}
	var inside []Inside
	for _, profile := range sortedKeys(offered) {
		key, name := migPrefix+profile, profileName(profile)
		each := max(1, count(n.label(key+".replicas")))
		if labelled := count(n.label(key + ".count")); each == 1 && labelled > 0 && offered[profile]%labelled == 0 {
			each = offered[profile] / labelled
		}
		if model := n.model(); each == 1 && model != nil { // more than the GPUs can have are shared
			boards := max(1, count(n.label("nvidia.com/gpu.count")))
			if p, err := model.Profile(name); err == nil && p.MaxInstances > 0 &&
				n.label("nvidia.com/gpu.count") != "" && offered[profile]%(p.MaxInstances*boards) == 0 {
				each = offered[profile] / (p.MaxInstances * boards)
			}
		}
		out[name] = offered[profile] / each
		if each > 1 {
			m := sharing.MechanismTimeSlicing
			if n.label(key+".sharing-strategy") == "mps" {
				m = sharing.MechanismMIGWithMPS
			}
			inside = append(inside, Inside{name, m, each})
		}
	}
	return out, inside
}

// reportInside reports instances that pods share.
func (b *build) reportInside(n *node, source string) {
	for _, in := range n.inside {
		n.closed = cmp.Or(n.closed, "one whose MIG instances pods share")
		b.find("mig-instances-shared", sharing.SeverityHigh, "node "+n.name, source,
			"each of its %d instances %s is shared by %d pods by %s: between the pods of one instance the hardware isolates "+
				"neither memory nor compute nor faults", n.instances[in.Profile], in.Profile, in.Pods, plain(in.Mechanism))
	}
}

// plain returns the mechanism by which the pods of one MIG instance share it.
func plain(m sharing.Mechanism) sharing.Mechanism {
	if m == sharing.MechanismMIGWithMPS {
		return sharing.MechanismMPS
	}
	return m
}

// profileName is the profile in the name of a resource: "1g.10gb.me" is 1g.10gb+me.
func profileName(s string) string {
	if n, err := mig.ParseResourceName("mig-" + s); err == nil {
		return n.String()
	}
	return s
}

// readPlugin reads a node of the device plugin and GPU Feature Discovery.
func (n *node) readPlugin(b *build) {
	resource := resourceGPU
	if n.capacity(resourceShared) > 0 {
		resource = resourceShared
	}
	if n.offered = n.capacity(resource); n.offered > 0 {
		n.resource = resource
	}
	n.instances, n.inside = n.migResources(b)
	b.reportInside(n, "labels and resources "+migPrefix+"*")
	labelled, stated := n.number(b, "nvidia.com/gpu.count")
	from := declared("label nvidia.com/gpu.count")
	switch {
	case n.single != "":
		n.readSingle(b, labelled)
		return
	case len(n.instances) > 0:
		n.whole = n.offered / max(1, n.readReplicas(b, resource))
		n.inMIG, from = n.gpusForInstances(b, labelled-n.whole, from)
		n.gpus, n.gpusFrom = n.whole+n.inMIG, from
		if stated && labelled >= n.whole+n.inMIG {
			n.gpus, n.gpusFrom, n.inMIG = labelled, declared("label nvidia.com/gpu.count"), labelled-n.whole
		}
		return
	case n.offered == 0:
		if stated && labelled > 0 && n.label("nvidia.com/gpu.present") == "true" {
			// GFD runs and the plugin does not offer anything.
			n.gpus, n.whole, n.gpusFrom = labelled, labelled, from
			if n.registry != sharing.DeliveryBare {
				n.mechanism, n.mechanismFrom = sharing.MechanismHAMi, n.deliveryFrom
				n.replicas = max(1, n.amount("volcano.sh/vgpu-number")/labelled)
				return
			}
			if len(n.amounts()) > 0 {
				return // another system hands them out
			}
			b.find("gpus-not-offered", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count",
				"has %d GPUs by its labels and offers none: no pod can use them", labelled)
		}
		return
	}
	replicas := n.readReplicas(b, resource)
	n.gpus, n.gpusFrom = n.offered/replicas, derived("resource %s", resource)
	if replicas > 1 {
		n.gpusFrom = derived("resource %s divided by %s", resource, n.replicasFrom)
	}
	if n.offered%replicas != 0 {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, n.from(labelReplicas),
			"offers %d of %s, which is no multiple of the %d replicas of %s", n.offered, resource, replicas,
			n.from(labelReplicas))
		n.gpus = (n.offered + replicas - 1) / replicas
	}
	if stated && labelled > 0 {
		if labelled != n.gpus {
			b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count",
				"offers %d of %s: with %d replica(s) a GPU that is %d GPUs, and label nvidia.com/gpu.count says %d; what is "+
					"offered is used", n.offered, resource, replicas, n.gpus, labelled)
		} else {
			n.gpusFrom = from
		}
	}
	n.whole = n.gpus
}

// readReplicas reads how the GPUs that are not in MIG mode are shared, and how many replicas one has.
func (n *node) readReplicas(b *build, resource string) int {
	replicas, stated := n.number(b, labelReplicas)
	n.replicasFrom = n.from(labelReplicas)
	strategy := n.label(labelStrategy)
	if !stated || replicas == 0 {
		mechanism, declared, from := b.declaredReplicas(n, resource)
		if replicas = 1; declared > 1 && strategy == "" {
			replicas = declared
			n.replicas, n.replicasFrom = replicas, from.Source
			n.mechanism, n.mechanismFrom = mechanism, from
			return replicas
		}
	}
	shared := strings.HasSuffix(n.label("nvidia.com/gpu.product"), "-SHARED") || resource == resourceShared
	capable := n.label("nvidia.com/mps.capable")
	n.mechanismFrom = declared("%s", n.from(labelStrategy))
	switch {
	case strategy == "mps":
		n.mechanism = sharing.MechanismMPS
	case strategy == "time-slicing", strategy == "time-sharing" && replicas > 1:
		n.mechanism = sharing.MechanismTimeSlicing
	case strategy != "" && strategy != "none" && strategy != "time-sharing":
		b.find("label-unreadable", sharing.SeverityMedium, "node "+n.name, n.from(labelStrategy),
			"there is no sharing strategy %.40q", strategy)
	case strategy == "" && (shared || replicas > 1):
		n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing, declared("%s", n.replicasFrom)
		if capable == "true" {
			n.mechanism, n.mechanismFrom = sharing.MechanismMPS, declared("label nvidia.com/mps.capable")
		}
	case strategy == "":
		n.mechanismFrom = derived("no label of sharing")
	}
	if strategy == "none" && count(n.label("nvidia.com/gpu.count"))*replicas != n.capacity(resource) {
		replicas = 1
	}
	if n.mechanism != sharing.MechanismExclusive && replicas < 2 {
		b.find("sharing-without-replicas", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.replicas",
			"GPUs are shared by %v, and label nvidia.com/gpu.replicas does not say among how many", n.mechanism)
	}
	n.replicas = replicas
	return replicas
}

// readSingle reads a node under the MIG strategy "single": nvidia.com/gpu are
// instances, and so are the GPUs that the labels count.
func (n *node) readSingle(b *build, labelled int) {
	n.readReplicas(b, "nvidia.com/gpu")
	offered := n.offered / n.replicas
	if n.single == "INVALID" {
		b.find("mig-invalid", sharing.SeverityHigh, "node "+n.name, "label nvidia.com/gpu.product",
			"the MIG layout does not suit the strategy \"single\": nothing can be placed")
	} else {
		n.instances[n.single] = offered
		n.shareInside(b, n.single, n.replicasFrom)
	}
	if s := n.label("nvidia.com/mig.strategy"); s != "" && s != "single" {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/mig.strategy",
			"label nvidia.com/gpu.product names a MIG profile and nvidia.com/mig.strategy says %q", s)
	}
	n.inMIG, n.gpusFrom = n.gpusForInstances(b, 0, fact{})
	if labelled > 0 && labelled != offered && labelled >= n.inMIG && labelled < offered {
		n.inMIG, n.gpusFrom = labelled, declared("label nvidia.com/gpu.count")
	}
	n.gpus = n.inMIG
}

// gpusForInstances returns the number of GPUs that hold the node's MIG instances: that of a label, or the smallest
// number by exact packing.
func (n *node) gpusForInstances(b *build, stated int, from fact) (int, fact) {
	if stated > 0 {
		return stated, from
	}
	model := n.model()
	if model == nil {
		b.find("mig-model-unknown", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.product",
			"has MIG instances, and no MIG profiles are known of %.60q", n.product)
		return max(1, stated), derived("MIG instances on a GPU whose profiles are not known: at least one GPU")
	}
	p, err := model.Pack(counts(n.instances))
	if err != nil {
		b.find("label-lies", sharing.SeverityHigh, "node "+n.name, "resources "+migPrefix+"*",
			"offers MIG instances that its GPUs cannot have: %v", err)
		return max(1, stated), derived("MIG instances: at least one GPU")
	}
	return p.GPUs, derived("the fewest GPUs that hold its MIG instances")
}

// counts returns the least number of GPU instances: several compute instances ("1c.3g.40gb") may be in one.
func counts(instances map[string]int) []mig.Count {
	var out []mig.Count
	for _, profile := range slices.Sorted(maps.Keys(instances)) {
		c := mig.Count{Profile: profile, N: instances[profile]}
		if name, err := mig.ParseName(profile); err == nil && name.ComputeSlices < name.Slices {
			c.N = (c.N*name.ComputeSlices + name.Slices - 1) / name.Slices
			name.ComputeSlices = name.Slices
			c.Profile = name.String()
		}
		out = append(out, c)
	}
	return out
}

// model is the GPU's model in the MIG catalogue, nil where there is none.
func (n *node) model() *mig.Model {
	name := n.product
	if n.gpu != nil {
		name = n.gpu.Name
	}
	m, err := mig.Lookup(name)
	if err != nil || !m.PlacementsKnown() {
		return nil
	}
	return m
}

// profile is a MIG profile of the node's GPU, by default that of nvidia.com/gpu; nil where it is not known.
func (n *node) profile(name string) *mig.Profile {
	m := n.model()
	if m == nil {
		return nil
	}
	p, _ := m.Profile(cmp.Or(name, n.single))
	return p
}

// shareInside moves the labelled sharing of GPUs to their MIG instances: under the strategy single the labels are of
// instances.
func (n *node) shareInside(b *build, profile, source string) {
	if n.replicas < 2 {
		return
	}
	m := sharing.MechanismTimeSlicing
	if n.mechanism == sharing.MechanismMPS {
		m = sharing.MechanismMIGWithMPS
	}
	n.inside = []Inside{{profile, m, n.replicas}}
	n.replicas, n.mechanism = 1, sharing.MechanismExclusive
	b.reportInside(n, source)
}

// readRegistered reads the GPUs that HAMi or Volcano registered.
func (n *node) readRegistered(b *build) {
	n.mechanism, n.mechanismFrom = sharing.MechanismHAMi, n.deliveryFrom
	if n.resource = cmp.Or(n.countName, resourceGPU); n.registry == sharing.DeliveryVolcano {
		n.resource = "volcano.sh/vgpu-number"
	}
	n.gpus, n.whole, n.gpusFrom = len(n.registered), len(n.registered), n.deliveryFrom
	for i := range n.registered {
		d := &n.registered[i]
		n.uuids = append(n.uuids, d.ID)
		n.replicas = max(n.replicas, d.Count)
		if d.Mode == "mps" {
			n.mechanism = sharing.MechanismHAMiWithMPS
		}
		if d.Mode == "mig" {
			n.inMIG, n.whole = n.inMIG+1, n.whole-1
		}
		if known := n.memory(); known > 0 && sharing.Bytes(d.Memory)*sharing.MiB > known+known/12 {
			b.find("memory-oversubscribed", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source,
				"GPU %s is registered with %v, and a %s has %v: memory is handed out that is not there", d.ID,
				sharing.Bytes(d.Memory)*sharing.MiB, n.gpu.Name, known)
		}
	}
	if labelled := count(n.label("nvidia.com/gpu.count")); labelled > 0 && labelled != n.gpus {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count",
			"%d GPUs are registered, and label nvidia.com/gpu.count says %d", n.gpus, labelled)
	}
}
