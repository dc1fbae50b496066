package canary

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cotenant/cotenant/telemetry/serving"
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

// TestLimitFromBefore: a quantile is that of which no more than the share lies within.
func TestLimitFromBefore(t *testing.T) {
	s := &tenantState{before: []Sample{{}}}
	for i := range 100 {
		s.before[0].Values = append(s.before[0].Values, float64(i+1))
	}
	for _, c := range []struct {
		o    Objective
		want float64
	}{
		{Objective{Quantile: 0.99}, 99}, {Objective{Quantile: 0.5}, 50},
		{Objective{Quantile: 0.99, AtLeast: true}, 2}, {Objective{Quantile: 0.5, AtLeast: true}, 51},
	} {
		if got, _, why := s.limit(0, &c.o, serving.Optional[float64]{}); got != c.o.scale(c.want, allowance) || why != "" {
			t.Errorf("%+v: %v, want %v (%s)", c.o, got, c.want, why)
		}
	}
}
