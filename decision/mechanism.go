package decision

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// trait holds the figures by which a mechanism is scored; those of the gates stand in [gate.Traits].
type trait struct {
	// aggregate is the part of one GPU's work that saturated tenants deliver together, a prior.
	aggregate float64
	// complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (cotenant-reading: what has to be run and watched).
	complexity float64
	// tradeOff names what choosing it accepts.
	tradeOff       string
	tradeOffSource sharing.SourceID
	// risk is the worst of that in a few words; none of a whole GPU.
	risk string
}

const (
	// mpsAggregate lies between 0.88 of dedicated GPUs for LLM servers at high equal load (dynamo-gpu-sharing) and
	// 1.93 for small vision models (nos-gpu-sharing): their geometric mean.
	mpsAggregate = 1.30
	// migAggregate lies between 98 of an A100's 108 SMs and 1.79 (nos-gpu-sharing).
	migAggregate = 1.28
	// hamiAggregate lies between 0.445 and 0.728 of dedicated GPUs (dynamo-gpu-sharing).
	hamiAggregate = 0.57
)

var traits = [sharing.MechanismCount]trait{
	sharing.MechanismNone: {},
	sharing.MechanismExclusive: {aggregate: 1,
		tradeOff: "whatever the replica leaves idle on its GPU stays idle", tradeOffSource: "cotenant-reading"},
	sharing.MechanismTimeSlicing: {aggregate: gate.TurnsCapacity, complexity: 1,
		tradeOff:       "no memory quota, no fault isolation, and a latency that grows with every busy neighbour",
		tradeOffSource: "nvidia-gpu-operator-sharing", risk: "nothing limits a neighbour's memory, and faults spread"},
	sharing.MechanismMPS: {aggregate: mpsAggregate, complexity: 2,
		tradeOff:       "a fatal GPU fault of one client takes all clients on that GPU with it, and limits hold per process",
		tradeOffSource: "nvidia-mps-guide", risk: "a fatal fault of one ends all on its GPU"},
	sharing.MechanismMIG: {aggregate: migAggregate, complexity: 2,
		tradeOff: "a fixed slice: a lone tenant cannot use what its neighbours leave idle, and changing slices needs them " +
			"empty", tradeOffSource: "nos-gpu-sharing", risk: "a slice stays as it is until it is empty"},
	sharing.MechanismMIGWithMPS: {aggregate: migAggregate, complexity: 3,
		tradeOff:       "clients of one instance share faults, and the device plugin does not deliver it",
		tradeOffSource: "nvidia-dra-driver", risk: "a fatal fault of one ends all in its instance"},
	sharing.MechanismHAMi: {aggregate: hamiAggregate, complexity: 2,
		tradeOff:       "limits enforced inside the process: CUDA graphs pass the compute limit, faults are shared",
		tradeOffSource: "hami-core-graphs", risk: "limits hold inside the process only, and faults spread"},
	sharing.MechanismHAMiWithMPS: {aggregate: mpsAggregate, complexity: 3,
		tradeOff: "two control planes, and the fault domain of MPS", tradeOffSource: "hami",
		risk: "a fatal fault of one ends all on its GPU"},
	sharing.MechanismVGPU: {aggregate: gate.TurnsCapacity, complexity: 3,
		tradeOff:       "only the frame buffer is a tenant's own; the default scheduler guarantees no share; licences",
		tradeOffSource: "nvidia-vgpu-guide", risk: "the default scheduler guarantees no share"},
	sharing.MechanismMIGBackedVGPU: {aggregate: migAggregate, complexity: 3,
		tradeOff: "fixed slices inside virtual machines; licences", tradeOffSource: "nvidia-vgpu-guide",
		risk: "a slice stays as it is until it is empty"},
	sharing.MechanismMIGLikeEmulation: {aggregate: mpsAggregate, complexity: 2,
		tradeOff:       "a cap on SMs and a framework's own promise on memory: it isolates nothing",
		tradeOffSource: "jabrayilov-gpushare", risk: "it isolates nothing"},
	sharing.MechanismInServer: {aggregate: 1, complexity: 2,
		tradeOff: "tenants share one process: its queue, its faults and its releases", tradeOffSource: "cotenant-reading",
		risk: "one process: its faults and releases are everybody's"},
	sharing.MechanismResearch: {aggregate: 1, complexity: 4,
		tradeOff: "research code for one framework or GPU generation", tradeOffSource: "cotenant-reading",
		risk: "research code that nobody supports"},
}

// traitOf returns a mechanism's trait, which must not be modified.
func traitOf(m sharing.Mechanism) *trait { return &traits[m] }
