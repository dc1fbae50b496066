// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	_ "embed"
	"encoding/json"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// Trait holds the figures by which a mechanism is scored.
type Trait struct {
	Mechanism sharing.Mechanism
	// Complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (cotenant-reading: by the processes to run and watch).
	Complexity float64
	// TradeOff is the drawback of choosing it.
	TradeOff       string
	TradeOffSource sharing.SourceID `json:"source"`
	// Risk is the worst of that in a few words; none of a whole GPU.
	Risk string
}

//go:embed tables.json
var tablesJSON []byte

// traits and archetypes are by mechanism and kind.
var traits, archetypes = func() (t [sharing.MechanismCount]Trait, a map[fleet.Kind]*Archetype) {
	var file struct {
		Kinds      []Archetype
		Mechanisms []Trait
	}
	_ = json.Unmarshal(tablesJSON, &file) // tests read the file that is built in
	a = map[fleet.Kind]*Archetype{}
	for i := range file.Kinds {
		k := &file.Kinds[i]
		k.Rank, a[k.Kind] = i+1, k
	}
	for _, m := range file.Mechanisms {
		t[m.Mechanism] = m
	}
	return t, a
}()

// TraitOf returns a mechanism's trait, which must not be modified.
func TraitOf(m sharing.Mechanism) *Trait { return &traits[m] }

// Archetype holds the priors of a workload's kind: archetypes, use
// cases and risk classes of widely read articles as data.
type Archetype struct {
	Kind fleet.Kind
	Rank int `json:"-"` // orders workloads that are alike in all else
	// Simple: of mechanisms that cost the same, the one that is simplest to run comes first, not the one that isolates
	// most: for work that idles for long and may be started again.
	Simple bool
	// NeverShares: the kind runs on whole GPUs.
	NeverShares bool
	// LatencyBound: time-slicing is out when it has latency objectives.
	LatencyBound bool
	// BusyPrior is used where gpu_busy is not stated: for notebooks and CI the mean GPU duty of a real serving
	// cluster with long idle stretches, 7.0 percent (alibaba-genai-trace).
	BusyPrior fleet.Optional[float64]
	// SaturatedFrom is the gpu_busy from which sharing gains nothing.
	SaturatedFrom float64
	Source        sharing.SourceID
}

// ArchetypeOf returns the priors of a kind, which must not be modified; the zero Archetype for one that is not known.
func ArchetypeOf(k fleet.Kind) *Archetype { return cmp.Or(archetypes[k], &Archetype{}) }
