// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Demand states the needs of one replica of a workload on the GPUs that it runs on. It must not be modified after it
// was passed to a check.
type Demand struct {
	Pool     string // the pool to which it is pinned; empty = any
	Kind     string // in words
	Replicas int    // that the workload has
	GPUs     int    // of one replica, on one node
	// Processes of one replica on each GPU; 0 = 1.
	Processes int
	Memory    MemoryNeed
	// Busy is the share of a whole GPU that one replica keeps busy, 0 to 1, and BusyBasis its source.
	Busy      float64
	BusyBasis BusyBasis

	Decodes       bool    // a language model, bound by memory bandwidth
	Serves        bool    // a model server, which can multiplex requests
	NeverShares   bool    // it runs on whole GPUs
	Encodes       bool    // it uses video encoders
	LatencyBound  bool    // has objectives that exclude time-slicing unless figures prove them
	SaturatedFrom float64 // the Busy above which sharing has no gain; 0 = none

	Isolation [sharing.AxisCount]sharing.Level // LevelUnknown requires nothing
	// Today is the present mechanism: isolation must not become weaker. MechanismNone requires nothing.
	Today sharing.Mechanism
	// SLO limits its latencies, Solo has the same figures measured in isolation on a whole GPU.
	SLO, Solo profile.SLO
	Predicted bool // a prediction will evaluate the limits

	Framework      string                    // e.g. vllm; empty = not known
	MemoryFraction sharing.Optional[float64] // the framework's fraction of the visible memory
	Bypasses       bool                      // it evades limits inside the process
}

// BusyBasis is the basis of a demand's Busy.
type BusyBasis uint8

// The bases.
const (
	BusyUnknown BusyBasis = iota // Busy is not set
	BusyStated
	BusyPrior    // of the kind of workload
	BusyFromLoad // the busy share is computed from the load later; Busy is a prior
)

// ContextMemory is the memory of the CUDA context and runtime of one process, without its data: so much of a limit
// cannot be allocated (10,240 MiB leave 9,728; on an H200 8 GiB leave 7,678 MiB).
const ContextMemory = 512 * sharing.MiB

// MemoryNeed is the memory that one replica takes on each of its GPUs.
type MemoryNeed struct {
	Weights sharing.Bytes // 0 when stated as a whole
	KVCache sharing.Bytes // 0 when stated as a whole
	Context sharing.Bytes // 0 when stated as a whole
	Total   sharing.Bytes
	Request sharing.Bytes // the part of KVCache of one request; 0 when KVCache is stated
	KVPrior bool          // a prior replaces a missing figure of the input
	Unknown bool          // the need is unknown; ignore the other fields
}

// Under returns the memory that a replica occupies on a GPU under a mechanism: the total, plus ContextMemory if the
// mechanism's limit covers the context and the need does not include it.
func (n *MemoryNeed) Under(m sharing.Mechanism) sharing.Bytes {
	if traits.Of(m).Limited && n.Context == 0 {
		return n.Total + ContextMemory
	}
	return n.Total
}

// Within returns the memory that a replica occupies on a whole GPU with that much memory: with less than it needs, a
// model server holds fewer requests at once and queues the others.
func (n *MemoryNeed) Within(have sharing.Bytes) sharing.Bytes {
	if least := n.Total - n.KVCache + n.Request; n.Request > 0 && n.Total > have && least <= have {
		return have
	}
	return n.Total
}

// Neighbours counts the replicas that could share a GPU with one of a workload's: those of tenants with mutual trust
// (including other replicas of the workload), and those without.
type Neighbours struct {
	Trusted   int
	Untrusted int
	Least     sharing.Bytes // memory of the smallest of them; 0 = the workload's own
}

// String writes the need, in parts where they are known.
func (n MemoryNeed) String() string { return n.text(n.Total) }

func (n *MemoryNeed) text(total sharing.Bytes) string {
	if n.Unknown {
		return "not known"
	}
	if n.Weights == 0 {
		return total.String()
	}
	return fmt.Sprintf("%s (weights %s, KV cache %s, contexts %s)", total, n.Weights, n.KVCache, n.Context)
}
