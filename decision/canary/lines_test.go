package canary

import (
	"os"
	"path/filepath"
	"testing"
)

// What was counted of a growing file is not read again; one that begins anew is counted anew.
func TestCountLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps")
	var s tenantSource
	if _, err := s.countLines(path); err == nil {
		t.Error("a file that is missing has lines")
	}
	for _, c := range []struct {
		text string
		want float64
	}{{"", 0}, {"1\n2\n3", 2}, {"1\n2\n3\n4\n", 4}, {"x\n2\n3\n4\n5\n", 5}, {"1\n", 1}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := s.countLines(path); err != nil || n != c.want || s.size != int64(len(c.text)) {
			t.Errorf("%q: %v lines of %d bytes, %v", c.text, n, s.size, err)
		}
	}
}
