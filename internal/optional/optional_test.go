// SPDX-License-Identifier: Apache-2.0

package optional

import (
	"encoding/json"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

func TestMissingIsAbsent(t *testing.T) {
	type row struct {
		A Value[int]     `json:"a,omitzero"`
		B Value[float64] `json:"b"`
		C Value[int]     `json:"c,omitzero"`
	}
	b, err := json.Marshal(row{C: Of(0)})
	if err != nil || string(b) != `{"b":null,"c":0}` {
		t.Fatalf("%s, %v", b, err)
	}
	back := row{A: Of(1)}
	must.Do(t, json.Unmarshal([]byte(`{"a":null,"b":2.5,"c":0}`), &back))
	if back != (row{B: Of(2.5), C: Of(0)}) {
		t.Errorf("%+v", back)
	}
	if err := json.Unmarshal([]byte(`{"c":"x"}`), &back); err == nil {
		t.Error("a text is taken for an int")
	}
	if v, ok := back.C.Get(); v != 0 || !ok || back.A.Or(7) != 7 || back.A.String() != "-" || back.B.String() != "2.5" {
		t.Errorf("%+v", back)
	}
}

func TestEqual(t *testing.T) {
	list := Of([]int{1})
	if !list.Equal(Of([]int{1})) || list.Equal(Of([]int{2})) || Of(0).Equal(Value[int]{}) || !(Value[int]{}).Equal(Value[int]{}) {
		t.Error("Equal does not tell values apart")
	}
}
