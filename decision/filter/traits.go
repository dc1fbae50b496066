// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Traits holds the properties of a mechanism, other than its isolation, that checks use.
type Traits struct {
	// Contends: neighbours take turns at, or run together on, the same SMs.
	Contends bool
	// Turns: the driver or hypervisor gives the GPU to one tenant after another.
	Turns bool
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
	// turnsCapacity: three to seven saturated pods deliver 0.90 of one pod's throughput on an A100
	// (nos-gpu-sharing); on an H200 switching alone takes 6.8 %.
	turnsCapacity = 0.90
	hamiSplit     = 10 // HAMi's default deviceSplitCount (hami-values)
	// mpsClients is the least number of clients that MPS takes on Volta and later; see sharing.MPSClientLimit.
	mpsClients = 48
)

var traits = [sharing.MechanismCount]Traits{
	sharing.MechanismExclusive:   {Capacity: 1, Split: 1},
	sharing.MechanismTimeSlicing: {Contends: true, Turns: true, Trusting: true, Capacity: turnsCapacity},
	sharing.MechanismMPS:         {Contends: true, Trusting: true, Limited: true, Clients: true, Capacity: 1},
	sharing.MechanismMIG:         {Holds: true, Sliced: true, Capacity: 1},
	sharing.MechanismMIGWithMPS: {Holds: true, Contends: true, Trusting: true, Sliced: true, Limited: true,
		Clients: true, Capacity: 1},
	sharing.MechanismHAMi: {Holds: true, Contends: true, Turns: true, Trusting: true, Capacity: turnsCapacity,
		Split: hamiSplit},
	sharing.MechanismHAMiWithMPS: {Holds: true, Contends: true, Trusting: true, Limited: true, Clients: true,
		Capacity: 1, Split: hamiSplit},
	sharing.MechanismVGPU:             {Holds: true, Contends: true, Turns: true, Capacity: turnsCapacity},
	sharing.MechanismMIGBackedVGPU:    {Holds: true, Sliced: true, Capacity: 1},
	sharing.MechanismMIGLikeEmulation: {Contends: true, Trusting: true, Limited: true, Clients: true, Capacity: 1},
	sharing.MechanismInServer:         {Contends: true, Trusting: true, Capacity: 1},
	sharing.MechanismResearch:         {Contends: true, Trusting: true, Capacity: 1},
}

// TraitsOf returns a mechanism's traits, which must not be modified; those of
// MechanismNone for a value that is no mechanism.
func TraitsOf(m sharing.Mechanism) *Traits {
	if int(m) >= len(traits) {
		m = sharing.MechanismNone
	}
	return &traits[m]
}

// slowdownBy is the expected slowdown of a tenant by n-1 neighbours that are each busy the share b of the time, between
// its bounds for neighbours that are idle and saturated: priors, from cotenant-h200-colocation and nos-gpu-sharing.
func slowdownBy(m sharing.Mechanism, n int, b float64) profile.Interval {
	t := TraitsOf(m)
	if n <= 1 || !t.Contends {
		return profile.Interval{Value: 1, Low: 1, High: 1}
	}
	others := float64(n - 1)
	if t.Turns {
		// Processor sharing: each busy neighbour takes a turn.
		return profile.Interval{Value: (1 + others*b) / t.Capacity, Low: 1, High: float64(n) / t.Capacity}
	}
	// H200, MPS: 1.2 to 2.1 for two tenants, 2.0 to 2.4 for four, and 1.04 to 1.40 for a tenant alone.
	return profile.Interval{Value: 1.1 + 0.6*others*b, Low: 1.04, High: max(2.1, 1.2+0.6*others)}
}
