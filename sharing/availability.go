// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
)

// Finding is a three-valued answer with its reason and its source.
type Finding struct {
	Answer Answer
	Text   string
	Basis  Basis
	Source SourceID
}

// Available answers whether the hardware and driver of env can run m. It checks hardware only: Text names a licence,
// hypervisor, plugin or scheduler that is needed too. Facts missing from env give Unknown, never No.
func Available(m Mechanism, env Environment) Finding {
	switch m {
	case MechanismNone:
		return Finding{AnswerNo, "none is not a way to run", BasisDerived, "cotenant-reading"}
	case MechanismExclusive:
		return Finding{AnswerYes, "every GPU can be given to one workload", BasisDerived, "cotenant-reading"}
	case MechanismInServer:
		return Finding{AnswerYes, "the server has the whole GPU; the framework must be able to multiplex", basisInferred,
			"cotenant-reading"}
	case MechanismResearch:
		return Finding{AnswerUnknown, "no system of this class ships as a product; whether one runs here depends on the " +
			"system, its framework and its kernels", basisInferred, "cotenant-reading"}
	}
	if env.GPU == nil {
		return Finding{AnswerUnknown, "the GPU is not known", BasisUnknown, "cotenant-reading"}
	}
	switch m {
	case MechanismTimeSlicing:
		return Finding{AnswerYes, "the driver time-slices contexts on every CUDA GPU", BasisDocumented,
			"nvidia-mps-guide-architecture"}
	case MechanismMPS, MechanismMIGLikeEmulation:
		return mpsAvailable(env)
	case MechanismMIG:
		return migAvailable(env)
	case MechanismMIGWithMPS:
		f := migAvailable(env)
		if f.Answer == AnswerYes {
			f = Finding{AnswerYes, "the driver runs one MPS server in each GPU instance; the device plugin refuses this, the " +
				"DRA driver allows it on static MIG", BasisDocumented, "nvidia-mig-guide"}
		}
		return f
	case MechanismHAMi:
		return Finding{AnswerYes, "HAMi-core hooks the CUDA driver library and needs no hardware feature", BasisDocumented,
			"hami"}
	case MechanismHAMiWithMPS:
		return mpsAvailable(env)
	case MechanismVGPU:
		return vgpuAvailable(env)
	case MechanismMIGBackedVGPU:
		if f := migAvailable(env); f.Answer != AnswerYes {
			return f
		}
		return vgpuAvailable(env)
	}
	return Finding{AnswerUnknown, "not a mechanism", BasisUnknown, "cotenant-reading"}
}

func mpsAvailable(env Environment) Finding {
	switch a := env.GPU.Architecture; {
	case a == ArchitectureUnknown:
		return Finding{AnswerUnknown, "MPS needs compute capability 3.5; that of this GPU is not known", BasisDocumented,
			"nvidia-mps-guide"}
	case strings.HasPrefix(env.GPU.Name, "Jetson "):
		return Finding{AnswerUnknown, "only the newest JetPack has MPS; state it among the pool's mechanisms where it runs",
			BasisDocumented, "nvidia-jetson-modules"}
	case a < ArchitectureVolta:
		return Finding{AnswerYes, "MPS runs, but before Volta it protects no memory and takes 16 clients", BasisDocumented,
			"nvidia-mps-guide"}
	}
	return Finding{AnswerYes, "MPS runs on this GPU (Linux and QNX only)", BasisDocumented, "nvidia-mps-guide"}
}

func migAvailable(env Environment) Finding {
	g := env.GPU
	if !g.MIG.Known {
		return Finding{AnswerUnknown, "no source says whether this GPU has MIG; NVML answers on the device", BasisUnknown,
			"nvidia-nvml-api"}
	}
	switch {
	case g.MIG.Value != AnswerYes:
		src, _ := SourceByID(g.MIG.Source)
		return Finding{AnswerNo, "this GPU has no MIG", src.Basis, g.MIG.Source}
	case g.MIGMinDriver.Known && env.Driver.atLeast(g.MIGMinDriver.Value) == AnswerNo:
		return Finding{AnswerNo, "MIG on this GPU needs a newer driver", BasisDocumented, g.MIGMinDriver.Source}
	}
	return Finding{AnswerYes, "this GPU has MIG", BasisDocumented, g.MIG.Source}
}

func vgpuAvailable(env Environment) Finding {
	v, known := env.GPU.VGPU.Get()
	switch {
	case !known:
		return Finding{AnswerUnknown, "no source read lists vGPU types for this GPU", BasisUnknown, "nvidia-kernel-names"}
	case v != AnswerYes:
		return Finding{AnswerNo, "NVIDIA vGPU has no types for this GPU", BasisDocumented, env.GPU.VGPU.Source}
	}
	return Finding{AnswerYes, "the driver lists vGPU types for this GPU; a licence, a hypervisor and its vGPU manager " +
		"are needed", BasisDocumented, env.GPU.VGPU.Source}
}

// MPSClientLimit returns the number of CUDA contexts that MPS accepts at a time on one GPU under driver d. It counts
// contexts, not processes, and holds for the default CUDA_DEVICE_MAX_CONNECTIONS.
//
// The finding qualifies the number: Yes if a source gives it for this GPU and driver; Unknown if it is the smallest of
// all possible GPUs and drivers, and so safe to plan with: 16 (before Volta) without a GPU, 48 on Volta and later
// without a known driver.
func MPSClientLimit(g *GPU, d Driver) (Cell[int], Finding) {
	limit := func(n int, answer Answer, text string, basis Basis, source SourceID) (Cell[int], Finding) {
		return KnownCell(n, source), Finding{answer, text, basis, source}
	}
	switch {
	case g == nil || g.Architecture == ArchitectureUnknown:
		return limit(16, AnswerUnknown, "the GPU is not known: 16 is the lowest limit, that of GPUs before Volta",
			BasisDocumented, "nvidia-mps-guide")
	case g.Architecture < ArchitectureVolta:
		return limit(16, AnswerYes, "GPUs before Volta take 16 contexts", BasisDocumented, "nvidia-mps-guide")
	case d.Major >= 590: // brings CUDA 13.1, 580 13.0 (nvidia-cuda-release-notes)
		return limit(60, AnswerYes, "Volta and later take 60 contexts from CUDA 13.1", BasisDocumented,
			"nvidia-mps-guide-limits")
	case d.Major == 580:
		return limit(48, AnswerYes, "Volta and later take 48 contexts up to CUDA 13.0; "+
			"the 49th fails, measured on driver 580", BasisMeasured, "cotenant-h200-mps")
	case d.Major > 0 && d.Major < 580:
		return limit(48, AnswerYes, "Volta and later take 48 contexts up to CUDA 13.0", BasisDocumented, "nvidia-mps-guide")
	}
	return limit(48, AnswerUnknown, "the driver is not known: 48 contexts up to CUDA 13.0, 60 from CUDA 13.1",
		BasisDocumented, "nvidia-mps-guide")
}

// Delivery is the way in which a mechanism reaches containers or virtual machines. It is
// not a mechanism. The zero value is DeliveryBare.
type Delivery uint8

// The deliveries.
const (
	DeliveryBare         Delivery = iota // no orchestrator: processes on a node
	DeliveryDevicePlugin                 // NVIDIA k8s-device-plugin
	DeliveryGPUOperator                  // NVIDIA GPU Operator, which deploys the plugin and mig-manager
	DeliveryDRA                          // NVIDIA DRA driver
	DeliveryHAMi                         // HAMi's scheduler and device plugin
	DeliveryVolcano                      // Volcano with its vGPU device plugin
	DeliveryKAI                          // KAI scheduler
	DeliveryVGPUManager                  // a hypervisor with NVIDIA's vGPU manager
)

var deliveryNames = enum.Of[Delivery](ErrUnknownName, "delivery", "bare", "device-plugin", "gpu-operator", "dra",
	"hami", "volcano", "kai", "vgpu-manager")

// Deliveries lists every delivery in the order of their values.
func Deliveries() []Delivery { return deliveryNames.Values() }

// Delivers answers whether d can deliver m, and under which conditions. Without a source the answer is Unknown.
func Delivers(d Delivery, m Mechanism) Finding {
	rows := deliveryRows()
	i := slices.IndexFunc(rows, func(r deliveryRow) bool {
		return (r.Deliveries == nil || slices.Contains(r.Deliveries, d)) &&
			(r.Mechanisms == nil || slices.Contains(r.Mechanisms, m))
	})
	if i < 0 {
		return Finding{AnswerUnknown, "no source read says", BasisUnknown, "cotenant-reading"}
	}
	return rows[i].Finding
}

// deliveryRow is a row of the table, of which the first that holds answers. Without a list it holds for all.
type deliveryRow struct {
	Deliveries []Delivery
	Mechanisms []Mechanism
	Finding
}

var deliveryRows = table[deliveryRow]("deliveries.json")
