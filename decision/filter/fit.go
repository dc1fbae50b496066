// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"math"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// checkFit decides memory and compute, and with them the profile and how many replicas one GPU carries.
func (t *Target) checkFit(d *Demand, nb Neighbours, profile *mig.Profile, r *Report) {
	if d.Memory.KVPrior {
		r.compare(VerdictPass, codes.KVPrior, 0, int64(d.Memory.KVCache))
	}
	has := traits.Of(r.Mechanism)
	if d.Memory.Unknown {
		switch r.Mechanism {
		case sharing.MechanismExclusive, sharing.MechanismResearch, sharing.MechanismInServer:
			r.say(VerdictPass, codes.MemoryUnknown)
		default:
			r.say(VerdictUnknown, codes.MemoryUnknown)
		}
		return
	}
	if has.Sliced {
		t.checkSlice(d, nb, profile, r)
		return
	}
	if r.Mechanism == sharing.MechanismInServer {
		r.Tenants = d.Replicas
	}
	need := d.Memory.Under(r.Mechanism)
	total := t.memory
	if r.Mechanism == sharing.MechanismExclusive {
		need = d.Memory.Within(sharing.Bytes(float64(total) * visible))
	}
	left := Left{Unknown: total == 0, Memory: total}
	var why Reason
	if !left.Known(need, &why) || !left.Suffices(need, 0, &why) {
		r.compare(why.Verdict, why.Code, why.Need, why.Have)
		return
	}
	switch r.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismResearch, sharing.MechanismInServer:
		noteFraction(d, need, total, r)
		return
	}
	if left.Memory -= need; !left.Suffices(min(need, cmp.Or(nb.Least, need)), 0, &why) {
		r.compare(VerdictReject, codes.MemoryForTwo, int64(need), int64(total))
		return
	}
	n := room(need, total, d.Busy, has.Capacity)
	if n < 2 && need <= left.Memory && d.BusyBasis == BusyStated && !d.Predicted {
		r.compare(VerdictReject, codes.BusyForTwo, permille(has.Capacity), permille(d.Busy))
	}
	n = min(n, t.Slots(r.Mechanism))
	if has.Clients {
		n = min(n, max(1, t.clients/max(1, d.Processes)))
	}
	around := nb.Trusted
	if !has.Trusting {
		around += nb.Untrusted
	}
	r.Tenants = max(1, min(n, around+1))
}

// visible is the part of a GPU's memory that a server's cache may grow to: drivers reserve 2.5% of a board's.
const visible = 0.975

// noteFraction: a framework takes only its fraction of the memory it sees.
func noteFraction(d *Demand, need, visible sharing.Bytes, r *Report) {
	if f, stated := d.MemoryFraction.Get(); stated && float64(need) > f*float64(visible) {
		r.compare(VerdictPass, codes.Fraction, int64(need), int64(visible))
	}
}

// checkSlice picks the smallest profile with enough memory in which the
// workload's work gets done; or checks the requested profile for it.
func (t *Target) checkSlice(d *Demand, nb Neighbours, profile *mig.Profile, r *Report) {
	if len(t.slices) == 0 {
		if t.answers[r.Mechanism] != sharing.AnswerNo {
			r.say(VerdictUnknown, codes.ProfilesUnknown)
		}
		return
	}
	inside := traits.PerInstance(r.Mechanism)
	need := d.Memory.Under(r.Mechanism) * sharing.Bytes(inside)
	unknown, tooSmall, saturated := false, -1, -1
	for i := range t.slices {
		s := &t.slices[i]
		if profile != nil && s.Profile != profile {
			continue
		}
		switch {
		case s.Memory == 0:
			unknown = true
		case s.Memory < need:
			if tooSmall < 0 || s.Memory > t.slices[tooSmall].Memory {
				tooSmall = i
			}
		case !d.Predicted && d.BusyBasis == BusyStated && d.Busy*s.slowdown(d)*float64(inside) > 1:
			saturated = i
		default:
			r.slice = int16(i)
			t.noteSlice(d, nb, need, r)
			return
		}
	}
	switch {
	case saturated >= 0:
		r.compare(VerdictReject, codes.SliceSaturated, 0, permille(d.Busy)).slice = int16(saturated) + 1
		if profile != nil {
			r.slice = int16(saturated)
		}
	case unknown:
		r.compare(VerdictUnknown, codes.GPUMemoryUnknown, int64(need), 0)
	case tooSmall >= 0:
		r.compare(VerdictReject, codes.MemorySlice, int64(need), 0).slice = int16(tooSmall) + 1
	}
}

func (t *Target) noteSlice(d *Demand, nb Neighbours, need sharing.Bytes, r *Report) {
	s, inside := r.Slice(), traits.PerInstance(r.Mechanism)
	// Name the next smaller profile that the memory rules out.
	for i := range t.slices {
		if o := &t.slices[i]; o.Memory > 0 && o.Memory < need && o.PerGPU >= s.PerGPU {
			r.compare(VerdictPass, codes.SliceTooSmall, int64(need), 0).slice = int16(i) + 1
			break
		}
	}
	r.compare(VerdictPass, codes.SliceFits, int64(need), 0).slice = r.slice + 1
	noteFraction(d, need, s.Memory, r)
	if d.BusyBasis == BusyStated && d.Busy > 0 {
		r.compare(VerdictPass, codes.SliceLoad, 0, permille(d.Busy*s.slowdown(d)*float64(inside))).slice = r.slice + 1
	}
	around := nb.Trusted
	if inside == 1 {
		around += nb.Untrusted
	}
	r.Tenants = max(1, min(s.PerGPU*inside, around+1))
}

// Left is the free capacity of one GPU, or of one slice of it, for one more replica.
type Left struct {
	Unknown bool          // the GPU's memory is unknown
	Memory  sharing.Bytes // free memory; ignore it if Unknown
	Milli   int32         // free thousandths of its work
	Room    int32         // further tenants that fit
}

// Slots returns the default number of replicas on one GPU of t under a mechanism (10 for HAMi, 1 for whole GPUs), at
// most the limit of MPS clients.
func (t *Target) Slots(m sharing.Mechanism) int {
	has := traits.Of(m)
	n := cmp.Or(has.Split, math.MaxInt16)
	if has.Clients {
		n = min(n, cmp.Or(t.clients, traits.MPSClients))
	}
	return n
}

// Takes reports whether a GPU takes one more tenant; if not, it sets why. milli only serves to explain a full GPU.
func (l *Left) Takes(milli int32, why *Reason) bool {
	if l.Room > 0 {
		return true
	}
	if milli > l.Milli {
		*why = Reason{Verdict: VerdictReject, Code: codes.GPUShare, Need: int64(milli), Have: int64(l.Milli)}
	} else {
		*why = Reason{Verdict: VerdictReject, Code: codes.Tenants}
	}
	return false
}

// Known reports whether memory can be compared with the GPU's; if not, it sets why.
func (l *Left) Known(memory sharing.Bytes, why *Reason) bool {
	if memory > 0 && l.Unknown {
		*why = Reason{Verdict: VerdictUnknown, Code: codes.GPUMemoryUnknown, Need: int64(memory)}
		return false
	}
	return true
}

// Suffices reports whether that much memory (0 = none) and compute in thousandths are left; if not, it sets why.
func (l *Left) Suffices(memory sharing.Bytes, milli int32, why *Reason) bool {
	switch {
	case memory > 0 && memory > l.Memory:
		*why = Reason{Verdict: VerdictReject, Code: codes.GPUMemory, Need: int64(memory), Have: int64(l.Memory)}
	case milli > l.Milli:
		*why = Reason{Verdict: VerdictReject, Code: codes.GPUShare, Need: int64(milli), Have: int64(l.Milli)}
	default:
		return true
	}
	return false
}

// room returns the number of replicas, each with so much memory and so much of a GPU busy,
// that fit into the free part of both. A quantity that they don't use does not bound it.
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

// slowdownBy is the expected slowdown of a tenant by n-1 neighbours that are each busy the share b of the time, between
// its bounds for neighbours that are idle and saturated: priors, from cotenant-h200-colocation and nos-gpu-sharing.
func slowdownBy(m sharing.Mechanism, n int, b float64) profile.Interval {
	t := traits.Of(m)
	if n <= 1 || !t.Contends {
		return profile.Interval{Value: 1, Low: 1, High: 1}
	}
	others := float64(n - 1)
	if t.TimeSlices {
		// Processor sharing: each busy neighbour takes a turn.
		return profile.Interval{Value: (1 + others*b) / t.Capacity, Low: 1, High: float64(n) / t.Capacity}
	}
	// H200, MPS: 1.2 to 2.1 for two tenants, 2.0 to 2.4 for four, and 1.04 to 1.40 for a tenant alone.
	return profile.Interval{Value: 1.1 + 0.6*others*b, Low: 1.04, High: max(2.1, 1.2+0.6*others)}
}
