package decision

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// trait is what scoring knows of a mechanism; what the gates know stands in
// [gate.Traits].
type trait struct {
	// aggregate is what saturated tenants together deliver of one GPU's work, a
	// prior.
	aggregate float64
	// complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (A2, D13, read for what has to be run and watched).
	complexity float64
	// tradeOff is what choosing it accepts (A19, a.8).
	tradeOff       string
	tradeOffSource sharing.SourceID
}

const (
	// mpsAggregate lies between 0.88 of dedicated GPUs for LLM servers at high
	// equal load (R6) and 1.93 for small vision models (R4): their geometric mean.
	mpsAggregate = 1.30
	// migAggregate lies between 98 of an A100's 108 SMs and 1.79 (R4).
	migAggregate = 1.28
	// hamiAggregate lies between 0.445 and 0.728 of dedicated GPUs (R5).
	hamiAggregate = 0.57
)

var traits = [sharing.MechanismCount]trait{
	sharing.MechanismNone: {},
	sharing.MechanismExclusive: {aggregate: 1,
		tradeOff: "whatever the replica leaves idle on its GPU stays idle", tradeOffSource: "F5"},
	sharing.MechanismTimeSlicing: {aggregate: gate.TurnsCapacity, complexity: 1,
		tradeOff: "no memory quota, no fault isolation, and a latency that grows with every busy neighbour", tradeOffSource: "A10"},
	sharing.MechanismMPS: {aggregate: mpsAggregate, complexity: 2,
		tradeOff: "a fatal GPU fault of one client takes all clients on that GPU with it, and limits hold per process", tradeOffSource: "MOLD"},
	sharing.MechanismMIG: {aggregate: migAggregate, complexity: 2,
		tradeOff: "a fixed slice: a lone tenant cannot use what its neighbours leave idle, and changing slices needs them empty", tradeOffSource: "R3"},
	sharing.MechanismMIGWithMPS: {aggregate: migAggregate, complexity: 3,
		tradeOff: "clients of one instance share faults, and the device plugin does not deliver it", tradeOffSource: "DRA"},
	sharing.MechanismHAMi: {aggregate: hamiAggregate, complexity: 2,
		tradeOff: "limits enforced inside the process: CUDA graphs pass the compute limit, faults are shared", tradeOffSource: "HCORE"},
	sharing.MechanismHAMiWithMPS: {aggregate: mpsAggregate, complexity: 3,
		tradeOff: "two control planes, and the fault domain of MPS", tradeOffSource: "HAMI"},
	sharing.MechanismVGPU: {aggregate: gate.TurnsCapacity, complexity: 3,
		tradeOff: "only the frame buffer is a tenant's own; the default scheduler guarantees no share; licences", tradeOffSource: "VGPU"},
	sharing.MechanismMIGBackedVGPU: {aggregate: migAggregate, complexity: 3,
		tradeOff: "fixed slices inside virtual machines; licences", tradeOffSource: "VGPU"},
	sharing.MechanismMIGLikeEmulation: {aggregate: mpsAggregate, complexity: 2,
		tradeOff: "a cap on SMs and a framework's own promise on memory: it isolates nothing", tradeOffSource: "F8"},
	sharing.MechanismInServer: {aggregate: 1, complexity: 2,
		tradeOff: "tenants share one process: its queue, its faults and its releases", tradeOffSource: "A19"},
	sharing.MechanismResearch: {aggregate: 1, complexity: 4,
		tradeOff: "research code for one framework or GPU generation", tradeOffSource: "TESS"},
}
