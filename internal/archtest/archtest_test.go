// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

// TestImportRules holds the whole module against the rules, for every platform
// that is built, test files of the package itself apart.
func TestImportRules(t *testing.T) {
	// Go's test cache sees what a test looks at, and not what go list does.
	must.Do(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	}))
	for _, env := range [][]string{
		{"GOOS=linux", "CGO_ENABLED=1"}, {"GOOS=linux", "CGO_ENABLED=0"},
		{"GOOS=darwin", "CGO_ENABLED=0"}, {"GOOS=windows", "CGO_ENABLED=0"},
	} {
		cmd := exec.Command("go", "list", "-json=ImportPath,Imports", Module+"/...")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		if err != nil {
			var ee *exec.ExitError
			if errors.As(err, &ee) {
				t.Fatalf("go list: %v\n%s", err, ee.Stderr)
			}
			t.Fatal(err)
		}
		imports := map[string][]string{}
		dec := json.NewDecoder(strings.NewReader(string(out)))
		for {
			var p struct {
				ImportPath string
				Imports    []string
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			imports[p.ImportPath] = p.Imports
		}
		if len(imports) < 5 {
			t.Fatalf("go list found %d packages", len(imports))
		}
		for _, dir := range []string{"examples/kube-scheduler", "examples/exporter"} {
			maps.Copy(imports, moduleImports(t, dir))
		}
		for _, b := range Check(imports) {
			t.Errorf("%v: %s", env, b)
		}
	}
}

// moduleImports are the imports of an example that is a module of its own.
func moduleImports(t *testing.T, dir string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir("../../"+dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := Module + strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../..")
		for _, i := range f.Imports {
			imports[pkg] = append(imports[pkg], strings.Trim(i.Path.Value, `"`))
		}
		return nil
	})
	if err != nil || len(imports) == 0 {
		t.Fatalf("%s: %d packages, %v", dir, len(imports), err)
	}
	return imports
}

func TestCheckFindsForbiddenImports(t *testing.T) {
	m := Module + "/"
	for _, c := range []struct {
		pkg, dep string
		broken   bool
	}{
		{"decision", nvml + "/pkg/nvml", true},
		{"mig", nvml + "/pkg/nvml", true},
		{"mig/mignvml", nvml + "/pkg/nvml", false},
		{"sharing", m + "mig", true},
		{"mig", m + "sharing", false},
		{"mig/mignvml", m + "mig", false},
		{"mps", m + "mps/mpstest", true},
		{"loadgen", m + "sharing", true},
		{"loadgen", m + "loadgen/internal/wire", false},
		{"loadgen/prompt", m + "loadgen/internal/wire", true},
		{"loadgen/internal/wire", m + "internal/problem", true},
		{"decision", m + "decision/predict", false},
		{"decision/filter", m + "decision", true},
		{"loadgen/parts", "fmt", true}, // a package without a rule
		{"internal/problem", m + "sharing", true},
		{"decision", m + "examples/quickstart", true},
		{"examples/quickstart", m + "decision", false},
		{"examples/quickstart", m + "internal/problem", true},
		{"examples/kube-scheduler/plugin", m + "internal/strictyaml", true},
		{"examples/cotenant", m + "decision/predict/copies", false},
		{"decision/colocation", m + "decision/probe/cudaprobe", true},
		{"examples/internal/page", m + "internal/plaintext", true},
		{"examples/cotenant", m + "internal/strictyaml", true},
		{"examples/kube-scheduler/plugin", m + "examples/kube-scheduler/internal/problems", false},
		{"examples/mps", m + "internal/webpage", true},
		{"decision/probe", "C", true},
		{"decision/probe/cudaprobe", "C", false},
		{"common", "fmt", true},
	} {
		imports := map[string][]string{}
		for rel := range allowed {
			imports[m+rel] = nil
		}
		imports[m+c.pkg] = []string{c.dep}
		got := Check(imports)
		if (len(got) > 0) != c.broken {
			t.Errorf("%s importing %s: %v", c.pkg, c.dep, got)
		}
		if len(got) > 0 && !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.pkg) }) {
			t.Errorf("message does not name the package: %v", got)
		}
	}
}

func TestCheckFindsRulesOfNothing(t *testing.T) {
	imports := map[string][]string{}
	for rel := range allowed {
		imports[Module+"/"+rel] = nil
	}
	delete(imports, Module+"/mps")
	if got := Check(imports); len(got) != 1 || !strings.HasPrefix(got[0], "mps: ") {
		t.Errorf("%v", got)
	}
}
