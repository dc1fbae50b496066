// SPDX-License-Identifier: Apache-2.0

// Enumgen writes the text methods of enumerations, one enum_gen.go a package.
//
//	go run -C tools ./enumgen [folder]
//
// An enumeration is a type T whose texts stand in a variable of the package that
// enum.Of[T] makes. T gets String, MarshalText and UnmarshalText; a method that
// is written by hand stays the only one.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// output is the name of the generated files.
const output = "enum_gen.go"

// maxColumns is the last column of a comment that lists the texts.
const maxColumns = 120

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	files, err := generate(root)
	for path, text := range files {
		if err == nil && text == nil {
			err = os.Remove(path)
		} else if err == nil {
			err = os.WriteFile(path, text, 0o666)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "enumgen:", err)
		os.Exit(1)
	}
}

// generate returns the text of each generated file below root by its path; nil
// stands for a file that is there and must not be.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		text, err := generatePackage(path)
		out := filepath.Join(path, output)
		if _, statErr := os.Stat(out); text != nil || statErr == nil {
			files[out] = text
		}
		return err
	})
	return files, err
}

// enumeration holds what the methods of one type need.
type enumeration struct{ names, texts string }

// generatePackage returns the generated file of one folder, nil where it has no
// enumeration.
func generatePackage(dir string) ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	enums, byHand, pkg := map[string]enumeration{}, map[string]bool{}, ""
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == output {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		pkg = file.Name.Name
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR {
						collect(v, enums)
					}
				}
			case *ast.FuncDecl:
				if decl.Recv != nil {
					byHand[receiver(decl)+"."+decl.Name.Name] = true
				}
			}
		}
	}
	return write(pkg, enums, byHand)
}

// collect adds the enumerations whose texts a declaration of variables holds.
func collect(v *ast.ValueSpec, enums map[string]enumeration) {
	for i, value := range v.Values {
		ast.Inspect(value, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			index, ok := call.Fun.(*ast.IndexExpr)
			if !ok {
				return true
			}
			of, ok := index.X.(*ast.SelectorExpr)
			if !ok || of.Sel.Name != "Of" {
				return true
			}
			pkg, ok := of.X.(*ast.Ident)
			t, local := index.Index.(*ast.Ident)
			if ok && local && pkg.Name == "enum" {
				enums[t.Name] = enumeration{v.Names[i].Name, texts(call.Args[2:])}
			}
			return true
		})
	}
}

// texts lists literals, quoted; "" where one is something else.
func texts(args []ast.Expr) string {
	var out []string
	for _, arg := range args {
		lit, ok := arg.(*ast.BasicLit)
		if !ok {
			return ""
		}
		if lit.Value != `""` { // a value without a text
			out = append(out, lit.Value)
		}
	}
	if last := len(out) - 1; last > 0 {
		return strings.Join(out[:last], ", ") + " or " + out[last]
	}
	return strings.Join(out, "")
}

func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func write(pkg string, enums map[string]enumeration, byHand map[string]bool) ([]byte, error) {
	var b bytes.Buffer
	for _, t := range slices.Sorted(maps.Keys(enums)) {
		e, v := enums[t], strings.ToLower(t[:1])
		comment := "// String returns " + e.texts + ".\n"
		if e.texts == "" || len(comment) > maxColumns {
			comment = ""
		}
		for _, m := range []struct{ name, star, signature, call string }{
			{"String", "", "() string", "String(" + v + ")"},
			{"MarshalText", "", "() ([]byte, error)", "Text(" + v + ")"},
			{"UnmarshalText", "*", "(text []byte) error", "Parse(" + v + ", text)"},
		} {
			if byHand[t+"."+m.name] {
				continue
			}
			if m.name == "String" {
				b.WriteString(comment)
			}
			fmt.Fprintf(&b, "func (%s %s%s) %s%s { return %s.%s }\n", v, m.star, t, m.name, m.signature, e.names, m.call)
		}
	}
	if b.Len() == 0 {
		return nil, nil
	}
	head := "// SPDX-License-Identifier: Apache-2.0\n\n" +
		"// Code generated by tools/enumgen; DO NOT EDIT.\n\npackage " + pkg + "\n\n"
	return format.Source(append([]byte(head), b.Bytes()...))
}
