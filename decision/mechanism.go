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
	// very high (A2, D13, read for what has to be run and watched).
	complexity float64
	// maxTenants bounds the replicas on one GPU; 0 = nothing but fit.
	maxTenants int
	// tradeOff is what choosing it accepts (A19, a.8).
	tradeOff       string
	tradeOffSource sharing.SourceID
}

const (
	// timeSlicingCapacity: three to seven saturated pods deliver 0.90 of one
	// pod's throughput on an A100; on an H200 switching alone takes 6.8 %.
	timeSlicingCapacity = 0.90
	// mpsAggregate lies between 0.88 of dedicated GPUs for LLM servers at high
	// equal load (R6) and 1.93 for small vision models (R4): their geometric mean.
	mpsAggregate = 1.30
	// migAggregate lies between 98 of an A100's 108 SMs and 1.79 (R4).
	migAggregate = 1.28
	// hamiAggregate lies between 0.445 and 0.728 of dedicated GPUs (R5).
	hamiAggregate = 0.57
	// hamiSplit is HAMi's default deviceSplitCount.
	hamiSplit = 10
)

var traits = [sharing.MechanismCount]trait{
	sharing.MechanismNone: {},
	sharing.MechanismExclusive: {aggregate: 1, capacity: 1, maxTenants: 1,
		tradeOff: "whatever the replica leaves idle on its GPU stays idle", tradeOffSource: "F5"},
	sharing.MechanismTimeSlicing: {aggregate: timeSlicingCapacity, contends: true, turns: true, trusted: true, capacity: timeSlicingCapacity, capacitySource: "R4", complexity: 1,
		tradeOff: "no memory quota, no fault isolation, and a latency that grows with every busy neighbour", tradeOffSource: "A10"},
	sharing.MechanismMPS: {aggregate: mpsAggregate, contends: true, trusted: true, limited: true, clients: true, capacity: 1, complexity: 2,
		tradeOff: "a fatal GPU fault of one client takes all clients on that GPU with it, and limits hold per process", tradeOffSource: "MOLD"},
	sharing.MechanismMIG: {aggregate: migAggregate, sliced: true, capacity: 1, complexity: 2,
		tradeOff: "a fixed slice: a lone tenant cannot use what its neighbours leave idle, and changing slices needs them empty", tradeOffSource: "R3"},
	sharing.MechanismMIGWithMPS: {aggregate: migAggregate, contends: true, trusted: true, sliced: true, limited: true, clients: true, capacity: 1, complexity: 3,
		tradeOff: "clients of one instance share faults, and the device plugin does not deliver it", tradeOffSource: "DRA"},
	sharing.MechanismHAMi: {aggregate: hamiAggregate, contends: true, turns: true, trusted: true, capacity: timeSlicingCapacity, capacitySource: "R4", complexity: 2, maxTenants: hamiSplit,
		tradeOff: "limits enforced inside the process: CUDA graphs pass the compute limit, faults are shared", tradeOffSource: "HCORE"},
	sharing.MechanismHAMiWithMPS: {aggregate: mpsAggregate, contends: true, trusted: true, limited: true, clients: true, capacity: 1, complexity: 3, maxTenants: hamiSplit,
		tradeOff: "two control planes, and the fault domain of MPS", tradeOffSource: "HAMI"},
	sharing.MechanismVGPU: {aggregate: timeSlicingCapacity, contends: true, turns: true, capacity: timeSlicingCapacity, capacitySource: "R4", complexity: 3,
		tradeOff: "only the frame buffer is a tenant's own; the default scheduler guarantees no share; licences", tradeOffSource: "VGPU"},
	sharing.MechanismMIGBackedVGPU: {aggregate: migAggregate, sliced: true, capacity: 1, complexity: 3,
		tradeOff: "fixed slices inside virtual machines; licences", tradeOffSource: "VGPU"},
	sharing.MechanismMIGLikeEmulation: {aggregate: mpsAggregate, contends: true, trusted: true, limited: true, clients: true, capacity: 1, complexity: 2,
		tradeOff: "a cap on SMs and a framework's own promise on memory: it isolates nothing", tradeOffSource: "F8"},
	sharing.MechanismInServer: {aggregate: 1, contends: true, trusted: true, capacity: 1, complexity: 2,
		tradeOff: "tenants share one process: its queue, its faults and its releases", tradeOffSource: "A19"},
	sharing.MechanismResearch: {aggregate: 1, contends: true, trusted: true, capacity: 1, complexity: 4,
		tradeOff: "research code for one framework or GPU generation", tradeOffSource: "TESS"},
}

// slowdownBy is the expected slowdown of a tenant by n-1 neighbours that are
// each busy the share b of the time, and the bounds of it for saturated
// neighbours: priors, from our H200 measurements and the A100 rows.
func slowdownBy(m sharing.Mechanism, n int, b float64) (expected, low, high float64) {
	t := &traits[m]
	others := float64(n - 1)
	switch {
	case n <= 1 || !t.contends:
		return 1, 1, 1
	case t.turns:
		// Processor sharing: each busy neighbour takes a turn (TV6, R1).
		return (1 + others*b) / t.capacity, 1, float64(n) / t.capacity
	}
	// H200, MPS: 1.2 to 2.1 for two tenants, 2.0 to 2.4 for four, and 1.04 to
	// 1.40 for a tenant alone.
	return 1.1 + 0.6*others*b, 1.04, max(2.1, 1.2+0.6*others)
}
