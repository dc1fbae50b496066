// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Code identifies the subject of a reason. The texts are stable: they are part of
// outputs. Of two codes for which a GPU refuses, the later one is closer to a fit.
type Code uint8

// The codes, with the operands of their reasons. Memory is in bytes, a share or
// load in thousandths of a GPU, a latency in microseconds.
const (
	CodeFits Code = iota

	// Of the node.
	CodeNodeClosed
	CodeCPU      // Need, Have: thousandths of a core
	CodeMemory   // Need, Have: memory of the host
	CodeModel    // the request names other GPU models
	CodeGPUCount // Need, Have: GPUs for one replica

	// Of the pool.
	CodePinnedElsewhere
	CodeNotAllowedInPool
	CodeNotDelivered
	codeResearch
	codeHardware
	codeHardwareUnknown
	codeNoEncoder
	codeNeedsVGPUHost
	codeMIGMPSDelivery

	// About the GPU's present tenants.
	CodeDeviceFault
	CodeMIGMode
	CodeNotMIG
	CodeProfile
	CodeNoMechanism
	CodeMechanism

	// Of the workload.
	codeNotAServer
	codeOneReplica
	codeMergeReplicas // Have: replicas
	codeGang
	codeBusyUnknown
	codeBusyPrior        // Have: load
	codeSaturated        // Have: load; Need: the load from which sharing gains nothing
	codeIsolation        // Axis, Level: the demand
	codeIsolationUnknown // Axis, Level: the demand
	CodeWeaker           // Axis, Level: today's isolation
	codeUntrusted        // Have: replicas that could be neighbours
	CodeAlone
	codeMultiGPU // Need: GPUs
	codeHAMiBypass
	codeNoMemoryFraction
	codeMIGIsThere

	// Of GPU memory and compute.
	codeMemoryUnknown
	codeKVPrior          // Have: memory
	codeMemoryForTwo     // Need, Have: memory
	codeBusyForTwo       // Have: load of one; Need: the available part
	codeProfilesUnknown  //
	codeSliceSaturated   // Have: load of a whole GPU; Profile
	codeMemorySlice      // Need: memory; Profile: the largest
	CodeSliceTooSmall    // Need: memory; Profile
	CodeSliceFits        // Need: memory; Profile
	CodeSliceLoad        // Have: load of the slice; Profile
	CodeFraction         // Need: memory; Have: memory that is visible
	CodeGPUMemoryUnknown // Need: memory

	// About the free part of a GPU.
	CodeTenants
	CodeTrust
	CodeSlices
	CodeGPUMemory // Need, Have: memory
	CodeGPUShare  // Need, Have: share
	CodeSlotLimit // Need, Have: memory
	CodeLink      // Need, Have: GPUs
	CodePoolFull  // Need, Have: GPUs

	// Of objectives, bounded by figures measured alone.
	codeSLOMissed     // Metric; Have: the least it can be; Need: the limit
	codeSLOOpen       // Metric; Have: the most it can be; Need: the limit
	codeSLOTurns      //
	CodeSLOUnmeasured // Have: replicas expected on the GPU
	codeSLOPredicted  // Have: replicas expected on the GPU

	// Of objectives, as predicted: Need: the limit; Have: the prediction; Low and High: its 90% interval.
	// CodeSlowdown is in thousandths. The verdict is unknown where the limit lies within the interval. Tenants is
	// how many were assumed on the GPU, 0 for those that are there.
	CodeSlowdownUnknown
	codeTTFT
	CodeTPOT
	codeE2E
	CodeSlowdown
	CodeDeadline   // thousandths of an hour
	codeFloor      // Metric; Have: the least that the hardware allows; Need: the limit
	codeOverloaded // Have: share of the time that it keeps its part of the GPU busy; 0 = more than there is
	CodePrecision  // the GPU has no arithmetic for the weights, and engines do not convert them

	CodeTradeOff // the drawback of a choice
	codeCount
)

// Scope is the entry point at which a code applies, and so how the answers of the two may differ.
type Scope uint8

// The scopes.
const (
	// ScopeKind is asked at both doors with the same answer: of the workload and the kind of GPU, whoever runs there.
	ScopeKind Scope = iota
	// ScopeChoice is asked where the mechanism is still to be chosen: of a pool,
	// and of a GPU that runs none. A GPU that runs one has answered.
	ScopeChoice
	// ScopeEmpty is asked of an empty pool only: whether to share there at all, with the neighbours that there may be.
	// How busy work keeps a GPU is among it: where GPUs run short it orders places and refuses none.
	ScopeEmpty
	// ScopeNeighbours is asked at both doors, of other neighbours: an empty pool
	// asks it of those that there may be, a GPU of those that are there.
	ScopeNeighbours
	// ScopeLeft is about the free part of a GPU, so the answer changes as others come and go. An empty pool is all free.
	ScopeLeft
)

// Scope returns where the code's question is asked.
func (c Code) Scope() Scope {
	if c >= codeCount {
		return ScopeKind
	}
	return words[c].scope
}

var codeNames = func() *enum.Names[Code] {
	names := make([]string, codeCount)
	for c := range words {
		names[c] = words[c].Code
	}
	return enum.Of[Code](errUnknownName, "code", names...)
}()

// Codes lists every code in the order of their values.
func Codes() []Code { return codeNames.Values() }

// Source is the source of the statement that the code rests on; empty where it rests on nothing but the input.
func (c Code) Source() sharing.SourceID {
	if c >= codeCount {
		return ""
	}
	return words[c].Source
}

// errUnknownName is wrapped by the error about a text that names no verdict or code, or a value that has no text.
var errUnknownName = errors.New("filter: unknown name")

// Verdict is the answer of a check, or of all checks together, about a candidate. The zero value is VerdictUnknown.
type Verdict uint8

// The verdicts.
const (
	VerdictUnknown Verdict = iota // undecided; the reason names the measurement that would decide it
	VerdictReject                 // does not do
	VerdictFixable                // does when the change in the reason is made
	VerdictPass                   // does
)

var verdictNames = enum.Of[Verdict](errUnknownName, "verdict", "unknown", "reject", "fixable", "pass")

var severities = [...]int{VerdictUnknown: 2, VerdictReject: 3, VerdictFixable: 1, VerdictPass: 0}

// Severity orders verdicts from a pass, 0, to the one that decides first: a
// rejection outweighs an unknown, and that outweighs a fixable one.
func (v Verdict) Severity() int { return severities[v&3] }
