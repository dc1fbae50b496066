// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCount(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got, err := count(fstest.MapFS{
		"tools/x/main.go":             file("no Go, and not looked at"),
		"mig/doc.go":                  file(header + "// Package mig says who.\npackage mig\n"),
		"mig/a.go":                    file("package mig\n\n// T is what it is.\ntype T[E any] struct {\n\tA int // A is where\n}\n\n// M is one.\nfunc (t *T[E]) M() {}\n\nfunc (u u) N() {}\n\n// that is what\nconst B, c = 1, 2 // " + strings.Repeat("x", 120) + "\n"),
		"mig/a_test.go":               file("package mig\n\nfunc f() { golden.Check(t, filepath.Join(\"testdata\", name+\".txt\"), nil) }\n"),
		"mig/testdata/a.txt":          file("1\n2\n"),
		"mig/testdata/b.json":         file("1\n"),
		"mig/testdata/golden/a":       file("1\n2\n3\n"),
		"decision/a.go":               file("package decision\n\n// A is told.\nvar A int\n\nfunc f() {\n" + strings.Repeat("\n", 400) + "}\n"),
		"internal/b/b.go":             file("package b\n\nvar B int\n"),
		"examples/cotenant/main.go":   file("package main\n"),
		"examples/cotenant/x_test.go": file("package main\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := tree{
		library: part{lines: 2 + 14 + 407 + 3, tests: 3, wide: 1}, examples: part{lines: 1, tests: 1},
		packages: map[string]int{"mig": 16, "decision": 407, "internal/b": 3}, exported: 4, files: 1, functions: 1,
		comments: 7, questions: 3, idioms: 1,
		golden: map[string]int{"mig/testdata/a.txt": 2, "mig/testdata/golden/a": 3},
	}
	if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}
