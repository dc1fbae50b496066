// SPDX-License-Identifier: Apache-2.0

package yamlnode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/must"
)

func TestEncode(t *testing.T) {
	var none *yaml.Node
	got := must.Get(Encode([]string{"head", "", "tail"},
		Map("b", "1", "a", 2, "c", true, "f", none, "g", nil, "i", map[string]string{"z": "1", "a": "2"}, "j", Map(), "k", Empty()),
		Map("second", List(Map("x", false), Text("0x1"), Text("y"), Text("12:30"), Text("Off")))))(t)
	want := `# head
#
# tail
b: "1"
a: 2
c: true
i:
  a: "2"
  z: "1"
k: {}
---
second:
  - x: false
  - "0x1"
  - "y"
  - "12:30"
  - "Off"
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// TestParse: documents of any layout are written in one, without the keys that have no value.
func TestParse(t *testing.T) {
	docs := must.Get(Parse([]byte(`{"z": "x", a: {b: null, c: {d: }}, "e": ["1", {f: }, 'on', 2], g: ~, "h": "two\nlines\n", i: []}
---
- {k: "v"}
`)))(t)
	want := "z: x\ne:\n  - \"1\"\n  - \"on\"\n  - 2\ng: null\nh: |\n  two\n  lines\n---\n- k: v\n"
	if diff := cmp.Diff(want, string(must.Get(Encode(nil, docs...))(t))); diff != "" {
		t.Error(diff)
	}
	if _, err := Parse([]byte("{a: [}")); err == nil {
		t.Error("no error of broken YAML")
	}
}
