// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/google/go-cmp/cmp"
)

type schemaNode struct {
	Ref        string                `json:"$ref"`
	Defs       map[string]schemaNode `json:"$defs"`
	Properties map[string]schemaNode `json:"properties"`
	Required   []string              `json:"required"`
	Items      *schemaNode           `json:"items"`
	Enum       []any                 `json:"enum"`
	Additional any                   `json:"additionalProperties"`
}

// TestSchemaMatchesTypes holds the published schema against the types that
// are really decoded: the same keys, the same required ones.
func TestSchemaMatchesTypes(t *testing.T) {
	var root schemaNode
	if err := json.Unmarshal(fleet.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, n schemaNode, typ reflect.Type)
	walk = func(path string, n schemaNode, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if n.Ref != "" {
			n = root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
		}
		switch {
		case typ.Kind() == reflect.Slice && n.Items != nil:
			walk(path+"[]", *n.Items, typ.Elem())
			return
		case typ.Kind() != reflect.Struct || len(n.Properties) == 0:
			return
		}
		if n.Additional != false {
			t.Errorf("%s: unknown keys are allowed by the schema", path)
		}
		var keys, required []string
		for i := range typ.NumField() {
			tag, rest, _ := strings.Cut(typ.Field(i).Tag.Get("yaml"), ",")
			if tag == "" {
				continue
			}
			keys = append(keys, tag)
			if strings.Contains(rest, "required") {
				required = append(required, tag)
			}
			walk(path+"."+tag, n.Properties[tag], typ.Field(i).Type)
		}
		var have []string
		for k := range n.Properties {
			have = append(have, k)
		}
		slices.Sort(keys)
		slices.Sort(have)
		slices.Sort(required)
		schemaRequired := slices.Clone(n.Required)
		slices.Sort(schemaRequired)
		if diff := cmp.Diff(keys, have); diff != "" {
			t.Errorf("%s keys (-types +schema):\n%s", path, diff)
		}
		if diff := cmp.Diff(required, schemaRequired); diff != "" {
			t.Errorf("%s required (-types +schema):\n%s", path, diff)
		}
	}
	walk("fleet", root, reflect.TypeFor[Fleet]())
	_, err := ParseFleet([]byte("version: v1\npools: [{name: p, gpu: T4, count: 1}]\nworkloads: [{name: w, kind: zzzzzzzzzzzzzz}]"))
	known := strings.ReplaceAll(strings.Trim(fmt.Sprint(root.Defs["workload"].Properties["kind"].Enum), "[]"), " ", ", ")
	if err == nil || !strings.Contains(err.Error(), "known: "+known) {
		t.Errorf("the schema's kinds are %s: %v", known, err)
	}
}
