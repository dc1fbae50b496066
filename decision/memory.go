package decision

import "github.com/cotenant/cotenant/sharing"

// Priors of the memory computation.
const (
	// ContextMemory is what the CUDA context and runtime of one process take
	// beside its data: 512 MiB lie between a limit and what can be allocated
	// under it (dynamo-mps-limits: 10G leaves 9,728 MiB; cotenant-h200-mps: 8 GiB shows 7,678 MiB).
	ContextMemory = 512 * sharing.MiB
)

// MemoryNeed is what one replica takes on each of its GPUs.
type MemoryNeed struct {
	Weights sharing.Bytes // 0 when stated as a whole
	KVCache sharing.Bytes // 0 when stated as a whole
	Context sharing.Bytes // 0 when stated as a whole
	Total   sharing.Bytes
	// KVPrior says that a prior stands in for what the input does not say of it.
	KVPrior bool
}

// MemoryNeed computes the memory of one replica on each of its GPUs: what the
// workload states, or weights divided by its GPUs, KV cache and the contexts of
// its processes.
func (w *Workload) MemoryNeed() MemoryNeed {
	if w.Memory != nil {
		return MemoryNeed{Total: *w.Memory}
	}
	if w.Model == nil {
		return MemoryNeed{}
	}
	var n MemoryNeed
	gpus := int64(max(1, w.GPUs))
	half := int64(0)
	if int(w.Model.Weights) < len(halfBytes) {
		half = halfBytes[w.Model.Weights]
	}
	// Parameters are at most 1e14, so the product stays far below 2^63.
	n.Weights = sharing.Bytes((w.Model.Parameters*half/2+gpus-1)/gpus) + w.adapterMemory()/sharing.Bytes(gpus)
	if w.Model.KVCache != nil {
		n.KVCache = *w.Model.KVCache
	} else {
		kv, prior := w.kvNeed()
		n.KVCache, n.KVPrior = (kv+sharing.Bytes(gpus)-1)/sharing.Bytes(gpus), prior
	}
	n.Context = ContextMemory * sharing.Bytes(w.processes())
	n.Total = n.Weights + n.KVCache + n.Context
	return n
}

func (w *Workload) processes() int {
	if w.Framework != nil && w.Framework.Processes > 1 {
		return w.Framework.Processes
	}
	return 1
}

func (w *Workload) replicas() int { return max(1, w.Replicas.Max) }

func (w *Workload) gpus() int { return max(1, w.GPUs) }
