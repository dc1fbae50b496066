// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

// TestNames: the built-in file has nothing that is not read and no GPU that is not known, and a machine's type begins
// with one prefix only.
func TestNames(t *testing.T) {
	all := names()
	dec := yaml.NewDecoder(bytes.NewReader(namesYAML))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil {
		t.Error(err)
	}
	for _, r := range all.Rules {
		if r.Name == "" || r.Kind == "" {
			t.Errorf("%+v", r)
		}
	}
	for x := range all.Machines {
		for y := range all.Machines {
			if x != y && strings.HasPrefix(x, y) {
				t.Errorf("%s begins with %s", x, y)
			}
		}
	}
	for _, gpus := range []map[string]string{all.Machines, all.GKE} {
		for name, gpu := range gpus {
			if _, err := sharing.LookupGPU(gpu); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(all.Rules) < 13 || len(all.Servers) < 6 || len(all.Machines) < 40 || len(all.GKE) < 13 {
		t.Errorf("%d rules, %d servers, %d machines, %d names of GKE", len(all.Rules), len(all.Servers), len(all.Machines), len(all.GKE))
	}
}

// TestFindingTexts: each text of the built-in file is of a finding that the package reports with as many arguments as
// the text has verbs, and the other way round.
func TestFindingTexts(t *testing.T) {
	args := map[string]int{"nodes-cordoned": 5, "nodes-not-ready": 5} // their codes are put together
	files, err := filepath.Glob("*.go")
	for _, name := range files {
		f, wrong := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if wrong != nil {
			t.Fatal(wrong)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 1 {
				fun, isMethod := call.Fun.(*ast.SelectorExpr)
				id, isText := call.Args[0].(*ast.BasicLit)
				if isMethod && isText && fun.Sel.Name == "find" {
					code, _ := strconv.Unquote(id.Value)
					args[code] = len(call.Args) - 3
					if of, _ := fun.X.(*ast.Ident); of != nil && of.Name == "n" { // of a node, which is the object
						args[code]++
					}
				}
			}
			return true
		})
	}
	if len(files) == 0 || err != nil {
		t.Fatal(files, err)
	}
	verbs := regexp.MustCompile(`%[.0-9]*[a-z]`)
	for id, f := range findingTexts() {
		n, found := args[id]
		if want := len(verbs.FindAllString(f.Message, -1)); !found || n != want || f.Severity == sharing.SeverityUnknown {
			t.Errorf("%s: %d arguments for %q, found %v", id, n, f.Message, found)
		}
		delete(args, id)
	}
	for id := range args {
		t.Errorf("findings.yaml lacks %s", id)
	}
}
