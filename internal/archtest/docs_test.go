// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/optional"
)

// stable lists the packages whose API changes incompatibly only with a new major
// version. A package below one of them may be stable too, or experimental.
var stable = []string{"cost", "loadgen", "mig", "mps", "sharing", "telemetry", "timeslice"}

// stableAlone lists such packages below which none is stable by that.
var stableAlone = []string{"decision", "decision/fleet", "decision/filter", "decision/layout", "decision/placement"}

// libraryPackages visits the packages that users can import, without their tests.
func libraryPackages(t *testing.T, visit func(path string, p *doc.Package)) {
	root := filepath.Join("..", "..")
	must.Do(t, filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		path, _ := filepath.Rel(root, dir)
		path = filepath.ToSlash(path)
		switch {
		case err != nil || !d.IsDir():
			return err
		case slices.Contains([]string{"examples", "internal", "testdata", "tools", "out"}, d.Name()), path != "." && d.Name()[0] == '.':
			return fs.SkipDir
		case path == ".":
			return nil
		}
		fset := token.NewFileSet()
		entries, err := os.ReadDir(dir)
		var files []*ast.File
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") && err == nil {
				var f *ast.File
				f, err = parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments)
				files = append(files, f)
			}
		}
		if err != nil || len(files) == 0 {
			return err
		}
		p, err := doc.NewFromFiles(fset, files, path)
		if err == nil {
			visit(path, p)
		}
		return err
	}))
}

// TestDocs: each package says whether its API may change, and each alias of an
// Optional names the methods that go doc does not show of it.
func TestDocs(t *testing.T) {
	told := []string{"JSON", "if v, ok := o.Get(); ok { use(v) }"}
	value := reflect.TypeFor[*optional.Value[int]]()
	for i := range value.NumMethod() {
		if name := value.Method(i).Name; name != "Any" && !strings.HasSuffix(name, "JSON") { // of the encoders
			told = append(told, name)
		}
	}
	packages, aliases := 0, 0
	libraryPackages(t, func(path string, p *doc.Package) {
		packages++
		top, _, below := strings.Cut(path, "/")
		text, promised := strings.ToLower(p.Doc), slices.Contains(stable, top) || slices.Contains(stableAlone, path)
		says := map[bool]bool{true: strings.Contains(text, "stable"), false: strings.Contains(text, "experimental")}
		if !says[promised] && !(promised && below && says[false]) || says[true] && says[false] {
			t.Errorf("%s: its documentation does not say whether it is stable or experimental", path)
		}
		for _, typ := range p.Types {
			if typ.Name != "Optional" {
				continue
			}
			aliases++
			text := typ.Doc
			for _, s := range typ.Decl.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.Name == "Optional" {
					text += s.Doc.Text()
				}
			}
			for _, want := range told {
				if !strings.Contains(text, want) {
					t.Errorf("%s: Optional's comment does not have %q", path, want)
				}
			}
		}
	})
	if packages < 30 || aliases != 2 || len(told) < 7 {
		t.Errorf("%d packages, %d aliases of %q", packages, aliases, told)
	}
}
