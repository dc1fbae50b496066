// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Discovery holds the findings about one cluster.
type Discovery struct {
	Fleet      decision.Fleet
	Provenance map[string]Provenance // by path in the fleet
	Findings   []Finding             // worst first
	Unknown    []Unknown             // by path
	Today      []Sharing             // by pool and mechanism
	Used       []Used                // measured use, by workload
	// Profiles holds, by workload, the profile of a model server with a GPU of its own, made from several metrics pages.
	// Add them to decision.Options.Profiles to predict from them.
	Profiles map[string]profile.SoloProfile
	Pods     int // that were read, with GPUs or without
}

// Sharing counts a pool's GPUs under one mechanism today.
type Sharing struct {
	Pool      string            `json:"pool"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	GPUs      int               `json:"gpus"`
	Tenants   int               `json:"tenants"` // pods that run on them
	Inside    []Inside          `json:"inside,omitempty"`
}

// Inside reports MIG instances that each serve several pods: only the mechanism's isolation separates the pods of
// one instance.
type Inside struct {
	Profile   string            `json:"profile"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Pods      int               `json:"pods"` // to an instance
}

// Used holds a workload's measured use of its GPUs over time, per replica and GPU. What was not measured is missing.
type Used struct {
	Workload  string
	MemoryMax decision.Optional[sharing.Bytes]
	BusyMean  decision.Optional[float64] // share of a whole GPU
	// Together is set where the figures are of whole GPUs that others use too. WholeBusy is how busy such GPUs are on
	// average, also where its own part is known.
	Together  bool
	WholeBusy decision.Optional[float64]
}

// Unknown is a field without a source among the input.
type Unknown struct {
	Path   string `json:"path"` // in the fleet: "workloads[3].memory"
	Why    string `json:"why"`
	Remedy string `json:"remedy"` // the cheapest way to know
}
