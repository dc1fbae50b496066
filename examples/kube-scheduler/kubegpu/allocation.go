// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Allocation is the place of a pod.
type Allocation struct {
	Node    string
	Devices []Device // one for each request of the pod, see Pod.Requests
	// Choice is Node.Choice: of how many GPUs it may get any. Annotations do not have it.
	Choice int
}

// Device is the part of a GPU that one claim of a pod was given.
type Device struct {
	GPUs      []int // indexes on the node, ascending
	Mechanism sharing.Mechanism
	Milli     int           // thousandths of each GPU; 0 for a MIG instance
	Memory    sharing.Bytes // of each GPU; 0 = not limited
	Profile   string        // of a MIG instance
	Start     int           // of a MIG instance
	// Slowdown is the worst that is predicted for the pod or a neighbour.
	// Unpredicted counts those for which nothing is predicted.
	Slowdown    sharing.Optional[float64]
	Unpredicted int
	// Container is the one that claims it, Model the GPUs'. Annotations have neither.
	Container string
	Model     string
}

// Annotations returns the annotations that record the allocation, AnnotationVerdict left to the caller.
func (a *Allocation) Annotations() map[string]string {
	var gpus, mechanisms, shares []string
	for _, d := range a.Devices {
		idx := make([]string, len(d.GPUs))
		for i, g := range d.GPUs {
			idx[i] = strconv.Itoa(g)
		}
		gpus = append(gpus, strings.Join(idx, ","))
		mechanisms = append(mechanisms, d.Mechanism.String())
		shares = append(shares, d.share())
	}
	return map[string]string{
		AnnotationNode:      a.Node,
		AnnotationGPU:       strings.Join(gpus, ";"),
		AnnotationMechanism: strings.Join(mechanisms, ";"),
		AnnotationShare:     strings.Join(shares, ";"),
	}
}

// share returns a device's part of its GPUs: an instance, thousandths of the compute, or MiB of memory where the
// compute is not limited.
func (d *Device) share() string {
	switch {
	case d.Profile != "":
		return d.Profile + "@" + strconv.Itoa(d.Start)
	case d.Milli == 0:
		return strconv.FormatInt(d.Memory.MiB(), 10) + "Mi"
	}
	return strconv.Itoa(d.Milli) + "m"
}

// String gives the pod's place: "GPU 0,1 as 250m of mps on node-3".
func (a *Allocation) String() string {
	var parts []string
	for i := range a.Devices {
		d := &a.Devices[i]
		gpus := strings.Trim(strings.ReplaceAll(fmt.Sprint(d.GPUs), " ", ","), "[]")
		share := fmt.Sprintf("%s of %v", d.share(), d.Mechanism)
		if d.Profile != "" {
			share = fmt.Sprintf("MIG %s at %d", d.Profile, d.Start)
		}
		parts = append(parts, fmt.Sprintf("GPU %s as %s", gpus, share))
	}
	return strings.Join(parts, ", ") + " on " + a.Node
}

// maxDevices bounds the length of an annotation's list.
const maxDevices = 1024

// ReadAllocation reads an allocation from a pod's annotations, as Annotations wrote them. It returns nil where there
// are none, or where they are of another node. The error is an ErrInvalid for their form; NewState checks whether
// the allocation is possible.
func ReadAllocation(p *v1.Pod) (*Allocation, error) {
	text, ok := p.Annotations[AnnotationGPU]
	if !ok || p.Annotations[AnnotationNode] != p.Spec.NodeName {
		return nil, nil
	}
	gpus := strings.Split(text, ";")
	mechanisms := strings.Split(p.Annotations[AnnotationMechanism], ";")
	shares := strings.Split(p.Annotations[AnnotationShare], ";")
	if len(gpus) != len(mechanisms) || len(gpus) != len(shares) || len(gpus) > maxDevices {
		return nil, fmt.Errorf("%w: annotations %s, %s and %s have %d, %d and %d entries", ErrInvalid,
			AnnotationGPU, AnnotationMechanism, AnnotationShare, len(gpus), len(mechanisms), len(shares))
	}
	a := &Allocation{Node: p.Spec.NodeName}
	for i := range gpus {
		d, err := readDevice(gpus[i], mechanisms[i], shares[i])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		a.Devices = append(a.Devices, d)
	}
	return a, nil
}

func readDevice(gpus, mechanism, share string) (Device, error) {
	var d Device
	var err error
	for part := range strings.SplitSeq(gpus, ",") {
		g, err := strconv.Atoi(part)
		if err != nil || g < 0 || g >= placement.MaxGPUs || strconv.Itoa(g) != part {
			return d, fmt.Errorf("annotation %s: %.40q is no index of a GPU", AnnotationGPU, part)
		}
		if len(d.GPUs) > 0 && g <= d.GPUs[len(d.GPUs)-1] {
			return d, fmt.Errorf("annotation %s: %.40q is not ascending", AnnotationGPU, gpus)
		}
		d.GPUs = append(d.GPUs, g)
	}
	if d.Mechanism, err = sharing.ParseMechanism(mechanism); err != nil {
		return d, fmt.Errorf("annotation %s: %w", AnnotationMechanism, err)
	}
	if profile, start, ok := strings.Cut(share, "@"); ok {
		name, err := mig.ParseName(profile)
		if d.Start, _ = strconv.Atoi(start); err != nil || strconv.Itoa(d.Start) != start || d.Start < 0 {
			return d, fmt.Errorf("annotation %s: %.40q is no MIG instance", AnnotationShare, share)
		}
		d.Profile = name.String()
		return d, nil
	}
	if number, ok := strings.CutSuffix(share, "Mi"); ok {
		mib, err := strconv.ParseInt(number, 10, 64)
		if err != nil || mib < 0 || mib > maxGPUMemoryMiB || strconv.FormatInt(mib, 10) != number {
			return d, fmt.Errorf("annotation %s: %.40q is no memory", AnnotationShare, share)
		}
		d.Memory = sharing.Bytes(mib) * sharing.MiB
		return d, nil
	}
	number, ok := strings.CutSuffix(share, "m")
	if d.Milli, err = strconv.Atoi(number); !ok || err != nil || d.Milli < 1 || d.Milli > 1000 ||
		strconv.Itoa(d.Milli) != number {
		return d, fmt.Errorf("annotation %s: %.40q is no share: 1m to 1000m", AnnotationShare, share)
	}
	return d, nil
}

// ReadRunning reads a pod that is bound to a node, or reserved there, for NewState. reserved is an allocation
// that the pod's annotations do not have yet; nil leaves it to the annotations, ours or
// HAMi's. A pod that ended holds nothing, one that was bound with an invalid request is taken by its
// resources, and one that is bound nowhere is nominated. notes are the faults.
func ReadRunning(p *v1.Pod, n *Node, reserved *Allocation) (r Running, notes []string) {
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return Running{}, nil
	}
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
	case n != nil && n.Delivery == sharing.DeliveryHAMi && p.Annotations[AnnotationHAMiAllocated] != "":
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
