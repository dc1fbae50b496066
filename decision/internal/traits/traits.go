// SPDX-License-Identifier: Apache-2.0

// Package traits has the properties of mechanisms, other than isolation, for layouts, filter, planner and placement.
package traits

import "github.com/cotenant/cotenant/sharing"

// Traits holds the properties of one mechanism.
type Traits struct {
	// Contends: neighbours take turns at, or run together on, the same SMs.
	Contends bool
	// TimeSlices: the driver or hypervisor gives the GPU to one tenant after another.
	TimeSlices bool
	// Trusting: neighbours must trust one another.
	Trusting bool
	// Sliced: a replica gets a MIG profile.
	Sliced bool
	// Limited: a memory limit that includes headroom which cannot be allocated.
	Limited bool
	// Holds: an enforced limit bounds a tenant's memory, so that an allocator's losses are the tenant's own.
	Holds bool
	// Clients: the MPS client limit holds.
	Clients  bool
	Capacity float64 // the share of a GPU's work that is left when it is saturated
	// Split is the number of replicas that one GPU is offered to unless configured otherwise; 0 = as many as fit.
	Split int
}

const (
	// sliceCapacity: three to seven saturated pods deliver 0.90 of one pod's throughput on an A100
	// (nos-gpu-sharing); on an H200 switching takes 6.8 % by itself.
	sliceCapacity = 0.90
	hamiSplit     = 10 // HAMi's default deviceSplitCount (hami-values)
	// MPSClients is the least number of clients that MPS takes on Volta and later; see sharing.MPSClientLimit.
	MPSClients = 48
	// clientsPerInstance is the number of replicas of a workload that share one MIG instance under MPS.
	clientsPerInstance = 2
)

var traits = [sharing.MechanismCount]Traits{
	sharing.MechanismExclusive:   {Capacity: 1, Split: 1},
	sharing.MechanismTimeSlicing: {Contends: true, TimeSlices: true, Trusting: true, Capacity: sliceCapacity},
	sharing.MechanismMPS:         {Contends: true, Trusting: true, Limited: true, Clients: true, Capacity: 1},
	sharing.MechanismMIG:         {Holds: true, Sliced: true, Capacity: 1},
	sharing.MechanismMIGWithMPS: {Holds: true, Contends: true, Trusting: true, Sliced: true, Limited: true,
		Clients: true, Capacity: 1},
	sharing.MechanismHAMi: {Holds: true, Contends: true, TimeSlices: true, Trusting: true, Capacity: sliceCapacity,
		Split: hamiSplit},
	sharing.MechanismHAMiWithMPS: {Holds: true, Contends: true, Trusting: true, Limited: true, Clients: true,
		Capacity: 1, Split: hamiSplit},
	sharing.MechanismVGPU:             {Holds: true, Contends: true, TimeSlices: true, Capacity: sliceCapacity},
	sharing.MechanismMIGBackedVGPU:    {Holds: true, Sliced: true, Capacity: 1},
	sharing.MechanismMIGLikeEmulation: {Contends: true, Trusting: true, Limited: true, Clients: true, Capacity: 1},
	sharing.MechanismInServer:         {Contends: true, Trusting: true, Capacity: 1},
	sharing.MechanismResearch:         {Contends: true, Trusting: true, Capacity: 1},
}

// Of returns a mechanism's traits, which must not be modified; those of MechanismNone for a value that is no mechanism.
func Of(m sharing.Mechanism) *Traits {
	if int(m) >= len(traits) {
		m = sharing.MechanismNone
	}
	return &traits[m]
}

// PerInstance returns the number of replicas of a workload that share one MIG instance.
func PerInstance(m sharing.Mechanism) int {
	if m == sharing.MechanismMIGWithMPS {
		return clientsPerInstance
	}
	return 1
}
