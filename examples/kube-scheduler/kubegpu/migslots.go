package kubegpu

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// instances returns how many MIG instances the node offers, by profile.
func (r *reader) instances() map[string]int {
	out := map[string]int{}
	for name := range r.node.Status.Allocatable {
		if n := r.quantity(name); n > 0 && strings.HasPrefix(string(name), ResourceMIGPrefix) {
			out[profileName(name)] = n
		}
	}
	return out
}

// profileName is the profile of a resource, or the text behind the prefix where that is no profile.
func profileName(name v1.ResourceName) string {
	if p, err := mig.ParseResourceName(string(name)); err == nil {
		return p.String()
	}
	return strings.TrimPrefix(string(name), ResourceMIGPrefix)
}

// readSingle reads a node of the MIG strategy "single": nvidia.com/gpu is an
// instance of one profile, and so are the labels' count and memory.
func (r *reader) readSingle(label string, offered int) {
	model := r.migModel()
	if model == nil {
		return
	}
	name := profileName(v1.ResourceName(ResourceMIGPrefix + label))
	p, err := model.Profile(name)
	if err != nil {
		r.problem("label %s: a %s has no MIG profile %.40q", LabelProduct, model.Key, name)
		return
	}
	if want, ok := p.Memory.Get(); ok && r.node.Labels[LabelMemory] != "" {
		if got := r.out.gpu.Memory; float64(got) < leastMemory*float64(want) ||
			float64(got) > 1/leastMemory*float64(want) {
			r.problem("label %s says %v, and a %s of a %s has %v", LabelMemory, got, p.Name, model.Key, want)
		}
	}
	if count, ok := r.number(LabelCount); ok && count != offered {
		r.problem("offers %d of %s, and label %s says %d", offered, ResourceGPU, LabelCount, count)
	}
	if replicas, ok := r.number(LabelReplicas); ok && replicas > 1 {
		r.problem("shares each MIG instance among %d pods: placement does not handle that", replicas)
	}
	r.out.Single = p.Name
	healthy := r.quantity(ResourceGPU)
	per := p.MaxInstances
	if per == 0 || len(r.out.Problems) > 0 {
		return
	}
	for healthy > 0 && len(r.out.Devices) <= placement.MaxGPUs {
		n := min(per, healthy)
		healthy -= n
		r.addLayout(model, []mig.Count{{Profile: p.Name, N: n}})
	}
}

// readMixed reads the MIG instances of a node of the strategy "mixed". The labels say how many there are on the node
// and not on which GPU: GPUs are taken to be partitioned alike where the numbers allow it, and else as few as can be.
func (r *reader) readMixed(instances map[string]int, full int) {
	model := r.migModel()
	if model == nil {
		return
	}
	var want []mig.Count
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		p, err := model.Profile(name)
		if err != nil {
			r.problem("offers %s%s, and a %s has no such profile", ResourceMIGPrefix, name, model.Key)
			continue
		}
		resource, err := mig.ResourceName(p.Name)
		if err != nil {
			r.problem("offers %s%s: %v", ResourceMIGPrefix, name, err)
			continue
		}
		if replicas, ok := r.number(resource + ".replicas"); ok && replicas > 1 {
			r.problem("shares each MIG instance of %s among %d pods: placement does not handle that", p.Name, replicas)
		}
		want = append(want, mig.Count{Profile: p.Name, N: instances[name]})
	}
	if len(r.out.Problems) > 0 {
		return
	}
	count, stated := r.number(LabelCount)
	gpus := count - full
	if stated && gpus > 0 && gpus <= placement.MaxGPUs && r.addAlike(model, want, gpus) {
		return
	}
	limit := placement.MaxGPUs
	if stated {
		limit = min(limit, gpus)
	}
	if limit <= 0 {
		r.problem("offers MIG instances, and label %s says that all %d GPUs are whole", LabelCount, count)
		return
	}
	packing, err := model.PackWith(want, mig.PackOptions{Limit: limit})
	if err != nil {
		r.problem("offers more MIG instances (%s) than fit on %d of %s", countsText(want), limit, model.Key)
		return
	}
	layouts := packing.Layouts()
	if len(layouts) > 1 {
		r.note("which of %d GPUs has which MIG instances is not known: it is assumed", len(layouts))
	}
	for _, l := range layouts {
		r.cut(l)
	}
}

func (r *reader) addAlike(model *mig.Model, want []mig.Count, gpus int) bool {
	each := slices.Clone(want)
	for i := range each {
		if each[i].N%gpus != 0 {
			return false
		}
		each[i].N /= gpus
	}
	if _, err := model.Place(each, mig.Layout{}); err != nil {
		return false
	}
	for range gpus {
		r.addLayout(model, each)
	}
	return true
}

func (r *reader) addLayout(model *mig.Model, want []mig.Count) {
	l, err := model.Place(want, mig.Layout{})
	if err != nil {
		r.problem("offers MIG instances that do not fit together on a %s: %s", model.Key, countsText(want))
		return
	}
	r.cut(l)
}

// cut adds a GPU with the MIG instances that exist: the device plugin hands out those, and makes none.
func (r *reader) cut(l mig.Layout) {
	kind := r.out.gpu
	if kind.MIG = l.Model; r.out.Single != "" {
		kind.Memory = 0 // the label's is that of an instance
	}
	d := layout.Device{GPU: &kind, Mode: sharing.MechanismMIG}
	for _, in := range l.Instances {
		d.Instances = append(d.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
	}
	r.out.Devices = append(r.out.Devices, d)
}

func countsText(cs []mig.Count) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = c.String()
	}
	return strings.Join(parts, ", ")
}

const maxGPUMemoryMiB = placement.MaxMemory / int64(sharing.MiB)

// readHAMi reads the GPUs that HAMi's device plugin registered.
func (r *reader) readHAMi(text string) {
	out := r.out
	out.Resource, out.Mechanism, out.Delivery = ResourceGPU, sharing.MechanismHAMi, sharing.DeliveryHAMi
	devices, err := manifest.ParseHAMiRegister(text)
	if err != nil {
		r.problem("annotation %s: %v", AnnotationHAMiRegister, err)
		return
	}
	shares, seen := 0, map[string]bool{}
	for i, d := range devices {
		where := fmt.Sprintf("annotation %s: device %d", AnnotationHAMiRegister, i)
		switch {
		case d.ID == "" || seen[d.ID]:
			r.problem("%s has no id of its own: %.60q", where, d.ID)
			continue
		case d.Count <= 0 || d.Count > maxQuantity || d.Memory <= 0 || d.Memory > maxGPUMemoryMiB:
			r.problem("%s is shared by %d and has %d MiB", where, d.Count, d.Memory)
			continue
		case d.Mode == "mig":
			r.problem("%s is in HAMi's mode mig, where HAMi makes the instances itself", where)
			continue
		}
		seen[d.ID] = true
		shares = min(shares+d.Count, maxQuantity)
		m := sharing.MechanismHAMi
		if d.Mode == "mps" {
			m = sharing.MechanismHAMiWithMPS
		}
		memory := sharing.Bytes(d.Memory) * sharing.MiB
		if gpu := lookupGPU(d.Type); gpu == nil {
			r.note("%s: the GPU table has no %.60q", where, d.Type)
			out.Model = d.Type
		} else {
			if out.Model != "" && out.Model != gpu.Name {
				r.problem("%s is a %s beside a %s: GPUs of a node must be alike", where, gpu.Name, out.Model)
			}
			out.Model = gpu.Name
			if known, ok := gpu.Memory.Get(); ok && float64(memory) > mostMemory*float64(known) {
				r.note("%s has %v on a %s: HAMi oversubscribes memory", where, memory, gpu.Name)
			}
		}
		out.Mechanism, out.Replicas, out.gpu.Name, out.gpu.Memory = m, d.Count, out.Model, memory
		kind := out.gpu
		device := layout.Device{UUID: d.ID, GPU: &kind, Mode: m, Slots: int16(min(d.Count, math.MaxInt16))}
		if d.Healthy != nil && !*d.Healthy {
			r.note("%s (%s) is not healthy", where, d.ID)
			device.Health = layout.HealthUnhealthy
		}
		out.Devices = append(out.Devices, device)
	}
	if offered := r.capacity(ResourceGPU); offered != shares && len(out.Problems) == 0 {
		r.problem("annotation %s has %d shares, and the node offers %d of %s", AnnotationHAMiRegister, shares, offered,
			ResourceGPU)
	}
}

// hamiAllocated reads on which GPUs HAMi put each container of a pod: "GPU-1,NVIDIA,3000,30:;" is one container on
// one GPU. ok is false where the pod was not placed by HAMi, or on other GPUs than the node's.
func hamiAllocated(p *v1.Pod, n *Node) (claims [][]int, ok bool) {
	text := p.Annotations[AnnotationHAMiAllocated]
	for container := range strings.SplitSeq(text, ";") {
		var gpus []int
		for device := range strings.SplitSeq(container, ":") {
			id, _, _ := strings.Cut(device, ",")
			if id == "" {
				continue
			}
			at := n.DeviceByUUID(id)
			if at < 0 {
				return nil, false
			}
			gpus = append(gpus, at)
		}
		if len(gpus) > 0 {
			claims = append(claims, gpus)
		}
	}
	return claims, len(claims) > 0
}
