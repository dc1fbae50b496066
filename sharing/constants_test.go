// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package sharing

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

// sourceIn matches a source in a table of data.
var sourceIn = regexp.MustCompile(`"[sS]ource": "([a-z0-9-]+)"`)

// TestConstantsResolve looks up every constant of type SourceID in the module's code, and every source in its JSON
// tables.
func TestConstantsResolve(t *testing.T) {
	const module = "github.com/cotenant/cotenant"
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles", "./...")
	list.Dir = ".."
	out := must.Get(list.Output())(t)
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles, CgoFiles       []string
	}
	exports := map[string]string{}
	var own []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listed
		must.Do(t, dec.Decode(&p))
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	config := types.Config{FakeImportC: true, Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	found := 0
	for _, p := range own {
		var files []*ast.File
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			file := must.Get(parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0))(t)
			files = append(files, file)
		}
		tables := must.Get(filepath.Glob(filepath.Join(p.Dir, "*.json")))(t)
		for _, table := range tables {
			text := must.Get(os.ReadFile(table))(t)
			for _, m := range sourceIn.FindAllSubmatch(text, -1) {
				found++
				if _, ok := SourceByID(SourceID(m[1])); !ok {
					t.Errorf("%s: %q is no source", table, m[1])
				}
			}
		}
		info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		must.Get(config.Check(p.ImportPath, fset, files, &info))(t)
		for expr, tv := range info.Types {
			if tv.Value == nil || types.TypeString(tv.Type, nil) != module+"/sharing.SourceID" {
				continue
			}
			found++
			id := SourceID(constant.StringVal(tv.Value))
			if _, ok := SourceByID(id); !ok && id != "" {
				t.Errorf("%s: %q is no source", fset.Position(expr.Pos()), id)
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d sources were looked at", found)
	}
}
