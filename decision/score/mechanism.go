package score

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Trait holds the figures by which a mechanism is scored; those of the gates stand in [gate.Traits].
type Trait struct {
	// Aggregate is the part of one GPU's work that saturated tenants deliver together, a prior.
	Aggregate float64
	// complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (cotenant-reading: what has to be run and watched).
	complexity float64
	// TradeOff names what choosing it accepts.
	TradeOff       string
	TradeOffSource sharing.SourceID
	// Risk is the worst of that in a few words; none of a whole GPU.
	Risk string
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

var traits = [sharing.MechanismCount]Trait{
	sharing.MechanismNone: {},
	sharing.MechanismExclusive: {Aggregate: 1,
		TradeOff: "whatever the replica leaves idle on its GPU stays idle", TradeOffSource: "cotenant-reading"},
	sharing.MechanismTimeSlicing: {Aggregate: gate.TurnsCapacity, complexity: 1,
		TradeOff:       "no memory quota, no fault isolation, and a latency that grows with every busy neighbour",
		TradeOffSource: "nvidia-gpu-operator-sharing", Risk: "nothing limits a neighbour's memory, and faults spread"},
	sharing.MechanismMPS: {Aggregate: mpsAggregate, complexity: 2,
		TradeOff:       "a fatal GPU fault of one client takes all clients on that GPU with it, and limits hold per process",
		TradeOffSource: "nvidia-mps-guide", Risk: "a fatal fault of one ends all on its GPU"},
	sharing.MechanismMIG: {Aggregate: migAggregate, complexity: 2,
		TradeOff: "a fixed slice: a lone tenant cannot use what its neighbours leave idle, and changing slices needs them " +
			"empty", TradeOffSource: "nos-gpu-sharing", Risk: "a slice stays as it is until it is empty"},
	sharing.MechanismMIGWithMPS: {Aggregate: migAggregate, complexity: 3,
		TradeOff:       "clients of one instance share faults, and the device plugin does not deliver it",
		TradeOffSource: "nvidia-dra-driver", Risk: "a fatal fault of one ends all in its instance"},
	sharing.MechanismHAMi: {Aggregate: hamiAggregate, complexity: 2,
		TradeOff:       "limits enforced inside the process: CUDA graphs pass the compute limit, faults are shared",
		TradeOffSource: "hami-core-graphs", Risk: "limits hold inside the process only, and faults spread"},
	sharing.MechanismHAMiWithMPS: {Aggregate: mpsAggregate, complexity: 3,
		TradeOff: "two control planes, and the fault domain of MPS", TradeOffSource: "hami",
		Risk: "a fatal fault of one ends all on its GPU"},
	sharing.MechanismVGPU: {Aggregate: gate.TurnsCapacity, complexity: 3,
		TradeOff:       "only the frame buffer is a tenant's own; the default scheduler guarantees no share; licences",
		TradeOffSource: "nvidia-vgpu-guide", Risk: "the default scheduler guarantees no share"},
	sharing.MechanismMIGBackedVGPU: {Aggregate: migAggregate, complexity: 3,
		TradeOff: "fixed slices inside virtual machines; licences", TradeOffSource: "nvidia-vgpu-guide",
		Risk: "a slice stays as it is until it is empty"},
	sharing.MechanismMIGLikeEmulation: {Aggregate: mpsAggregate, complexity: 2,
		TradeOff:       "a cap on SMs and a framework's own promise on memory: it isolates nothing",
		TradeOffSource: "jabrayilov-gpushare", Risk: "it isolates nothing"},
	sharing.MechanismInServer: {Aggregate: 1, complexity: 2,
		TradeOff: "tenants share one process: its queue, its faults and its releases", TradeOffSource: "cotenant-reading",
		Risk: "one process: its faults and releases are everybody's"},
	sharing.MechanismResearch: {Aggregate: 1, complexity: 4,
		TradeOff: "research code for one framework or GPU generation", TradeOffSource: "cotenant-reading",
		Risk: "research code that nobody supports"},
}

// TraitOf returns a mechanism's trait, which must not be modified.
func TraitOf(m sharing.Mechanism) *Trait { return &traits[m] }
