package loadgen

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTheReserveIsKeptUntilTheEnd holds the room that the last artifacts need on a
// disk that the requests fill.
func TestTheReserveIsKeptUntilTheEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	d, err := newRunDir(dir, newScrubber(nil))
	if err != nil {
		t.Fatal(err)
	}
	reserve := filepath.Join(dir, reserveFile)
	if info, err := os.Stat(reserve); err != nil || info.Size() != reserveBytes {
		t.Fatalf("%v, %v", info, err)
	}
	if problems := d.writeData(&Result{}); len(problems) > 0 {
		t.Fatal(problems)
	}
	if _, err := os.Stat(reserve); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reserve is still there (%v)", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}
