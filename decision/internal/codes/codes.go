// SPDX-License-Identifier: Apache-2.0

// Package codes defines the codes of package filter's reasons, and their texts. The numbers are internal: programs
// compare the texts.
package codes

import (
	_ "embed"
	"encoding/json"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// The codes, with the operands of their reasons. Memory is in bytes, a share or
// load in thousandths of a GPU, a latency in microseconds.
const (
	Fits = iota

	// Of the node.
	NodeClosed
	CPU      // Need, Have: thousandths of a core
	Memory   // Need, Have: memory of the host
	Model    // the request names other GPU models
	GPUCount // Need, Have: GPUs for one replica

	// Of the pool.
	PinnedElsewhere
	NotAllowedInPool
	NotDelivered
	Research
	Hardware
	HardwareUnknown
	NoEncoder
	NeedsVGPUHost
	MIGMPSDelivery

	// About the GPU's present tenants.
	DeviceFault
	MIGMode
	NotMIG
	Profile
	NoMechanism
	Mechanism

	// Of the workload.
	NotAServer
	OneReplica
	MergeReplicas // Have: replicas
	Gang
	BusyUnknown
	BusyPrior        // Have: load
	Saturated        // Have: load; Need: the load from which sharing gains nothing
	Isolation        // Axis, Level: the demand
	IsolationUnknown // Axis, Level: the demand
	Weaker           // Axis, Level: today's isolation
	Untrusted        // Have: replicas that could be neighbours
	Alone
	MultiGPU // Need: GPUs
	HAMiBypass
	NoMemoryFraction
	MIGIsThere

	// Of GPU memory and compute.
	MemoryUnknown
	KVPrior          // Have: memory
	MemoryForTwo     // Need, Have: memory
	BusyForTwo       // Have: load of one; Need: the available part
	ProfilesUnknown  //
	SliceSaturated   // Have: load of a whole GPU; Profile
	MemorySlice      // Need: memory; Profile: the largest
	SliceTooSmall    // Need: memory; Profile
	SliceFits        // Need: memory; Profile
	SliceLoad        // Have: load of the slice; Profile
	Fraction         // Need: memory; Have: memory that is visible
	GPUMemoryUnknown // Need: memory

	// About the free part of a GPU.
	Tenants
	Trust
	Slices
	GPUMemory // Need, Have: memory
	GPUShare  // Need, Have: share
	SlotLimit // Need, Have: memory
	Link      // Need, Have: GPUs
	PoolFull  // Need, Have: GPUs

	// Of objectives, bounded by isolated figures.
	SLOMissed     // Metric; Have: the least it can be; Need: the limit
	SLOOpen       // Metric; Have: the most it can be; Need: the limit
	SLOTurns      //
	SLOUnmeasured // Have: replicas expected on the GPU
	SLOPredicted  // Have: replicas expected on the GPU

	// Of objectives, as predicted: Need: the limit; Have: the prediction; Low and High: its 90% interval.
	// Slowdown is in thousandths. The verdict is unknown where the limit lies within the interval. Tenants is
	// how many were assumed on the GPU, 0 for those that are there.
	SlowdownUnknown
	TTFT
	TPOT
	E2E
	Slowdown
	Deadline   // thousandths of an hour
	Floor      // Metric; Have: the least that the hardware allows; Need: the limit
	Overloaded // Have: share of the time that it keeps its part of the GPU busy; 0 = more than there is
	Precision  // the GPU has no arithmetic for the weights, and engines do not convert them

	TradeOff // the drawback of a choice
	Count
)

// Scope is the entry point at which a code applies, and so how the answers of the two may differ.
type Scope string

// The scopes, as words.json has them.
const (
	// Kind applies at both entries with the same answer: to the workload and the kind of GPU, with any neighbours.
	Kind Scope = "kind"
	// Choice applies where the mechanism is still to be chosen: to a pool, and to a GPU that runs none.
	Choice Scope = "choice"
	// Empty applies to an empty pool only: whether to share there at all, with the neighbours that there may be.
	Empty Scope = "empty"
	// Neighbours applies to the neighbours that an empty pool may have, and to those that a GPU has.
	Neighbours Scope = "neighbours"
	// Left is about the free part of a GPU, so the answer changes as others come and go. An empty pool is all free.
	Left Scope = "left"
)

// Word holds the sentence of a code, with figures of the reason as ${figure}.
type Word struct {
	Code   string // its text, which is stable: it is part of outputs
	Source sharing.SourceID
	Scope  Scope
	Text   string
	Alone  string // in the place of Text where the target is not known; "" = the same
	Short  string // in a few words, without numbers, of those that a node refuses for
}

// WordsJSON is the file of Words.
//
//go:embed words.json
var WordsJSON []byte

// Words has the text of each code.
var Words = func() (all [Count]Word) {
	_ = json.Unmarshal(WordsJSON, &all) // a test reads the file that is built in
	return all
}()

// Limits are the latencies that objectives are about, with the codes of their reasons and their names: the P99s in the
// order of an outcome, then the median.
var Limits = [...]struct {
	Metric profile.Metric
	Code   uint8
	Name   string
}{{profile.MetricTTFTP99, TTFT, "TTFT P99"}, {profile.MetricTPOTP99, TPOT, "TPOT P99"},
	{profile.MetricE2EP99, E2E, "E2E P99"}, {profile.MetricTPOTP50, TPOT, "TPOT P50"}}

// ObjectiveName names a metric as objectives do.
func ObjectiveName(m profile.Metric) string {
	for i := range Limits {
		if Limits[i].Metric == m {
			return Limits[i].Name
		}
	}
	return m.String()
}
