// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		b.WriteString(filepath.ToSlash(rel) + "=" + string(data) + ";")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var two = folder(File{Path: "plan.md", Data: []byte("p")}, File{Path: "a/b.yaml", Data: []byte("b")})

func folder(files ...File) *Folder { return &Folder{Files: files} }

func TestWrite(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "deep", "out")
	if err := two.Write(dir); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); got != "a/b.yaml=b;plan.md=p;" {
		t.Errorf("got %s", got)
	}
	before := tree(t, base)
	if err := folder(File{Path: "x", Data: []byte("x")}).Write(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("overwrote: %v", err)
	}
	if after := tree(t, base); after != before {
		t.Errorf("touched something: %s", after)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	base := t.TempDir()
	out := filepath.Join(base, "out")
	for _, path := range []string{"../x", "/etc/x", "", ".", "a/../../x"} {
		if err := folder(File{Path: "ok"}, File{Path: path}).Write(out); err == nil {
			t.Errorf("%q is written", path)
		}
	}
	// A file that must also be a folder fails half-way: nothing may be left.
	if err := folder(File{Path: "x"}, File{Path: "x/y"}).Write(out); err == nil {
		t.Error("no error")
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := two.Write(file); err == nil {
		t.Error("wrote over a file")
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
