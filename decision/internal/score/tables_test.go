// SPDX-License-Identifier: Apache-2.0

package score

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

// Every mechanism and kind has its row, of fields that are read, with sources that resolve.
func TestTables(t *testing.T) {
	dec := json.NewDecoder(bytes.NewReader(tablesJSON))
	dec.DisallowUnknownFields()
	var file struct {
		Kinds      []Archetype
		Mechanisms []Trait
	}
	if err := dec.Decode(&file); err != nil || len(file.Kinds) != 8 || len(file.Mechanisms) != len(sharing.Mechanisms()) {
		t.Fatal(len(file.Kinds), len(file.Mechanisms), err)
	}
	for _, m := range sharing.Mechanisms() {
		x := TraitOf(m)
		if _, ok := sharing.SourceByID(x.TradeOffSource); !ok || x.Mechanism != m || x.TradeOff == "" || (x.Risk == "") != (m == sharing.MechanismExclusive) {
			t.Errorf("%v: %+v", m, x)
		}
	}
	for _, k := range file.Kinds {
		if a := ArchetypeOf(k.Kind); a.Kind != k.Kind || a.Kind == "" || len(a.Source) == 0 {
			t.Errorf("%+v, %+v", k, a)
		} else if _, ok := sharing.SourceByID(a.Source); !ok {
			t.Errorf("no source %s", a.Source)
		}
	}
}
