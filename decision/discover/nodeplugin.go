// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"strings"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// readInstances reads the MIG instances that the node offers, by profile, and how pods share them.
func (n *node) readInstances() {
	offered := map[string]int{}
	for key, amount := range n.offers {
		if profile, ok := strings.CutPrefix(key, migPrefix); ok {
			profile = strings.TrimSuffix(profile, ".shared")
			offered[profile] = max(offered[profile], amount)
		}
	}
	for _, key := range sortedKeys(n.meta.Metadata.Labels) { // GPU Feature Discovery lists those that are not offered
		profile, ok := strings.CutSuffix(strings.TrimPrefix(key, migPrefix), ".count")
		if k := count(n.label(key)); ok && strings.HasPrefix(key, migPrefix) && offered[profile] == 0 && k > 0 {
			n.instances[profileName(profile)] = k
		}
	}
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
		n.instances[name] = offered[profile] / each
		n.shareInside(name, n.label(key+".sharing-strategy") == "mps", each, "labels and resources "+migPrefix+"*")
	}
}

// shareInside notes that several pods share each instance of a profile, by MPS or time-slicing.
func (n *node) shareInside(profile string, mps bool, pods int, source string) {
	if pods < 2 {
		return
	}
	in := Inside{profile, sharing.MechanismTimeSlicing, pods}
	if mps {
		in.Mechanism = sharing.MechanismMIGWithMPS
	}
	n.inside, n.closed = append(n.inside, in), cmp.Or(n.closed, "one whose MIG instances pods share")
	n.find("mig-instances-shared", source, n.instances[profile], profile, pods, plain(in.Mechanism))
}

func (n *node) readPlugin(b *build) {
	resource := resourceGPU
	if n.offers[resourceShared] > 0 {
		resource = resourceShared
	}
	if n.offered = n.offers[resource]; n.offered > 0 {
		n.resource = resource
	}
	n.readInstances()
	labelled, from := n.number("nvidia.com/gpu.count"), declared("label nvidia.com/gpu.count")
	switch {
	case n.single != "":
		n.readSingle(b, labelled)
		return
	case len(n.instances) > 0:
		whole := n.offered / max(1, n.readReplicas(b, resource))
		if n.inMIG, n.gpusFrom = labelled-whole, from; n.inMIG < 1 {
			n.inMIG, n.gpusFrom = n.gpusForInstances()
		}
		n.gpus = whole + n.inMIG
		return
	case n.offered == 0 && (labelled == 0 || n.label("nvidia.com/gpu.present") != "true"):
		return
	case n.offered == 0: // GFD runs and the plugin does not offer anything
		if n.gpus, n.gpusFrom = labelled, from; n.registry != sharing.DeliveryBare {
			n.mechanism, n.mechanismFrom = sharing.MechanismHAMi, n.deliveryFrom
			n.replicas = max(1, n.offers[resourceVolcano]/labelled)
		} else if len(n.offers) == 0 { // else another system hands them out
			n.find("gpus-not-offered", "label nvidia.com/gpu.count", labelled)
		}
		return
	}
	replicas := n.readReplicas(b, resource)
	n.gpus, n.gpusFrom = n.offered/replicas, derived("resource %s", resource)
	if replicas > 1 {
		n.gpusFrom = derived("resource %s divided by %s", resource, n.replicasFrom)
	}
	if n.offered%replicas != 0 {
		n.find("label-lies/multiple", n.from(labelReplicas), n.offered, resource, replicas, n.from(labelReplicas))
		n.gpus = (n.offered + replicas - 1) / replicas
	}
	switch labelled {
	case 0:
	case n.gpus:
		n.gpusFrom = from
	default:
		n.find("label-lies/count", "label nvidia.com/gpu.count", n.offered, resource, replicas, n.gpus, labelled)
	}
}

// readReplicas reads how the GPUs that are not in MIG mode are shared, and how many replicas one has.
func (n *node) readReplicas(b *build, resource string) int {
	replicas := n.number(labelReplicas)
	n.replicasFrom = n.from(labelReplicas)
	strategy := n.label(labelStrategy)
	if replicas == 0 {
		replicas = 1
		if p := b.sharingOf(n, resource); p != nil && strategy == "" {
			n.mechanismFrom = declared("%s (%s), selected by label %s", p.object, p.source, labelPlugin)
			n.mechanism, n.replicas, n.replicasFrom = p.mechanism, p.replicas, n.mechanismFrom.Source
			return n.replicas
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
		n.find("label-unreadable/strategy", n.from(labelStrategy), strategy)
	case strategy == "" && (shared || replicas > 1):
		n.mechanism, n.mechanismFrom = sharing.MechanismTimeSlicing, declared("%s", n.replicasFrom)
		if capable == "true" {
			n.mechanism, n.mechanismFrom = sharing.MechanismMPS, declared("label nvidia.com/mps.capable")
		}
	case strategy == "":
		n.mechanismFrom = derived("no label of sharing")
	}
	if strategy == "none" && count(n.label("nvidia.com/gpu.count"))*replicas != n.offers[resource] {
		replicas = 1
	}
	if n.mechanism != sharing.MechanismExclusive && replicas < 2 {
		n.find("sharing-without-replicas", "label nvidia.com/gpu.replicas", n.mechanism)
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
		n.find("mig-invalid", "label nvidia.com/gpu.product")
	} else {
		n.instances[n.single] = offered
	}
	if n.single != "INVALID" && n.replicas > 1 { // the labels of sharing are of instances
		n.inside = nil
		n.shareInside(n.single, n.mechanism == sharing.MechanismMPS, n.replicas, n.replicasFrom)
		n.replicas, n.mechanism = 1, sharing.MechanismExclusive
	}
	if s := n.label("nvidia.com/mig.strategy"); s != "" && s != "single" {
		n.find("label-lies/strategy", "label nvidia.com/mig.strategy", s)
	}
	if n.inMIG, n.gpusFrom = n.gpusForInstances(); labelled >= n.inMIG && labelled < offered {
		n.inMIG, n.gpusFrom = labelled, declared("label nvidia.com/gpu.count")
	}
	n.gpus = n.inMIG
}

// gpusForInstances returns the smallest number of GPUs that hold the node's MIG instances, by exact packing.
func (n *node) gpusForInstances() (int, Provenance) {
	model := n.model()
	if model == nil {
		n.find("mig-model-unknown", "label nvidia.com/gpu.product", n.product)
		return 1, derived("MIG instances on a GPU whose profiles are not known: at least one GPU")
	}
	p, err := model.Pack(counts(n.instances))
	if err != nil {
		n.find("label-lies/instances", "resources "+migPrefix+"*", err)
		return 1, derived("MIG instances: at least one GPU")
	}
	return p.GPUs, derived("the fewest GPUs that hold its MIG instances")
}

// counts returns the least number of GPU instances: several compute instances ("1c.3g.40gb") may be in one.
func counts(instances map[string]int) []mig.Count {
	var out []mig.Count
	for _, profile := range sortedKeys(instances) {
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
