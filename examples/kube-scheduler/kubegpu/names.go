package kubegpu

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// ErrInvalid is matched by every error about an input; the error names every problem with its path.
var ErrInvalid = errors.New("kubegpu: invalid")

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrInvalid, err)
}

// Resources that pods ask for and nodes offer.
const (
	ResourceGPU       v1.ResourceName = "nvidia.com/gpu"
	ResourceShared    v1.ResourceName = "nvidia.com/gpu.shared"
	ResourceMIGPrefix                 = "nvidia.com/mig-"

	// HAMi's: MiB of each card, percent of its memory, percent of its compute.
	ResourceMemory        v1.ResourceName = "nvidia.com/gpumem"
	ResourceMemoryPercent v1.ResourceName = "nvidia.com/gpumem-percentage"
	ResourceCores         v1.ResourceName = "nvidia.com/gpucores"

	// ResourceMilli is thousandths of a GPU. Beside a number of GPUs it is their
	// sum; alone it asks for one GPU below 1000, and for whole ones above.
	ResourceMilli v1.ResourceName = "cotenant.dev/gpu-milli"
)

// Labels of nodes, as GPU Feature Discovery writes them, and one of ours.
const (
	LabelProduct  = "nvidia.com/gpu.product"
	LabelMemory   = "nvidia.com/gpu.memory" // MiB
	LabelCount    = "nvidia.com/gpu.count"
	LabelReplicas = "nvidia.com/gpu.replicas"
	LabelStrategy = "nvidia.com/gpu.sharing-strategy" // none, time-slicing, mps
	LabelMIG      = "nvidia.com/mig.strategy"         // none, single, mixed
	LabelMPS      = "nvidia.com/mps.capable"

	// LabelMechanism says what the GPUs of a node run that offers
	// cotenant.dev/gpu-milli; without it they time-slice, as any GPU does.
	LabelMechanism = "cotenant.dev/mechanism"
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
	AnnotationMaxSlowdown = "cotenant.dev/max-slowdown" // objective: times slower than alone
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
