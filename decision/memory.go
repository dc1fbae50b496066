package decision

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// MemoryNeed computes the memory of one replica on each of its GPUs: what the workload states, or weights divided
// by its GPUs, KV cache and the contexts of its processes. With neither memory nor model stated it is unknown.
func (w *Workload) MemoryNeed() gate.MemoryNeed {
	if total, stated := w.Memory.Get(); stated {
		return gate.MemoryNeed{Total: total}
	}
	if w.Model == nil {
		return gate.MemoryNeed{Unknown: true}
	}
	var n gate.MemoryNeed
	gpus := int64(max(1, w.GPUs))
	half := int64(0)
	if int(w.Model.Weights) < len(halfBytes) {
		half = halfBytes[w.Model.Weights]
	}
	// Parameters are at most 1e14, so the product stays far below 2^63.
	n.Weights = sharing.Bytes((w.Model.Parameters*half/2+gpus-1)/gpus) + w.adapterMemory()/sharing.Bytes(gpus)
	if kv, stated := w.Model.KVCache.Get(); stated {
		n.KVCache = kv
	} else {
		kv, prior := w.kvNeed()
		n.KVCache, n.KVPrior = (kv+sharing.Bytes(gpus)-1)/sharing.Bytes(gpus), prior
	}
	n.Context = gate.ContextMemory * sharing.Bytes(w.processes())
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
