package decision

import "github.com/cotenant/cotenant/sharing"

// trait is what the engine knows of a mechanism beside its isolation.
type trait struct {
	// contends: neighbours take turns at, or run together on, the same SMs.
	contends bool
	// turns: the driver or hypervisor gives the GPU to one tenant after another.
	turns bool
	// trusted: neighbours must trust one another.
	trusted bool
	// sliced: a replica gets a MIG profile.
	sliced bool
	// limited: a memory limit whose headroom cannot be allocated.
	limited bool
	// clients: the MPS client limit holds.
	clients bool
	// capacity is the share of a GPU's work that is left when it is saturated.
	capacity       float64
	capacitySource sharing.SourceID
	// aggregate is what saturated tenants together deliver of one GPU's work, a
	// prior.
	aggregate float64
	// complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (cotenant-reading: what has to be run and watched).
	complexity float64
	// maxTenants bounds the replicas on one GPU; 0 = nothing but fit.
	maxTenants int
	// tradeOff is what choosing it accepts.
	tradeOff       string
	tradeOffSource sharing.SourceID
}

const (
	// timeSlicingCapacity: three to seven saturated pods deliver 0.90 of one
	// pod's throughput on an A100; on an H200 switching alone takes 6.8 %.
	timeSlicingCapacity = 0.90
	// mpsAggregate lies between 0.88 of dedicated GPUs for LLM servers at high
	// equal load (dynamo-gpu-sharing) and 1.93 for small vision models
	// (nos-gpu-sharing): their geometric mean.
	mpsAggregate = 1.30
	// migAggregate lies between 98 of an A100's 108 SMs and 1.79
	// (nos-gpu-sharing).
	migAggregate = 1.28
	// hamiAggregate lies between 0.445 and 0.728 of dedicated GPUs
	// (dynamo-gpu-sharing).
	hamiAggregate = 0.57
	// hamiSplit is HAMi's default deviceSplitCount (hami-values).
	hamiSplit = 10
)

var traits = [sharing.MechanismCount]trait{
	sharing.MechanismNone: {},
	sharing.MechanismExclusive: {aggregate: 1, capacity: 1, maxTenants: 1,
		tradeOff: "whatever the replica leaves idle on its GPU stays idle", tradeOffSource: "cotenant-reading"},
	sharing.MechanismTimeSlicing: {aggregate: timeSlicingCapacity, contends: true, turns: true, trusted: true, capacity: timeSlicingCapacity, capacitySource: "nos-gpu-sharing", complexity: 1,
		tradeOff: "no memory quota, no fault isolation, and a latency that grows with every busy neighbour", tradeOffSource: "nvidia-gpu-operator-sharing"},
	sharing.MechanismMPS: {aggregate: mpsAggregate, contends: true, trusted: true, limited: true, clients: true, capacity: 1, complexity: 2,
		tradeOff: "a fatal GPU fault of one client takes all clients on that GPU with it, and limits hold per process", tradeOffSource: "nvidia-mps-guide"},
	sharing.MechanismMIG: {aggregate: migAggregate, sliced: true, capacity: 1, complexity: 2,
		tradeOff: "a fixed slice: a lone tenant cannot use what its neighbours leave idle, and changing slices needs them empty", tradeOffSource: "nos-gpu-sharing"},
	sharing.MechanismMIGWithMPS: {aggregate: migAggregate, contends: true, trusted: true, sliced: true, limited: true, clients: true, capacity: 1, complexity: 3,
		tradeOff: "clients of one instance share faults, and the device plugin does not deliver it", tradeOffSource: "nvidia-dra-driver"},
	sharing.MechanismHAMi: {aggregate: hamiAggregate, contends: true, turns: true, trusted: true, capacity: timeSlicingCapacity, capacitySource: "nos-gpu-sharing", complexity: 2, maxTenants: hamiSplit,
		tradeOff: "limits enforced inside the process: CUDA graphs pass the compute limit, faults are shared", tradeOffSource: "hami-core-graphs"},
	sharing.MechanismHAMiWithMPS: {aggregate: mpsAggregate, contends: true, trusted: true, limited: true, clients: true, capacity: 1, complexity: 3, maxTenants: hamiSplit,
		tradeOff: "two control planes, and the fault domain of MPS", tradeOffSource: "hami"},
	sharing.MechanismVGPU: {aggregate: timeSlicingCapacity, contends: true, turns: true, capacity: timeSlicingCapacity, capacitySource: "nos-gpu-sharing", complexity: 3,
		tradeOff: "only the frame buffer is a tenant's own; the default scheduler guarantees no share; licences", tradeOffSource: "nvidia-vgpu-guide"},
	sharing.MechanismMIGBackedVGPU: {aggregate: migAggregate, sliced: true, capacity: 1, complexity: 3,
		tradeOff: "fixed slices inside virtual machines; licences", tradeOffSource: "nvidia-vgpu-guide"},
	sharing.MechanismMIGLikeEmulation: {aggregate: mpsAggregate, contends: true, trusted: true, limited: true, clients: true, capacity: 1, complexity: 2,
		tradeOff: "a cap on SMs and a framework's own promise on memory: it isolates nothing", tradeOffSource: "jabrayilov-gpushare"},
	sharing.MechanismInServer: {aggregate: 1, contends: true, trusted: true, capacity: 1, complexity: 2,
		tradeOff: "tenants share one process: its queue, its faults and its releases", tradeOffSource: "cotenant-reading"},
	sharing.MechanismResearch: {aggregate: 1, contends: true, trusted: true, capacity: 1, complexity: 4,
		tradeOff: "research code for one framework or GPU generation", tradeOffSource: "cotenant-reading"},
}

// slowdownBy is the expected slowdown of a tenant by n-1 neighbours that are
// each busy the share b of the time, and the bounds of it for saturated
// neighbours: priors, from cotenant-h200-colocation and nos-gpu-sharing.
func slowdownBy(m sharing.Mechanism, n int, b float64) (expected, low, high float64) {
	t := &traits[m]
	others := float64(n - 1)
	switch {
	case n <= 1 || !t.contends:
		return 1, 1, 1
	case t.turns:
		// Processor sharing: each busy neighbour takes a turn.
		return (1 + others*b) / t.capacity, 1, float64(n) / t.capacity
	}
	// H200, MPS: 1.2 to 2.1 for two tenants, 2.0 to 2.4 for four, and 1.04 to
	// 1.40 for a tenant alone.
	return 1.1 + 0.6*others*b, 1.04, max(2.1, 1.2+0.6*others)
}
