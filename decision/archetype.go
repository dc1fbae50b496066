package decision

import "github.com/cotenant/cotenant/sharing"

// Archetype holds what the engine takes from a workload's kind: archetypes, use
// cases and risk classes of widely read articles as data.
type Archetype struct {
	Kind  Kind
	Class string // the risk class that the kind falls in
	// Weights are the default weights of the criteria. Isolation counts at most 1 where the workload demands none.
	Weights Weights
	// NeverShares: the kind runs on whole GPUs.
	NeverShares bool
	// LatencyBound: time-slicing is out when it has latency objectives.
	LatencyBound bool
	// BusyPrior stands for a gpu_busy that is not stated.
	BusyPrior Optional[float64]
	// SaturatedFrom is the gpu_busy from which sharing gains nothing.
	SaturatedFrom float64
	Source        sharing.SourceID
}

// notebookBusy is the mean GPU duty of a real serving cluster with long idle
// stretches, 7.0 percent (alibaba-genai-trace).
const notebookBusy = 0.07

var archetypes = [kindCount]Archetype{
	KindDistributedTraining: {Kind: KindDistributedTraining, Class: "Batch", NeverShares: true, SaturatedFrom: 0,
		Weights: Weights{Isolation: 1, Latency: 1, Throughput: 6, Cost: 1, Complexity: 1}, Source: "asleekgeek-sharing"},
	KindTraining: {Kind: KindTraining, Class: "Batch", SaturatedFrom: 0.7,
		Weights: Weights{Isolation: 1, Latency: 1, Throughput: 4, Cost: 2, Complexity: 2, Density: 1},
		Source:  "asleekgeek-sharing"},
	KindOnlineInference: {Kind: KindOnlineInference, Class: "Customer-facing APIs", LatencyBound: true, SaturatedFrom: 0.8,
		Weights: Weights{Isolation: 3, Latency: 3, Throughput: 1, Cost: 3, Complexity: 1, Density: 1},
		Source:  "asleekgeek-sharing"},
	KindOfflineInference: {Kind: KindOfflineInference, Class: "Batch", SaturatedFrom: 0.8,
		Weights: Weights{Isolation: 1, Latency: 1, Throughput: 3, Cost: 3, Complexity: 1, Density: 1},
		Source:  "myitbasics-eks-sharing"},
	KindBatch: {Kind: KindBatch, Class: "Batch", SaturatedFrom: 0.8,
		Weights: Weights{Isolation: 1, Latency: 0.5, Throughput: 3, Cost: 3, Complexity: 1, Density: 1},
		Source:  "myitbasics-eks-sharing"},
	KindNotebook: {Kind: KindNotebook, Class: "Dev/Test", BusyPrior: Some(notebookBusy), SaturatedFrom: 0.8,
		Weights: Weights{Isolation: 0.5, Latency: 0.5, Throughput: 0.5, Cost: 2, Complexity: 4, Density: 1},
		Source:  "asleekgeek-sharing"},
	KindCI: {Kind: KindCI, Class: "Dev/Test", BusyPrior: Some(notebookBusy), SaturatedFrom: 0.8,
		Weights: Weights{Isolation: 0.5, Latency: 0.5, Throughput: 0.5, Cost: 2, Complexity: 4, Density: 1},
		Source:  "myitbasics-eks-sharing"},
	KindHPC: {Kind: KindHPC, Class: "Batch", SaturatedFrom: 0.8,
		Weights: Weights{Isolation: 1, Latency: 1, Throughput: 4, Cost: 3, Complexity: 1, Density: 1},
		Source:  "myitbasics-eks-sharing"},
}

// ArchetypeOf returns what the engine takes from a kind; the zero Archetype for KindUnknown.
func ArchetypeOf(k Kind) Archetype {
	if k >= kindCount {
		return Archetype{}
	}
	return archetypes[k]
}
