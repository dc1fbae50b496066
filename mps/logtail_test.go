package mps

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLogTailRotation rotates a log between two looks: no line of the old file is
// lost, also one that its writer adds afterwards.
func TestLogTailRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	line := func(text string) string { return "[2026-11-21 00:49:23.776 Server   673] " + text + "\n" }
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	write := func(f *os.File, text string) {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	old := open()
	write(old, line("before the watch"))
	tail := newLogTail(path)
	defer tail.close()
	var got []string
	look := func() {
		for _, e := range tail.events() {
			if e.Kind == EventError {
				got = append(got, "error")
				continue
			}
			got = append(got, e.Log.Text)
		}
	}
	write(old, line("first"))
	look()
	write(old, line("unread when it was rotated"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Skip(err) // an open file cannot be renamed everywhere
	}
	look() // there is no new file yet
	write(old, line("late"))
	next := open()
	look() // the new one is empty
	write(old, line("last")+"cut off")
	write(next, line("new"))
	look()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	look()
	write(next, line("after it was emptied"))
	look()
	if want := []string{"first", "unread when it was rotated", "late", "last", "error", "new", "after it was emptied"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
