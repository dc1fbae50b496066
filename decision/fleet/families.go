// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// family holds the facts about some model types that their config.json leaves out: the defaults of the configuration
// class in transformers (src/transformers/models/*/configuration_*.py), and the names of modules in lists such as the
// ignore list of quantization_config.
type family struct {
	Types    []string        // model_type, without the suffix _text of a language model that is a part of a larger model
	Defaults json.RawMessage // fields of config.json
	MLP      string          // the feed-forward of a layer; "" = mlp
	Shared   string          // the shared expert within it; "" = shared_experts
	Ungated  bool            // a feed-forward has two matrices instead of three
	Gated    bool            // attention has a gate of the query's size
}

//go:embed families.json
var familiesJSON []byte

// families reads the table once; the tests of its rows find an error in it.
var families = sync.OnceValue(func() (all []family) {
	_ = json.Unmarshal(familiesJSON, &all)
	return all
})

// familyOf finds the family of a model type.
func familyOf(modelType string) (*family, bool) {
	for i, f := range families() {
		if slices.Contains(f.Types, strings.TrimSuffix(modelType, "_text")) {
			return &families()[i], true
		}
	}
	return &family{}, false
}

// familyNames lists the known model types.
func familyNames() (names []string) {
	for _, f := range families() {
		names = append(names, f.Types...)
	}
	return names
}
