// SPDX-License-Identifier: Apache-2.0

package yamlnode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/must"
)

func TestEncode(t *testing.T) {
	got := must.Get(Encode([]string{"head", "", "tail"},
		Map("b", "1", "a", 2, "c", true, "g", nil, "h", []string{"true", "y", "12:30", "Off"},
			"i", map[string]string{"z": "1", "a": "2"}, "j", Map(), "k", Empty(), "l", []string(nil), "m", []string{},
			"p", []*yaml.Node{Map()}),
		Map("second", List(Map("x", false), Text("0x1")))))(t)
	want := `# head
#
# tail
b: "1"
a: 2
c: true
h:
  - "true"
  - "y"
  - "12:30"
  - "Off"
i:
  a: "2"
  z: "1"
k: {}
m: []
p:
  - {}
---
second:
  - x: false
  - "0x1"
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, n := range []struct {
		name string
		kv   []any
	}{{"type", []any{"a", 1.5}}, {"key", []any{1, "a"}}, {"nothing", []any{"a", []any{nil}}}} {
		if out, err := Encode(nil, Map(n.kv...)); err == nil {
			t.Errorf("%s: got %q", n.name, out)
		}
		if out, err := Encode(nil, Map("deep", List(Map(n.kv...)))); err == nil {
			t.Errorf("%s inside: got %q", n.name, out)
		}
	}
}
