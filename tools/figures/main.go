// SPDX-License-Identifier: Apache-2.0

// Figures counts what the size of the tree is judged by, and fails when the library and the examples or their tests
// have more lines than the ratchet allows, or lines that are too long.
//
//	go run -C tools ./figures [folder]
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ratchet is the most lines of Go that the library and the examples may have together, generated files counted, and
// testRatchet the most that their tests may have. Lower them with every cut.
const (
	ratchet     = 87783
	testRatchet = 57558
)

// maxColumns is the longest line outside tests; a tab counts as one.
const maxColumns = 120

// maxFile and maxFunction are the longest file and function, in lines.
const (
	maxFile     = 400
	maxFunction = 80
)

// question matches relative pronouns, which one of 250 comment lines of well-kept Go projects has (cilium/ebpf,
// client_golang, vegeta, karpenter); idiom matches phrases that they don't have.
var (
	question = regexp.MustCompile(`\b(what|who|whom|whose)\b`)
	idiom    = regexp.MustCompile(`\b(stands|told|asked for|beside)\b|^// \S+ says\b`)
)

// header is the first line of a file, which isn't counted, nor is the empty line after it.
const header = "// SPDX-License-Identifier: Apache-2.0\n\n"

// part holds the figures of the library or of the examples.
type part struct{ lines, tests, wide int }

// tree holds the figures of a whole checkout.
type tree struct {
	library, examples part
	packages          map[string]int // library lines of each folder, tests apart
	exported          int            // exported names of the library's packages that users can import
	golden            map[string]int // lines of each file that a test's -update writes
	files, functions  int            // files over maxFile, functions over maxFunction
	comments          int            // lines of comments outside tests
	questions, idioms int            // those with a relative pronoun, with an idiom
}

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	t, err := count(os.DirFS(root))
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(2)
	}
	fmt.Print(t)
	if n := t.library.lines + t.examples.lines; n > ratchet {
		fmt.Fprintf(os.Stderr, "figures: %d lines of library and examples, %d more than the ratchet's %d\n", n, n-ratchet,
			ratchet)
		os.Exit(1)
	}
	if n := t.library.tests + t.examples.tests; n > testRatchet {
		fmt.Fprintf(os.Stderr, "figures: %d lines of tests, %d more than the ratchet's %d\n", n, n-testRatchet, testRatchet)
		os.Exit(1)
	}
	if n := t.library.wide + t.examples.wide; n > 0 {
		fmt.Fprintf(os.Stderr, "figures: %d lines are over %d columns\n", n, maxColumns)
		os.Exit(1)
	}
}

func (t *tree) String() string {
	largest, golden := "", 0
	for name, n := range t.packages {
		if n > t.packages[largest] || n == t.packages[largest] && name < largest {
			largest = name
		}
	}
	for _, n := range t.golden {
		golden += n
	}
	var b strings.Builder
	row := func(text string, n int, more ...any) { fmt.Fprintf(&b, "%7d  %s\n", n, fmt.Sprintf(text, more...)) }
	row("lines of library and examples (at most %d)", t.library.lines+t.examples.lines, ratchet)
	row("library lines", t.library.lines)
	row("example lines", t.examples.lines)
	row("test lines (at most %d)", t.library.tests+t.examples.tests, testRatchet)
	row("library packages", len(t.packages))
	row("exported names of the library", t.exported)
	row("lines of the largest package, %s", t.packages[largest], largest)
	row("library lines over %d columns", t.library.wide, maxColumns)
	row("example lines over %d columns", t.examples.wide, maxColumns)
	row("golden lines in %d files", golden, len(t.golden))
	row("files over %d lines", t.files, maxFile)
	row("functions over %d lines", t.functions, maxFunction)
	row("comment lines", t.comments)
	row("of 1,000 of them have what, who, whom or whose", t.questions*1000/max(1, t.comments))
	row("of 1,000 of them have stands, told, asked for, beside or X says", t.idioms*1000/max(1, t.comments))
	return b.String()
}

// count reads every Go file of the tree but those of tools and of testdata.
func count(root fs.FS) (*tree, error) {
	t := &tree{packages: map[string]int{}, golden: map[string]int{}}
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (name == "tools" || name != "." && strings.HasPrefix(e.Name(), ".")):
			return fs.SkipDir
		case e.IsDir():
			return nil
		case strings.Contains(name, "testdata/"):
			if strings.Contains(strings.ToLower(name), "golden") {
				return t.addGolden(root, name)
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		return t.addFile(root, name)
	})
	return t, err
}

func (t *tree) addFile(root fs.FS, name string) error {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	of, folder := &t.library, path.Dir(name)
	inExamples := strings.HasPrefix(name, "examples/")
	if inExamples {
		of = &t.examples
	}
	src = bytes.TrimPrefix(src, []byte(header))
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.ParseComments)
	if err != nil {
		return err
	}
	lines := bytes.Count(src, []byte("\n"))
	if strings.HasSuffix(name, "_test.go") {
		of.tests += lines
		return t.addChecks(root, folder, file)
	}
	of.lines += lines
	for line := range bytes.Lines(src) {
		if utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))) > maxColumns {
			of.wide++
		}
	}
	if lines > maxFile {
		t.files++
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && set.Position(f.End()).Line-set.Position(f.Pos()).Line >= maxFunction {
			t.functions++
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			for line := range strings.Lines(c.Text) {
				t.comments++
				if question.MatchString(line) {
					t.questions++
				}
				if idiom.MatchString(line) {
					t.idioms++
				}
			}
		}
	}
	if !inExamples {
		t.packages[folder] += lines
		if !strings.Contains(name, "internal/") {
			t.exported += exportedNames(file)
		}
	}
	return nil
}

// exportedNames counts the exported constants, variables, functions and types of
// a file, and the exported methods of exported types.
func exportedNames(file *ast.File) (n int) {
	add := func(names ...*ast.Ident) {
		for _, id := range names {
			if id.IsExported() {
				n++
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiverExported(d.Recv.List[0].Type) {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					add(s.Names...)
				}
			}
		}
	}
	return n
}

func receiverExported(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverExported(e.X)
	case *ast.IndexExpr:
		return receiverExported(e.X)
	case *ast.IndexListExpr:
		return receiverExported(e.X)
	case *ast.Ident:
		return e.IsExported()
	}
	return false
}

// addChecks adds the files that a test's calls of golden.Check compare with, as
// far as the text of the call names them.
func (t *tree) addChecks(root fs.FS, folder string, file *ast.File) (err error) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Check" || pattern(f.X) != "golden" {
			return true
		}
		glob := path.Join(folder, pattern(call.Args[1]))
		if !strings.Contains(glob, "testdata/") {
			return true
		}
		found, _ := fs.Glob(root, glob)
		for _, name := range found {
			if e := t.addGolden(root, name); e != nil && err == nil {
				err = e
			}
		}
		return true
	})
	return err
}

// pattern turns an expression of file names into a glob: anything but a literal is a star.
func pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		if e.Name == "golden" {
			return e.Name
		}
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return pattern(e.X) + pattern(e.Y)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Join" {
			parts := make([]string, len(e.Args))
			for i, a := range e.Args {
				parts[i] = pattern(a)
			}
			return filepath.ToSlash(filepath.Join(parts...))
		}
	}
	return "*"
}

func (t *tree) addGolden(root fs.FS, name string) error {
	if info, err := fs.Stat(root, name); err != nil || info.IsDir() {
		return err
	}
	src, err := fs.ReadFile(root, name)
	t.golden[name] = bytes.Count(src, []byte("\n"))
	return err
}
