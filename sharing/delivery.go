package sharing

import "github.com/cotenant/cotenant/internal/enum"

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

// Delivers answers whether d can deliver m, and under which conditions. What no source says is Unknown.
func Delivers(d Delivery, m Mechanism) Finding {
	if f, ok := deliveryTable[deliveryKey{d, m}]; ok {
		return f
	}
	switch {
	case m == MechanismNone || int(m) >= MechanismCount:
		return Finding{AnswerNo, "none is not a way to run", BasisDerived, "cotenant-reading"}
	case m == MechanismInServer && d != DeliveryVGPUManager:
		return Finding{AnswerYes, "the server is a workload with a GPU of its own", BasisInferred, "cotenant-reading"}
	case m == MechanismResearch:
		return Finding{AnswerUnknown, "depends on the system", BasisInferred, "cotenant-reading"}
	case (m == MechanismVGPU || m == MechanismMIGBackedVGPU) && d != DeliveryVGPUManager:
		return Finding{AnswerNo, "virtual GPUs are made by the vGPU manager of a hypervisor", BasisDocumented,
			"nvidia-vgpu-guide"}
	case d == DeliveryVGPUManager && m != MechanismVGPU && m != MechanismMIGBackedVGPU:
		return Finding{AnswerNo, "the vGPU manager makes virtual GPUs and nothing else", BasisDocumented, "nvidia-vgpu-guide"}
	case (m == MechanismHAMi || m == MechanismHAMiWithMPS) &&
		(d == DeliveryDevicePlugin || d == DeliveryGPUOperator || d == DeliveryDRA):
		return Finding{AnswerNo, "HAMi brings a scheduler and a device plugin of its own", BasisDocumented, "hami"}
	}
	return Finding{AnswerUnknown, "no source read says", BasisUnknown, "cotenant-reading"}
}

type deliveryKey struct {
	d Delivery
	m Mechanism
}

func yes(src SourceID, text string) Finding { return Finding{AnswerYes, text, BasisDocumented, src} }
func no(src SourceID, text string) Finding  { return Finding{AnswerNo, text, BasisDocumented, src} }

var deliveryTable = map[deliveryKey]Finding{
	{DeliveryBare, MechanismExclusive}: yes("nvidia-mps-guide-architecture", "a process with the GPU to itself"),
	{DeliveryBare, MechanismTimeSlicing}: yes("nvidia-mps-guide-architecture",
		"what the driver does with several processes on a GPU"),
	{DeliveryBare, MechanismMPS}: yes("nvidia-mps-guide", "run nvidia-cuda-mps-control on the node"),
	{DeliveryBare, MechanismMIG}: yes("nvidia-nvml-api",
		"nvidia-smi mig or NVML, with admin rights or the mig/config capability"),
	{DeliveryBare, MechanismMIGWithMPS}: yes("nvidia-mig-guide",
		"one daemon with its own pipe directory per MIG device"),
	{DeliveryBare, MechanismMIGLikeEmulation}: yes("jabrayilov-gpushare",
		"an MPS percentage and the framework's memory fraction"),

	{DeliveryDevicePlugin, MechanismExclusive}: yes("k8s-device-plugin", "nvidia.com/gpu: 1"),
	{DeliveryDevicePlugin, MechanismTimeSlicing}: yes("k8s-device-plugin", "sharing.timeSlicing with replicas of "+
		"at least 2; on MIG devices too; per node, no slice length"),
	{DeliveryDevicePlugin, MechanismMPS}: yes("k8s-device-plugin-mps", "sharing.mps with equal shares, "+
		"whole GPUs only; called experimental; at most 48 replicas, 16 on V100"),
	{DeliveryDevicePlugin, MechanismMIG}: yes("k8s-device-plugin",
		"migStrategy single or mixed; instances must be made beforehand"),
	{DeliveryDevicePlugin, MechanismMIGWithMPS}: no("k8s-device-plugin", "it refuses MPS on MIG devices"),
	{DeliveryDevicePlugin, MechanismMIGLikeEmulation}: yes("k8s-device-plugin",
		"sharing.mps, and the framework's flags in the pod"),

	{DeliveryGPUOperator, MechanismExclusive}: yes("nvidia-gpu-operator", "as the device plugin, which it deploys"),
	{DeliveryGPUOperator, MechanismTimeSlicing}: yes("nvidia-gpu-operator",
		"devicePlugin.config with the plugin's sharing.timeSlicing"),
	{DeliveryGPUOperator, MechanismMPS}: yes("nvidia-gpu-operator", "devicePlugin.config with the plugin's "+
		"sharing.mps; the daemon runs where nvidia.com/mps.capable is true"),
	{DeliveryGPUOperator, MechanismMIG}: yes("nvidia-gpu-operator",
		"mig-manager applies a mig-parted configuration by node label"),
	{DeliveryGPUOperator, MechanismMIGWithMPS}: no("k8s-device-plugin",
		"the device plugin it deploys refuses MPS on MIG devices"),
	{DeliveryGPUOperator, MechanismMIGLikeEmulation}: yes("nvidia-gpu-operator", "as the device plugin"),

	{DeliveryDRA, MechanismExclusive}: yes("nvidia-dra-driver", "a claim for one GPU"),
	{DeliveryDRA, MechanismTimeSlicing}: yes("nvidia-dra-driver",
		"gate TimeSlicingSettings (alpha, off by default); the containers of one claim share"),
	{DeliveryDRA, MechanismMPS}: yes("nvidia-dra-driver", "gate MPSSupport (alpha, off by default); one "+
		"daemon per claim, so only its containers share; no static partitions"),
	{DeliveryDRA, MechanismMIG}: yes("nvidia-dra-driver",
		"a claim for a MIG device; instances on demand with DynamicMIG"),
	{DeliveryDRA, MechanismMIGWithMPS}: yes("nvidia-dra-driver",
		"MigDeviceConfig with strategy MPS on static MIG; not with DynamicMIG"),
	{DeliveryDRA, MechanismMIGLikeEmulation}: yes("nvidia-dra-driver", "as MPS, and the framework's flags in the pod"),

	{DeliveryHAMi, MechanismExclusive}: yes("hami", "gpumem-percentage 100 and gpucores 100"),
	{DeliveryHAMi, MechanismMIG}: yes("hami",
		"annotation vgpu-mode: mig; instances are made and reclaimed per pod"),
	{DeliveryHAMi, MechanismHAMi}:        yes("hami", "annotation vgpu-mode: hami-core, the default"),
	{DeliveryHAMi, MechanismHAMiWithMPS}: yes("hami", "annotation vgpu-mode: mps"),
	{DeliveryHAMi, MechanismMIGWithMPS}:  no("hami", "a pod has one mode: hami-core, mig or mps"),

	{DeliveryVolcano, MechanismHAMi}:        yes("volcano-vgpu", "annotation volcano.sh/vgpu-mode: hami-core"),
	{DeliveryVolcano, MechanismMIG}:         yes("volcano-vgpu", "annotation volcano.sh/vgpu-mode: mig"),
	{DeliveryVolcano, MechanismHAMiWithMPS}: no("volcano-vgpu", "its modes are hami-core and mig"),
	{DeliveryVolcano, MechanismMIGWithMPS}:  no("volcano-vgpu", "its modes are hami-core and mig"),

	{DeliveryKAI, MechanismExclusive}: yes("kai-gpu-sharing", "a pod that asks for a whole GPU"),
	{DeliveryKAI, MechanismTimeSlicing}: yes("kai-gpu-sharing-modes", "annotation gpu-fraction or gpu-memory, and the "+
		"pod must not ask for nvidia.com/gpu too; memory is enforced from 0.18 in mode NvFractions and from 0.17 with "+
		"HAMi-core, before and by default nothing is"),
	{DeliveryKAI, MechanismMPS}: {AnswerUnknown, "from 0.18 in mode NvFractions, by annotation gpu-compute.mode: " +
		"sm-sharing, with driver r615; otherwise only with an MPS daemon run on the host beforehand", BasisDocumented,
		"kai-gpu-fractioning"},
	{DeliveryKAI, MechanismHAMi}: {AnswerUnknown,
		"from 0.17 HAMi-core holds the memory of KAI's fractions; compute is not limited", BasisDocumented,
		"kai-hami-isolation"},

	{DeliveryVGPUManager, MechanismVGPU}:          yes("nvidia-vgpu-guide", "time-sliced vGPU types"),
	{DeliveryVGPUManager, MechanismMIGBackedVGPU}: yes("nvidia-vgpu-guide", "MIG-backed vGPU types"),
}
