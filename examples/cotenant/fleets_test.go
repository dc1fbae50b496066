// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/golden"
)

// TestFleetExamples: each kind of fleet is printed, read without a warning of its own, and decided with every workload in
// a place.
func TestFleetExamples(t *testing.T) {
	if n := len(fleetKinds()); n != 10 {
		t.Errorf("%d kinds", n)
	}
	for _, kind := range fleetKinds() {
		code, text, errs := program(t, "", "decide", "-print-fleet", kind)
		if code != exitDone {
			t.Fatalf("%s: exit %d, %s", kind, code, errs)
		}
		fleet, err := decision.ParseFleet([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		r, err := decision.Decide(t.Context(), fleet, decision.Options{})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, d := range r.Decisions {
			if d.Placed < d.Replicas {
				t.Errorf("%s: %s has %d of %d places: %s", kind, d.Workload, d.Placed, d.Replicas, d.Why)
			}
		}
	}
	if code, _, errs := program(t, "", "decide", "-print-fleet", "none"); code != exitBadInput || !strings.Contains(errs, "known: batch, ci") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// key is a node of the fleet's schema.
type key struct {
	Ref, Type, Description, Pattern string
	Defs, Properties                map[string]key
	Required                        []string
	Items                           *key
	Enum, Examples                  []any
	Const                           any
}

// UnmarshalJSON reads the names that Go's fields cannot have.
func (k *key) UnmarshalJSON(b []byte) error {
	type plain key
	var with struct {
		*plain
		Ref  string         `json:"$ref"`
		Defs map[string]key `json:"$defs"`
		Type any            `json:"type"`
	}
	with.plain = (*plain)(k)
	err := json.Unmarshal(b, &with)
	k.Ref, k.Defs = strings.TrimPrefix(with.Ref, "#/$defs/"), with.Defs
	k.Type, _ = with.Type.(string)
	return err
}

// TestFleetPage holds the page of a fleet's keys to the schema and the examples: -update writes it.
func TestFleetPage(t *testing.T) {
	var root key
	if err := json.Unmarshal(fleet.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# The keys of a fleet file\n\nGenerated from the JSON Schema (`cotenant decide -schema`) by `go test ./examples/cotenant " +
		"-run FleetPage -update`. Keys in bold are required. Amounts of memory are texts with a unit (18GiB), times too (500ms), " +
		"prices have a currency (3.25 USD).\n")
	var walk func(title string, n key)
	walk = func(title string, n key) {
		if d := n.Ref; d != "" {
			n = root.Defs[d]
		}
		fmt.Fprintf(&b, "\n## %s\n\n| key | value | for |\n|---|---|---|\n", title)
		var below []string
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			p := n.Properties[name]
			of := p
			kind := p.Type
			if p.Items != nil {
				of, kind = *p.Items, "list"
			}
			if of.Ref != "" {
				kind = strings.TrimSpace(map[bool]string{true: "list of "}[p.Items != nil] + of.Ref)
				of = root.Defs[of.Ref]
			}
			if len(of.Properties) > 0 {
				below = append(below, name)
				kind = "see below"
			} else if of.Const != nil {
				kind = fmt.Sprintf("`%v`", of.Const)
			} else if len(of.Enum) > 0 {
				kind = strings.ReplaceAll(strings.Trim(fmt.Sprint(of.Enum), "[]"), " ", ", ")
			}
			shown := "`" + name + "`"
			if slices.Contains(n.Required, name) {
				shown = "**" + shown + "**"
			}
			what := p.Description
			if what == "" {
				what = of.Description
			}
			if len(p.Examples) > 0 {
				what = strings.TrimSpace(fmt.Sprintf("%s E.g. `%v`.", what, p.Examples[0]))
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", shown, kind, strings.ReplaceAll(what, "|", "\\|"))
		}
		for _, name := range below {
			p := n.Properties[name]
			if p.Items != nil {
				p = *p.Items
			}
			if title == "fleet" {
				walk(name, p)
			} else {
				walk(title+"."+name, p)
			}
		}
	}
	walk("fleet", root)
	b.WriteString("\n# Examples\n\n`cotenant decide -print-fleet KIND` prints them; `cotenant decide -print-fleet KIND | cotenant decide -` decides.\n")
	for _, kind := range fleetKinds() {
		_, text, _ := program(t, "", "decide", "-print-fleet", kind)
		fmt.Fprintf(&b, "\n## %s\n\n```yaml\n%s```\n", kind, text)
	}
	golden.Check(t, "../../decision/FLEET.md", []byte(b.String()))
}
