package gate

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// Left is the free capacity of one GPU, or of one slice of it, for one more replica.
type Left struct {
	Total   Optional[sharing.Bytes] // memory of the GPU
	Memory  sharing.Bytes           // that is free; means nothing where Total is missing
	Milli   int32                   // free thousandths of its work
	Tenants int32                   // that are there
	Room    int32                   // more tenants that there may be
}

// Seats returns the number of replicas that a mechanism takes on one GPU of g, which may be nil: the stated number,
// or the mechanism's own (0: 10 shares of HAMi, one whole GPU), and no more than MPS takes clients.
func (g *Ground) Seats(m sharing.Mechanism, stated int) int {
	t := TraitsOf(m)
	n := stated
	if n == 0 {
		n = t.Split
	}
	if n == 0 {
		n = math.MaxInt16
	}
	if t.Clients {
		clients := mpsClients
		if g != nil && g.clients > 0 {
			clients = g.clients
		}
		n = min(n, clients)
	}
	return n
}

// Seated reports whether a GPU with so many seats takes one more tenant. milli only
// tells a full GPU from one without seats.
func (l *Left) Seated(seats int, milli int32, why *Reason) bool {
	if l.Room > 0 && int(l.Tenants) < seats {
		return true
	}
	if milli > l.Milli {
		*why = Reason{Verdict: VerdictReject, Code: CodeGPUShare, Need: int64(milli), Have: int64(l.Milli)}
	} else {
		*why = Reason{Verdict: VerdictReject, Code: CodeTenants}
	}
	return false
}

// Known reports whether memory can be compared with the GPU's.
func (l *Left) Known(memory sharing.Bytes, why *Reason) bool {
	if memory > 0 && l.Total.IsZero() {
		*why = Reason{Verdict: VerdictUnknown, Code: CodeGPUMemoryUnknown, Need: int64(memory)}
		return false
	}
	return true
}

// Suffices reports whether so much memory, 0 being none, and so many thousandths are left.
func (l *Left) Suffices(memory sharing.Bytes, milli int32, why *Reason) bool {
	switch {
	case memory > 0 && memory > l.Memory:
		*why = Reason{Verdict: VerdictReject, Code: CodeGPUMemory, Need: int64(memory), Have: int64(l.Memory)}
	case milli > l.Milli:
		*why = Reason{Verdict: VerdictReject, Code: CodeGPUShare, Need: int64(milli), Have: int64(l.Milli)}
	default:
		return true
	}
	return false
}

// room returns the number of replicas that each take so much memory and keep so much of a
// GPU busy go into what is left of both. What they take none of does not bound it.
func room(memory, memoryLeft sharing.Bytes, busy, busyLeft float64) int {
	n := math.MaxInt16
	if memory > 0 {
		n = min(n, int(memoryLeft/memory))
	}
	if busy > 0 {
		n = min(n, int(min(busyLeft/busy+1e-9, math.MaxInt16)))
	}
	return n
}
