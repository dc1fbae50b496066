package placement

import (
	"math"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// RequestOf returns the request of one replica of a workload for a GPU under a mechanism, from what decision's
// gates know of it: [decision.CompiledWorkload.Demand]. The mechanism, and under MIG the profile, are those that
// were chosen for it. The caller adds the host's CPU and memory, and who trusts whom.
//
// [decision.CompiledWorkload.Demand]: https://pkg.go.dev/github.com/cotenant/cotenant/decision#CompiledWorkload.Demand
func RequestOf(name string, d *gate.Demand, m sharing.Mechanism, profile string) *Request {
	r := &Request{Name: name, GPUs: d.GPUs, GPUMemory: d.Memory.Under(m), Mechanisms: []sharing.Mechanism{m}, Demand: d,
		SLO: d.SLO}
	switch m {
	case sharing.MechanismExclusive:
		r.Milli = 1000
	case sharing.MechanismMIG:
		r.Profile, r.GPUs = profile, 1
	default:
		// Its load, out of the work that the mechanism leaves to its tenants.
		r.Milli = min(999, max(1, int(math.Ceil(1000*d.Busy/gate.TraitsOf(m).Capacity-1e-9))))
	}
	return r
}

// NodeOf is a node of count GPUs of a kind that decision's gates know, which run m: a pool's is
// [decision.CompiledPool.Ground]. None are idle GPUs, which take their first tenant's mechanism; they may be
// partitioned where the catalogue knows how. The caller adds the host's CPU and memory, and what runs already.
//
// [decision.CompiledPool.Ground]: https://pkg.go.dev/github.com/cotenant/cotenant/decision#CompiledPool.Ground
func NodeOf(name string, g *gate.Ground, count int, m sharing.Mechanism) Node {
	n := Node{Name: name, GPUs: make([]GPU, count), Ground: g}
	gpu := GPU{Mechanism: m}
	if known := g.GPU(); known != nil {
		n.Model = known.Name
		if memory, ok := known.Memory.Get(); ok {
			gpu.Memory = Some(memory)
		}
	}
	if model := g.Model(); model != nil && model.PlacementsKnown() && (m == sharing.MechanismMIG ||
		m == sharing.MechanismNone) {
		gpu.MIG = model
	}
	for i := range n.GPUs {
		n.GPUs[i] = gpu
	}
	return n
}
