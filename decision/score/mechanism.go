// SPDX-License-Identifier: Apache-2.0

package score

import (
	_ "embed"
	"encoding/json"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Trait holds the figures by which a mechanism is scored; those of the gates are in [gate.Traits].
type Trait struct {
	Mechanism sharing.Mechanism
	// Aggregate is the part of one GPU's work that saturated tenants deliver together, a prior.
	Aggregate float64
	// Complexity is operational: 0 nothing to run, 1 low, 2 medium, 3 high, 4
	// very high (cotenant-reading: by the processes to run and watch).
	Complexity float64
	// TradeOff is the drawback of choosing it.
	TradeOff       string
	TradeOffSource sharing.SourceID `json:"source"`
	// Risk is the worst of that in a few words; none of a whole GPU.
	Risk string
}

const (
	// mpsAggregate lies between 0.88 of dedicated GPUs for LLM servers at high equal load (dynamo-gpu-sharing) and
	// 1.93 for small vision models (nos-gpu-sharing): their geometric mean.
	mpsAggregate = 1.30
	// migAggregate lies between 98 of an A100's 108 SMs and 1.79 (nos-gpu-sharing).
	migAggregate = 1.28
	// hamiAggregate lies between 0.445 and 0.728 of dedicated GPUs (dynamo-gpu-sharing).
	hamiAggregate = 0.57
)

// aggregates are the parts of a GPU that tenants deliver together, for mechanisms where it isn't the gates' capacity.
var aggregates = map[sharing.Mechanism]float64{
	sharing.MechanismMPS: mpsAggregate, sharing.MechanismHAMiWithMPS: mpsAggregate,
	sharing.MechanismMIGLikeEmulation: mpsAggregate, sharing.MechanismMIG: migAggregate,
	sharing.MechanismMIGWithMPS: migAggregate, sharing.MechanismMIGBackedVGPU: migAggregate,
	sharing.MechanismHAMi: hamiAggregate,
}

//go:embed tables.json
var tablesJSON []byte

// traits and archetypes are by mechanism and kind.
var traits, archetypes = func() (t [sharing.MechanismCount]Trait, a [fleet.KindCount]Archetype) {
	var file struct {
		Kinds      []Archetype
		Mechanisms []Trait
	}
	_ = json.Unmarshal(tablesJSON, &file) // tests read the file that is built in
	for _, k := range file.Kinds {
		a[k.Kind] = k
	}
	for _, m := range file.Mechanisms {
		var known bool
		if m.Aggregate, known = aggregates[m.Mechanism]; !known {
			m.Aggregate = gate.TraitsOf(m.Mechanism).Capacity
		}
		t[m.Mechanism] = m
	}
	return t, a
}()

// TraitOf returns a mechanism's trait, which must not be modified.
func TraitOf(m sharing.Mechanism) *Trait { return &traits[m] }
