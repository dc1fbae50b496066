// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDiff: what went, what came and what changed are told apart, and equal records do not differ.
func TestDiff(t *testing.T) {
	record := func(answers map[string]any, packed bool) string {
		dir := t.TempDir()
		for _, k := range kinds {
			of := map[string]any{}
			if k.name == "decisions" {
				of = answers
			}
			if err := write(filepath.Join(dir, k.name+".json"), of, packed); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	type m = map[string]any
	before := m{"a": m{"gone": 1, "list": []any{1, 2, m{"x": 3}}}, "b": m{"gone": 2, "list": []any{}}, "old": 1}
	after := m{"a": m{"list": []any{1, 2, m{"x": 4}}}, "b": m{"list": []any{5}, "new": "n"}}
	var out strings.Builder
	n, err := diff(record(before, false), record(after, true), &out)
	const want = `decisions: 3 of 3 answers differ
  answer went: old
  key went: .gone: 2 places in 2 answers, first in a: 1
  key came: .new: 1 places in 1 answers, first in b: "n"
  value changed: .list (length): 1 places in 1 answers, first in b: 0 -> 1
  value changed: .list[].x: 1 places in 1 answers, first in a: 3 -> 4
`
	if err != nil || n != 3 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("%d, %v:\n%s", n, err, &out)
	}
	if n, err := diff(record(before, true), record(before, false), &out); n != 0 || err != nil {
		t.Errorf("equal records: %d, %v", n, err)
	}
	if _, err := diff(t.TempDir(), record(before, false), &out); err == nil {
		t.Error("a folder without a record")
	}
}
