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
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a locator may be, besides a file of this repository.
var locators = regexp.MustCompile(`^(https://[a-z0-9.-]+\.[a-z]+/\S+|github\.com/[\w.-]+/[\w.-]+@[0-9a-f]{40}:\S+|arXiv:\d{4}\.\d{4,5}|doi:10\.\d+/\S+)$`)

func TestSources(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	date := regexp.MustCompile(`^2\d{3}-\d{2}-\d{2}$`)
	seen := map[SourceID]bool{}
	for _, s := range Sources() {
		if !form.MatchString(string(s.ID)) || seen[s.ID] || s.Title == "" || s.Basis == BasisUnknown {
			t.Errorf("malformed, or not the first of its id: %+v", s)
		}
		seen[s.ID] = true
		if got, ok := SourceByID(s.ID); !ok || got != s {
			t.Errorf("SourceByID(%s) = %+v, %v", s.ID, got, ok)
		}
		if !locators.MatchString(s.Locator) {
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(s.Locator))); err != nil || strings.Contains(s.Locator, ":") {
				t.Errorf("%s: locator %q is no URL, no repository at a commit, no paper and no file here", s.ID, s.Locator)
			}
		}
		if strings.HasPrefix(s.Locator, "https://") && !date.MatchString(s.Date) {
			t.Errorf("%s: a page needs the date when it was read", s.ID)
		}
		if line := locatorLine(s.ID, 31, s.Locator); utf8.RuneCountInString(line) > citationColumns {
			t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
		}
		if own := strings.HasPrefix(string(s.ID), "cotenant-"); own && locators.MatchString(s.Locator) {
			t.Errorf("%s: ours, and not in this repository", s.ID)
		}
	}
	if _, ok := SourceByID("A10"); ok {
		t.Error("A10 resolves")
	}
}

// TestSourcesAreCited looks for each source in the module's code and data.
func TestSourcesAreCited(t *testing.T) {
	var text strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name != ".." && name[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != "sourcedata.go", name == "catalogue.json":
			b, err := os.ReadFile(path)
			text.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cited := map[string]bool{}
	for _, word := range regexp.MustCompile(`[\w-]+`).FindAllString(text.String(), -1) {
		cited[word] = true
	}
	for _, s := range Sources() {
		if !cited[string(s.ID)] {
			t.Errorf("nothing cites %s", s.ID)
		}
	}
}

// TestConstantsResolve looks every constant of type SourceID up that the
// module's code holds.
func TestConstantsResolve(t *testing.T) {
	const module = "github.com/cotenant/cotenant"
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles", "./...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles, CgoFiles       []string
	}
	exports := map[string]string{}
	var own []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
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
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := config.Check(p.ImportPath, fset, files, &info); err != nil {
			t.Fatal(err)
		}
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
	if found < 500 {
		t.Errorf("only %d constants were looked at", found)
	}
}
