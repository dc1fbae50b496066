package sharing

// Delivery is how a mechanism reaches containers or virtual machines. It is
// not a mechanism. The zero value is Bare.
type Delivery uint8

// The deliveries.
const (
	Bare         Delivery = iota // no orchestrator: processes on a node
	DevicePlugin                 // NVIDIA k8s-device-plugin
	GPUOperator                  // NVIDIA GPU Operator, which deploys the plugin and mig-manager
	DRA                          // NVIDIA DRA driver
	HAMiDelivery                 // HAMi's scheduler and device plugin
	Volcano                      // Volcano with its vGPU device plugin
	KAI                          // KAI scheduler
	VGPUManager                  // a hypervisor with NVIDIA's vGPU manager
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
	case m == None || int(m) >= MechanismCount:
		return Finding{No, "none is not a way to run", BasisDerived, "READING"}
	case m == InServer && d != VGPUManager:
		return Finding{Yes, "the server is a workload with a GPU of its own", BasisInferred, "READING"}
	case m == Research:
		return Finding{Unknown, "depends on the system", BasisDocumented, "mps.c5"}
	case (m == VGPU || m == MIGBackedVGPU) && d != VGPUManager:
		return Finding{No, "virtual GPUs are made by the vGPU manager of a hypervisor", BasisDocumented, "VGPU"}
	case d == VGPUManager && m != VGPU && m != MIGBackedVGPU:
		return Finding{No, "the vGPU manager makes virtual GPUs and nothing else", BasisDocumented, "VGPU"}
	case (m == HAMi || m == HAMiWithMPS) && (d == DevicePlugin || d == GPUOperator || d == DRA):
		return Finding{No, "HAMi brings a scheduler and a device plugin of its own", BasisDocumented, "HAMI"}
	}
	return Finding{Unknown, "no source read says", BasisUnknown, "mps.c1"}
}

type deliveryKey struct {
	d Delivery
	m Mechanism
}

func yes(src SourceID, text string) Finding { return Finding{Yes, text, BasisDocumented, src} }
func no(src SourceID, text string) Finding  { return Finding{No, text, BasisDocumented, src} }

var deliveryTable = map[deliveryKey]Finding{
	{Bare, Exclusive}:        yes("mps.b1", "a process with the GPU to itself"),
	{Bare, TimeSlicing}:      yes("mps.b1", "what the driver does with several processes on a GPU"),
	{Bare, MPS}:              yes("MOLD", "run nvidia-cuda-mps-control on the node"),
	{Bare, MIG}:              yes("mig.b1", "nvidia-smi mig or NVML, with admin rights or the mig/config capability"),
	{Bare, MIGWithMPS}:       yes("mps.a9", "one daemon with its own pipe directory per MIG device"),
	{Bare, MIGLikeEmulation}: yes("F8", "an MPS percentage and the framework's memory fraction"),

	{DevicePlugin, Exclusive}:        yes("KDP", "nvidia.com/gpu: 1"),
	{DevicePlugin, TimeSlicing}:      yes("KDP", "sharing.timeSlicing with replicas of at least 2; on MIG devices too; per node, no slice length"),
	{DevicePlugin, MPS}:              yes("KDP", "sharing.mps with equal shares, whole GPUs only; called experimental; at most 48 replicas, 16 on V100"),
	{DevicePlugin, MIG}:              yes("KDP", "migStrategy single or mixed; instances must be made beforehand"),
	{DevicePlugin, MIGWithMPS}:       no("KDP", "it refuses MPS on MIG devices"),
	{DevicePlugin, MIGLikeEmulation}: yes("KDP", "sharing.mps, and the framework's flags in the pod"),

	{GPUOperator, Exclusive}:        yes("GPUOP", "as the device plugin, which it deploys"),
	{GPUOperator, TimeSlicing}:      yes("GPUOP", "devicePlugin.config with the plugin's sharing.timeSlicing"),
	{GPUOperator, MPS}:              yes("GPUOP", "devicePlugin.config with the plugin's sharing.mps; the daemon runs where nvidia.com/mps.capable is true"),
	{GPUOperator, MIG}:              yes("GPUOP", "mig-manager applies a mig-parted configuration by node label"),
	{GPUOperator, MIGWithMPS}:       no("KDP", "the device plugin it deploys refuses MPS on MIG devices"),
	{GPUOperator, MIGLikeEmulation}: yes("GPUOP", "as the device plugin"),

	{DRA, Exclusive}:        yes("DRA", "a claim for one GPU"),
	{DRA, TimeSlicing}:      yes("DRA", "gate TimeSlicingSettings (alpha, off by default); the containers of one claim share"),
	{DRA, MPS}:              yes("DRA", "gate MPSSupport (alpha, off by default); one daemon per claim, so only its containers share; no static partitions"),
	{DRA, MIG}:              yes("DRA", "a claim for a MIG device; instances on demand with DynamicMIG"),
	{DRA, MIGWithMPS}:       yes("DRA", "MigDeviceConfig with strategy MPS on static MIG; not with DynamicMIG"),
	{DRA, MIGLikeEmulation}: yes("DRA", "as MPS, and the framework's flags in the pod"),

	{HAMiDelivery, Exclusive}:   yes("HAMI", "gpumem-percentage 100 and gpucores 100"),
	{HAMiDelivery, MIG}:         yes("HAMI", "annotation vgpu-mode: mig; instances are made and reclaimed per pod"),
	{HAMiDelivery, HAMi}:        yes("HAMI", "annotation vgpu-mode: hami-core, the default"),
	{HAMiDelivery, HAMiWithMPS}: yes("HAMI", "annotation vgpu-mode: mps"),
	{HAMiDelivery, MIGWithMPS}:  no("HAMI", "a pod has one mode: hami-core, mig or mps"),

	{Volcano, HAMi}:        yes("VVGPU", "annotation volcano.sh/vgpu-mode: hami-core"),
	{Volcano, MIG}:         yes("VVGPU", "annotation volcano.sh/vgpu-mode: mig"),
	{Volcano, HAMiWithMPS}: no("VVGPU", "its modes are hami-core and mig"),
	{Volcano, MIGWithMPS}:  no("VVGPU", "its modes are hami-core and mig"),

	{KAI, Exclusive}:   yes("KAI", "a pod that asks for a whole GPU"),
	{KAI, TimeSlicing}: yes("KAI", "annotation gpu-fraction or gpu-memory; it schedules and enforces nothing, and the pod must not ask for nvidia.com/gpu too"),
	{KAI, MPS}:         {Unknown, "only with an MPS daemon run on the host beforehand; a mode of its own is in forks that need driver r615", BasisDocumented, "KAI"},
	{KAI, HAMi}:        {Unknown, "no source read says", BasisUnknown, "KAI"},

	{VGPUManager, VGPU}:          yes("VGPU", "time-sliced vGPU types"),
	{VGPUManager, MIGBackedVGPU}: yes("VGPU", "MIG-backed vGPU types"),
}
