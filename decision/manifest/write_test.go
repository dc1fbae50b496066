package manifest

import (
	"errors"
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

var two = []File{{Path: "plan.md", Data: []byte("p")}, {Path: "a/b.yaml", Data: []byte("b")}}

func TestWriteDir(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "deep", "out")
	if err := WriteDir(dir, two); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); got != "a/b.yaml=b;plan.md=p;" {
		t.Errorf("got %s", got)
	}
	before := tree(t, base)
	if err := WriteDir(dir, []File{{Path: "x", Data: []byte("x")}}); !errors.Is(err, ErrExists) {
		t.Errorf("overwrote: %v", err)
	}
	if after := tree(t, base); after != before {
		t.Errorf("touched something: %s", after)
	}
	backup, err := ReplaceDir(dir, []File{{Path: "x", Data: []byte("x")}})
	if err != nil || filepath.Base(backup) != "out.old-1" {
		t.Fatalf("%s, %v", backup, err)
	}
	if tree(t, dir) != "x=x;" || tree(t, backup) != "a/b.yaml=b;plan.md=p;" {
		t.Errorf("got %s and %s", tree(t, dir), tree(t, backup))
	}
	if backup, err = ReplaceDir(dir, two); err != nil || filepath.Base(backup) != "out.old-2" {
		t.Errorf("%s, %v", backup, err)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 3 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestWriteDirIntoEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := WriteDir(dir, two); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); got != "a/b.yaml=b;plan.md=p;" {
		t.Errorf("got %s", got)
	}
	if backup, err := ReplaceDir(filepath.Join(t.TempDir(), "new"), two); err != nil || backup != "" {
		t.Errorf("%q, %v", backup, err)
	}
}

func TestWriteDirRefuses(t *testing.T) {
	base := t.TempDir()
	out := filepath.Join(base, "out")
	for _, path := range []string{"../x", "/etc/x", "", ".", "a/../../x", "a\\b"} {
		err := WriteDir(out, []File{{Path: "ok"}, {Path: path}})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "files[1].path") {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := WriteDir(out, []File{{Path: "x"}, {Path: "x"}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("twice: %v", err)
	}
	// A file that must also be a folder fails half-way: nothing may be left.
	if err := WriteDir(out, []File{{Path: "x"}, {Path: "x/y"}}); err == nil {
		t.Error("no error")
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteDir(file, two); err == nil {
		t.Error("wrote over a file")
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
