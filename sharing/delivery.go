package sharing

import (
	"sync"

	"github.com/cotenant/cotenant/internal/enum"
)

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
	if f, ok := deliveryTable()[deliveryKey{d, m}]; ok {
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

// deliveryRow is a row of the table.
type deliveryRow struct {
	Delivery  Delivery
	Mechanism Mechanism
	Finding
}

type deliveryKey struct {
	d Delivery
	m Mechanism
}

var deliveryRows = table[deliveryRow]("deliveries.json")

var deliveryTable = sync.OnceValue(func() map[deliveryKey]Finding {
	t := map[deliveryKey]Finding{}
	for _, r := range deliveryRows() {
		t[deliveryKey{r.Delivery, r.Mechanism}] = r.Finding
	}
	return t
})
