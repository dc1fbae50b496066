package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hearing hears what is written.
type hearing func(text string)

func (h hearing) Write(p []byte) (int, error) { h(string(p)); return len(p), nil }

// TestAdviseGoesOn: a watch that has worked outlives a look that fails.
func TestAdviseGoesOn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.json")
	put := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Error(err)
		}
	}
	cluster, err := os.ReadFile("discover/cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	put(cluster)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	looks, failed := 0, ""
	out := hearing(func(string) {
		if looks++; looks == 1 {
			put([]byte("gone"))
		} else {
			cancel()
		}
	})
	errs := hearing(func(text string) { failed += text; put(cluster) })
	code := run(ctx, []string{"advise", "-out", filepath.Join(dir, "looks"), "-every", "1s", file}, stdio{nil, out, errs})
	if code != exitInterrupted || looks != 2 || !strings.Contains(failed, "cotenant advise: discover: invalid: "+file+": it is of no kind") {
		t.Errorf("exit %d after %d looks: %s", code, looks, failed)
	}
	for _, args := range [][]string{{"-every", "1ms"}, {"-patience", "-1s"}} {
		if code, _, errs := program(t, "", append([]string{"advise", "-out", dir}, args...)...); code != exitBadInput || !strings.Contains(errs, "use 0, or 1s or more") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
	// Of the first look that fails nothing may be better the next time.
	put([]byte("gone"))
	if code, _, _ := program(t, "", "advise", "-out", filepath.Join(dir, "none"), "-every", "1h", file); code != exitBadInput {
		t.Errorf("a watch begins with a file that cannot be read: exit %d", code)
	}
}
