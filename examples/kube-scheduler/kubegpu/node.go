// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// Node is a Kubernetes node with its GPUs, as package discover reads them. It is read-only.
type Node struct {
	discover.NodeGPUs
	// Problems are contradictions between its labels and its capacity: nothing is
	// placed on such a node. Notes are oddities that do no harm.
	Problems, Notes []string
}

// Choice returns among how many GPUs the kubelet picks for a pod, or HAMi's own scheduler extender, whichever was
// decided; 1 where the pod gets that one.
func (n *Node) Choice() int {
	if n.Mechanism == sharing.MechanismExclusive || n.hasMIG() {
		return 1
	}
	return len(n.Devices)
}

func (n *Node) hasMIG() bool {
	return slices.ContainsFunc(n.Devices, func(d layout.Device) bool { return d.Mode == sharing.MechanismMIG })
}

// contradictions are the codes of findings that keep pods from a node.
var contradictions = []string{"annotation-unreadable", "gpus-differ", "label-lies", "label-unreadable", "mig-invalid",
	"mig-instances-shared", "mig-model-unknown", "mps-and-mig", "mps-not-capable", "replicas-without-sharing",
	"sharing-without-replicas", "two-managers"}

// ReadNode reads a node. It returns nil for a node that offers no GPU. Labels that contradict each other, the
// resources or the GPU table are the result's Problems, never an error: other nodes are still fine.
func ReadNode(n *v1.Node) *Node {
	text := func(from v1.ResourceList) map[string]string {
		out := make(map[string]string, len(from))
		for name, q := range from {
			out[string(name)] = q.String()
		}
		return out
	}
	a := n.Status.Allocatable
	out := &Node{NodeGPUs: *discover.ReadNode(&discover.KubeNode{Name: n.Name, Labels: n.Labels,
		Annotations: n.Annotations, Capacity: text(n.Status.Capacity), Allocatable: text(a)})}
	out.CPUMilli, out.Memory = max(0, a.Cpu().MilliValue()), max(0, sharing.Bytes(a.Memory().Value()))
	for _, f := range out.Findings {
		if slices.Contains(contradictions, f.Code) {
			out.Problems = append(out.Problems, f.Message)
		} else {
			out.Notes = append(out.Notes, f.Message)
		}
	}
	if len(out.Devices) == 0 && len(out.Problems) == 0 {
		return nil
	}
	return out
}

const maxGPUMemoryMiB = placement.MaxMemory / int64(sharing.MiB)

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

// ErrInvalid is matched by every error about an input; the error names every problem with its path.
var ErrInvalid = errors.New("kubegpu: invalid")

// Resources that pods ask for and nodes offer.
const (
	ResourceGPU       v1.ResourceName = "nvidia.com/gpu"
	ResourceShared    v1.ResourceName = "nvidia.com/gpu.shared"
	ResourceMIGPrefix                 = "nvidia.com/mig-"

	// HAMi's: MiB of each card, percent of its memory, percent of its compute.
	ResourceMemory        v1.ResourceName = "nvidia.com/gpumem"
	ResourceMemoryPercent v1.ResourceName = "nvidia.com/gpumem-percentage"
	ResourceCores         v1.ResourceName = "nvidia.com/gpucores"

	// ResourceMilli is thousandths of a GPU. With a number of GPUs it is their
	// sum; by itself it asks for one GPU below 1000, and for whole ones above.
	ResourceMilli v1.ResourceName = "cotenant.dev/gpu-milli"
)

// Annotations that HAMi writes.
const (
	AnnotationHAMiRegister  = "hami.io/node-nvidia-register"   // on nodes
	AnnotationHAMiAllocated = "hami.io/vgpu-devices-allocated" // on pods
)

// Annotations of pods that say more of a request than resources can.
const (
	AnnotationTenant      = "cotenant.dev/tenant"       // default: the namespace
	AnnotationTrusts      = "cotenant.dev/trusts"       // tenants, divided by commas
	AnnotationMechanisms  = "cotenant.dev/mechanisms"   // those that will do, best first
	AnnotationModels      = "cotenant.dev/models"       // GPU models that will do
	AnnotationGPUMemory   = "cotenant.dev/gpu-memory"   // of each GPU, "20GiB"
	AnnotationKind        = "cotenant.dev/kind"         // workload kind, "online-inference"
	AnnotationWorkload    = "cotenant.dev/workload"     // name of its profile
	AnnotationMaxSlowdown = "cotenant.dev/max-slowdown" // objective: times slower than isolated
	AnnotationTTFT        = "cotenant.dev/ttft-p99"     // objectives: "800ms"
	AnnotationTPOT        = "cotenant.dev/tpot-p99"
	AnnotationE2E         = "cotenant.dev/e2e-p99"
)

// Annotations of pods that say where they were placed.
const (
	AnnotationNode      = "cotenant.dev/node"
	AnnotationGPU       = "cotenant.dev/gpu"       // indexes, "0,1"; ";" divides containers
	AnnotationMechanism = "cotenant.dev/mechanism" // "mps"
	AnnotationShare     = "cotenant.dev/share"     // "250m" of each GPU, or "1g.10gb@4"
	AnnotationVerdict   = "cotenant.dev/verdict"   // for people
)
