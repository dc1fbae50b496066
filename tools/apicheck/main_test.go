// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// TestBreaks: what is gone or changed is named, unless the changelog names it; what is new is no break.
func TestBreaks(t *testing.T) {
	pkg := func(src string) map[string]*types.Package {
		t.Helper()
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", "package cost\n"+src, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := (&types.Config{Importer: importer.Default()}).Check("cost", fset, []*ast.File{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*types.Package{"cost": p}
	}
	before := pkg("func F() {}\nfunc G(int) {}\ntype T struct{ A int }\n")
	after := pkg("func G(string) {}\ntype T struct{}\nfunc New() {}\n")
	for changelog, want := range map[string]string{"": "F A G", "- `F` and T's `A` are gone": "G", "`F`, `cost.G`, `T.A`": ""} {
		errs := breaks(before, after, changelog)
		if len(errs) != len(strings.Fields(want)) {
			t.Errorf("%q: %v", changelog, errs)
		}
	}
	if errs := breaks(before, nil, ""); len(errs) != 1 {
		t.Error(errs)
	}
}
