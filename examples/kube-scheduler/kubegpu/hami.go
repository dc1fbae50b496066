package kubegpu

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

const maxGPUMemoryMiB = placement.MaxMemory / int64(sharing.MiB)

// readHAMi reads the GPUs that HAMi's device plugin registered.
func (r *reader) readHAMi(text string) {
	out := r.out
	out.Resource, out.Mechanism = ResourceGPU, sharing.MechanismHAMi
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
		if d.Healthy != nil && !*d.Healthy {
			r.note("%s (%s) is not healthy", where, d.ID)
			continue
		}
		out.Mechanism, out.GPUMemory, out.Replicas = m, placement.Some(memory), d.Count
		out.UUIDs = append(out.UUIDs, d.ID)
		out.GPUs = append(out.GPUs, placement.GPU{Mechanism: m, Memory: out.GPUMemory, MaxTenants: d.Count})
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
			at := -1
			for i, u := range n.UUIDs {
				if u == id {
					at = i
				}
			}
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
