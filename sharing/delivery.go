package sharing

// Delivery is how a mechanism reaches containers or virtual machines. It is
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

var deliveryNames = [...]string{"bare", "device-plugin", "gpu-operator", "dra", "hami", "volcano", "kai", "vgpu-manager"}

// String returns the delivery's text, for example "device-plugin".
func (d Delivery) String() string { return enumName(deliveryNames[:], int(d), "Delivery") }

// MarshalText returns the delivery's text.
func (d Delivery) MarshalText() ([]byte, error) {
	return enumText(deliveryNames[:], int(d), "delivery")
}

// UnmarshalText reads a delivery's text.
func (d *Delivery) UnmarshalText(b []byte) error {
	i, err := enumParse(deliveryNames[:], b, "delivery")
	if err == nil {
		*d = Delivery(i)
	}
	return err
}

// Deliveries lists every delivery in the order of their values.
func Deliveries() []Delivery {
	ds := make([]Delivery, len(deliveryNames))
	for i := range ds {
		ds[i] = Delivery(i)
	}
	return ds
}

// Delivers answers whether d can deliver m, and under which conditions. What
// no source says is Unknown.
func Delivers(d Delivery, m Mechanism) Finding {
	if f, ok := deliveryTable[deliveryKey{d, m}]; ok {
		return f
	}
	switch {
	case m == MechanismNone || int(m) >= MechanismCount:
		return Finding{AnswerNo, "none is not a way to run", BasisDerived, "READING"}
	case m == MechanismInServer && d != DeliveryVGPUManager:
		return Finding{AnswerYes, "the server is a workload with a GPU of its own", BasisInferred, "READING"}
	case m == MechanismResearch:
		return Finding{AnswerUnknown, "depends on the system", BasisDocumented, "mps.c5"}
	case (m == MechanismVGPU || m == MechanismMIGBackedVGPU) && d != DeliveryVGPUManager:
		return Finding{AnswerNo, "virtual GPUs are made by the vGPU manager of a hypervisor", BasisDocumented, "VGPU"}
	case d == DeliveryVGPUManager && m != MechanismVGPU && m != MechanismMIGBackedVGPU:
		return Finding{AnswerNo, "the vGPU manager makes virtual GPUs and nothing else", BasisDocumented, "VGPU"}
	case (m == MechanismHAMi || m == MechanismHAMiWithMPS) && (d == DeliveryDevicePlugin || d == DeliveryGPUOperator || d == DeliveryDRA):
		return Finding{AnswerNo, "HAMi brings a scheduler and a device plugin of its own", BasisDocumented, "HAMI"}
	}
	return Finding{AnswerUnknown, "no source read says", BasisUnknown, "mps.c1"}
}

type deliveryKey struct {
	d Delivery
	m Mechanism
}

func yes(src SourceID, text string) Finding { return Finding{AnswerYes, text, BasisDocumented, src} }
func no(src SourceID, text string) Finding  { return Finding{AnswerNo, text, BasisDocumented, src} }

var deliveryTable = map[deliveryKey]Finding{
	{DeliveryBare, MechanismExclusive}:        yes("mps.b1", "a process with the GPU to itself"),
	{DeliveryBare, MechanismTimeSlicing}:      yes("mps.b1", "what the driver does with several processes on a GPU"),
	{DeliveryBare, MechanismMPS}:              yes("MOLD", "run nvidia-cuda-mps-control on the node"),
	{DeliveryBare, MechanismMIG}:              yes("mig.b1", "nvidia-smi mig or NVML, with admin rights or the mig/config capability"),
	{DeliveryBare, MechanismMIGWithMPS}:       yes("mps.a9", "one daemon with its own pipe directory per MIG device"),
	{DeliveryBare, MechanismMIGLikeEmulation}: yes("F8", "an MPS percentage and the framework's memory fraction"),

	{DeliveryDevicePlugin, MechanismExclusive}:        yes("KDP", "nvidia.com/gpu: 1"),
	{DeliveryDevicePlugin, MechanismTimeSlicing}:      yes("KDP", "sharing.timeSlicing with replicas of at least 2; on MIG devices too; per node, no slice length"),
	{DeliveryDevicePlugin, MechanismMPS}:              yes("KDP", "sharing.mps with equal shares, whole GPUs only; called experimental; at most 48 replicas, 16 on V100"),
	{DeliveryDevicePlugin, MechanismMIG}:              yes("KDP", "migStrategy single or mixed; instances must be made beforehand"),
	{DeliveryDevicePlugin, MechanismMIGWithMPS}:       no("KDP", "it refuses MPS on MIG devices"),
	{DeliveryDevicePlugin, MechanismMIGLikeEmulation}: yes("KDP", "sharing.mps, and the framework's flags in the pod"),

	{DeliveryGPUOperator, MechanismExclusive}:        yes("GPUOP", "as the device plugin, which it deploys"),
	{DeliveryGPUOperator, MechanismTimeSlicing}:      yes("GPUOP", "devicePlugin.config with the plugin's sharing.timeSlicing"),
	{DeliveryGPUOperator, MechanismMPS}:              yes("GPUOP", "devicePlugin.config with the plugin's sharing.mps; the daemon runs where nvidia.com/mps.capable is true"),
	{DeliveryGPUOperator, MechanismMIG}:              yes("GPUOP", "mig-manager applies a mig-parted configuration by node label"),
	{DeliveryGPUOperator, MechanismMIGWithMPS}:       no("KDP", "the device plugin it deploys refuses MPS on MIG devices"),
	{DeliveryGPUOperator, MechanismMIGLikeEmulation}: yes("GPUOP", "as the device plugin"),

	{DeliveryDRA, MechanismExclusive}:        yes("DRA", "a claim for one GPU"),
	{DeliveryDRA, MechanismTimeSlicing}:      yes("DRA", "gate TimeSlicingSettings (alpha, off by default); the containers of one claim share"),
	{DeliveryDRA, MechanismMPS}:              yes("DRA", "gate MPSSupport (alpha, off by default); one daemon per claim, so only its containers share; no static partitions"),
	{DeliveryDRA, MechanismMIG}:              yes("DRA", "a claim for a MIG device; instances on demand with DynamicMIG"),
	{DeliveryDRA, MechanismMIGWithMPS}:       yes("DRA", "MigDeviceConfig with strategy MPS on static MIG; not with DynamicMIG"),
	{DeliveryDRA, MechanismMIGLikeEmulation}: yes("DRA", "as MPS, and the framework's flags in the pod"),

	{DeliveryHAMi, MechanismExclusive}:   yes("HAMI", "gpumem-percentage 100 and gpucores 100"),
	{DeliveryHAMi, MechanismMIG}:         yes("HAMI", "annotation vgpu-mode: mig; instances are made and reclaimed per pod"),
	{DeliveryHAMi, MechanismHAMi}:        yes("HAMI", "annotation vgpu-mode: hami-core, the default"),
	{DeliveryHAMi, MechanismHAMiWithMPS}: yes("HAMI", "annotation vgpu-mode: mps"),
	{DeliveryHAMi, MechanismMIGWithMPS}:  no("HAMI", "a pod has one mode: hami-core, mig or mps"),

	{DeliveryVolcano, MechanismHAMi}:        yes("VVGPU", "annotation volcano.sh/vgpu-mode: hami-core"),
	{DeliveryVolcano, MechanismMIG}:         yes("VVGPU", "annotation volcano.sh/vgpu-mode: mig"),
	{DeliveryVolcano, MechanismHAMiWithMPS}: no("VVGPU", "its modes are hami-core and mig"),
	{DeliveryVolcano, MechanismMIGWithMPS}:  no("VVGPU", "its modes are hami-core and mig"),

	{DeliveryKAI, MechanismExclusive}:   yes("KAI", "a pod that asks for a whole GPU"),
	{DeliveryKAI, MechanismTimeSlicing}: yes("KAI", "annotation gpu-fraction or gpu-memory; it schedules and enforces nothing, and the pod must not ask for nvidia.com/gpu too"),
	{DeliveryKAI, MechanismMPS}:         {AnswerUnknown, "only with an MPS daemon run on the host beforehand; a mode of its own is in forks that need driver r615", BasisDocumented, "KAI"},
	{DeliveryKAI, MechanismHAMi}:        {AnswerUnknown, "no source read says", BasisUnknown, "KAI"},

	{DeliveryVGPUManager, MechanismVGPU}:          yes("VGPU", "time-sliced vGPU types"),
	{DeliveryVGPUManager, MechanismMIGBackedVGPU}: yes("VGPU", "MIG-backed vGPU types"),
}
