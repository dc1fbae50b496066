// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, s := range []string{"one", "two"} {
		must.Do(t, Write(path, []byte(s), 0o644))
		if got, err := os.ReadFile(path); err != nil || string(got) != s {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

func TestFailureKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must.Do(t, Write(path, []byte("old"), 0o644))
	boom := errors.New("boom")
	err := WriteFunc(path, 0o644, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("err = %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("file holds %q", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestNoRegularFileIsReplaced: a program that is told to write to /dev/null, as root, must not put a file in its place.
func TestNoRegularFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(dir, "f")
	if err := os.Symlink(fmt.Sprintf("/dev/fd/%d", w.Fd()), path); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	must.Do(t, Write(path, []byte("one"), 0o644))
	w.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "one" {
		t.Errorf("read %q, %v", got, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("was replaced: %v, %v", info, err)
	}
	if err := Write(dir, []byte("one"), 0o644); err == nil {
		t.Error("wrote to a folder")
	}
}
