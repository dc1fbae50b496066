package kubegpu

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/cotenant/cotenant/sharing"
)

// ReadRunning reads a pod that is bound to a node, or reserved there, for NewState. reserved is the allocation that
// the caller knows of and that the pod's annotations do not have yet; nil leaves it to the annotations, ours or
// HAMi's. A pod that was bound although what it asks for is invalid is taken by its resources alone, and one that
// is bound nowhere is nominated. notes are what was wrong.
func ReadRunning(p *v1.Pod, n *Node, reserved *Allocation) (r Running, notes []string) {
	pod, err := ReadPod(p)
	if err != nil {
		problem := "runs with annotations that are not valid"
		plain := *p
		plain.Annotations = nil
		if pod, err = ReadPod(&plain); err != nil {
			problem = "runs and asks for GPUs in a way that is not valid"
			pod = nil
		}
		notes = append(notes, fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, problem))
	}
	if pod == nil {
		total := resource.PodRequests(p, resource.PodResourcesOptions{})
		return Running{CPUMilli: max(0, total.Cpu().MilliValue()),
			Memory: max(0, sharing.Bytes(total.Memory().Value()))}, notes
	}
	r.Pod = pod
	switch {
	case reserved != nil:
		r.Allocation = reserved
	case n != nil && len(n.UUIDs) > 0 && p.Annotations[AnnotationHAMiAllocated] != "":
		if claims, ok := hamiAllocated(p, n); ok {
			r.Allocation = &Allocation{Node: n.Name}
			for _, gpus := range claims {
				r.Allocation.Devices = append(r.Allocation.Devices, Device{GPUs: gpus, Mechanism: n.Mechanism})
			}
		}
	default:
		if r.Allocation, err = ReadAllocation(p); err != nil {
			notes = append(notes, fmt.Sprintf("%s/%s: %v", p.Namespace, p.Name, err))
		}
	}
	if r.Nominated = p.Spec.NodeName == "" && r.Allocation == nil; r.Nominated {
		notes = nil // it runs nowhere
	}
	return r, notes
}
